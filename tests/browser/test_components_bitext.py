"""Bitext in Chromium: words light up and are told, by pointer and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import attention
from tests.browser.parts import KEYS, QUERIES
from tests.browser.visiting import until

pytestmark = pytest.mark.browser


def word(opened, side, index):
    return opened.page.locator(f'.bitext .word[data-side="{side}"][data-index="{index}"]')


def said(opened):
    return opened.page.locator(".bitext .reading")


def test_pointing_lights_the_words_that_were_looked_at(demo):
    weights = attention(3, 5, 11, 7)[0][1, 2]
    opened = demo("show=bitext")
    dotted = [row for row in range(QUERIES) if row % 4 and row * 5 % KEYS != weights[row].argmax()]
    lines = opened.page.locator(".bitext path:not([stroke-dasharray])")
    expect(lines).to_have_count(int((weights >= 0.04).sum()))
    expect(opened.page.locator(".bitext path[stroke-dasharray]")).to_have_count(len(dotted))
    word(opened, "query", 4).hover()
    most = int(weights[4].argmax())
    expect(said(opened)).to_contain_text(f"While writing q4, L1 H2 looked at k{most} ({weights[4, most]:.2f})")
    expect(lines).to_have_count(int((weights[4] >= 0.04).sum()))

    def lit() -> None:
        alpha = [word(opened, "key", key).evaluate("e => e.style.backgroundImage") for key in range(KEYS)]
        shown = [float(re.search(r"([\d.]+)\)+$", one)[1]) if one else 0.0 for one in alpha]
        assert shown == pytest.approx([0.6 * weight if weight > 0.02 else 0.0 for weight in weights[4]], abs=0.01)

    until(opened.page, lit)
    word(opened, "key", 2).hover()
    most = int(weights[:, 2].argmax())
    expect(said(opened)).to_contain_text(f"L1 H2 looked at k2 while writing q{most} ({weights[most, 2]:.2f})")
    opened.page.mouse.move(0, 0)
    expect(said(opened)).to_contain_text("Point at a word")


def test_a_word_is_kept_by_click_and_by_keyboard(demo):
    opened = demo("show=bitext")
    page = opened.page
    with opened.run():
        word(opened, "query", 3).click()
    expect(page.get_by_text("word 3", exact=True)).to_be_visible()
    page.mouse.move(0, 0)
    expect(said(opened)).to_contain_text("While writing q3")
    expect(word(opened, "query", 3)).to_have_attribute("aria-pressed", "true")
    for key in ("End", "ArrowLeft"):
        page.keyboard.press(key)
    expect(word(opened, "query", QUERIES - 2)).to_be_focused()
    expect(said(opened)).to_contain_text(f"While writing q{QUERIES - 2}")
    with opened.run():
        page.keyboard.press("Enter")
    expect(page.get_by_text(f"word {QUERIES - 2}", exact=True)).to_be_visible()
    page.keyboard.press("ArrowUp")  # to the word that was looked at most
    most = int(attention(3, 5, 11, 7)[0][1, 2][QUERIES - 2].argmax())
    expect(word(opened, "key", most)).to_be_focused()
    expect(said(opened)).to_contain_text(f"L1 H2 looked at k{most} while writing")
    expect(page.locator('.bitext .word[tabindex="0"]')).to_have_count(2)  # one stop a sentence

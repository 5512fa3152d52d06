"""The Align page as a student meets it: point at a word, and its source words are marked in both maps."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.parts import WRITTEN, box, middle, saved

pytestmark = pytest.mark.browser

QUERY = "text=Two+dogs+run.&longest=15&beam=2&second=multi30k-en-de@001600"
ASKED, DRAWN = f"align?{QUERY}", ".alignments"


def panel(page, number: int) -> Locator:
    return page.locator(f'.alignments canvas[data-panel="{number}"]')


def test_pointing_marks_a_word_in_both_maps_without_the_server_and_a_click_keeps_it_in_the_address(opened):
    opened = opened(ASKED, DRAWN, width=1280, height=800)
    page = opened.page
    first, second = panel(page, 0), panel(page, 1)
    assert box(first)["y"] + 60 < 800, "the first cell is in view"
    first.scroll_into_view_if_needed()
    expect(first).to_have_attribute("data-row", "")
    rest = opened.at_rest()
    first.hover(position=middle(first, 1))
    for canvas in (first, second):
        expect(canvas).to_have_attribute("data-row", "1")
        expect(canvas).to_have_attribute("data-marked", re.compile(r"\d+"))
    reading = page.locator(".alignments .reading")
    expect(reading).to_contain_text("Transformer looks at")
    expect(reading).to_contain_text("Transformer, update 1,600 looks at")
    page.keyboard.press("Escape")
    assert opened.at_rest() == rest
    for name in ("data-left", "data-cell-width"):
        expect(second).to_have_attribute(name, first.get_attribute(name) or "-")
    second.scroll_into_view_if_needed()
    with opened.run():
        second.click(position=middle(second, 0))
    expect(page).to_have_url(re.compile("word=Zwei.*mark=1"))
    page.mouse.move(5, 5)
    expect(first).to_have_attribute("data-row", "0")


def test_a_mark_is_opened_the_keyboard_walks_on_and_the_maps_leave_as_a_picture_that_says_what_it_is(opened):
    page = opened(f"{ASKED}&word=Zwei&mark=1", DRAWN).page
    first = panel(page, 0)
    expect(first).to_have_attribute("data-row", "0")
    first.focus()
    for key, row in (("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowDown", "2"), ("Home", "0")):
        page.keyboard.press(key)
        expect(first).to_have_attribute("data-row", row)
    page.evaluate(WRITTEN)
    name, picture = saved(page.get_by_role("button", name="Save PNG"))
    assert name == "Two-dogs-run_multi30k-en-de_multi30k-en-de-001600_alignments.png"
    assert picture.startswith(b"\x89PNG")
    said = " ".join(text for text, *_ in page.evaluate("window.written"))
    for words in ("Alignments: multi30k-en-de and", "Sentence: Two dogs run.", "attention weight", "0.25"):
        assert words in said


def test_the_training_plays_in_the_browser_and_rests_in_the_address(opened):
    here = opened(f"learning?{QUERY}&screen=training&moment=6", DRAWN)
    page, rest = here.page, here.at_rest()
    moment, slider = page.locator(".alignments .moment"), page.get_by_role("slider", name="Moment of the training")
    expect(moment).to_contain_text("update 3,200")
    slide = "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }"
    slider.evaluate(slide, "2")
    expect(moment).to_contain_text("update 200")
    assert here.at_rest() == rest
    slider.evaluate(slide, "7")
    with here.run():
        page.get_by_role("button", name="Play").click()
    expect(moment).to_contain_text("finished")
    expect(page).to_have_url(re.compile("moment=8"))


LONG = "+and+a+dog".join(["text=A+man", *[""] * 12])
"""A sentence whose map is larger than any window."""


def test_long_maps_fit_their_page(opened):
    address = f"align?{LONG}&beam=1&longest=10&force={'ein+Hund+und+' * 12}&second=multi30k-en-de@001600"
    page = opened(address, DRAWN, height=700).page
    first, room = panel(page, 0), box(page.locator(".alignments figure").first)
    assert box(first)["width"] <= room["width"]
    last = int(first.get_attribute("data-rows") or 0) - 1
    first.hover(position=middle(first, last))
    expect(first).to_have_attribute("data-row", str(last))

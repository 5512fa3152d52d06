"""One sentence, one model, one marked word: what is looked at goes along from page to page by the menu."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.visiting import until

pytestmark = pytest.mark.browser

SENTENCE = "A man rides a red bicycle in the rain."


def asked(page: Page) -> dict[str, str]:
    return {key: value for key, (value,) in parse_qs(urlsplit(page.url).query).items()}


def typed(page: Page) -> Locator:
    return page.get_by_role("textbox", name=re.compile("^Sentence")).first


def to(here, title: str) -> None:
    """By the menu to another page."""
    with here.run():
        here.page.get_by_test_id("stSidebar").get_by_role("link", name=title, exact=True).click()
    expect(here.page.get_by_role("heading", name=title, exact=True)).to_be_visible()


def test_what_is_typed_and_marked_on_the_map_is_found_on_other_pages_and_comes_back(opened) -> None:
    here = opened()
    page = here.page
    here.drawn(page.locator(".map"))
    typed(page).fill(SENTENCE)
    with here.run():
        page.get_by_role("button", name="Run").click()
    page.locator('.map .part[tabindex="0"]').focus()
    with here.run():
        page.keyboard.press("ArrowRight")
    word = asked(page)["word"]
    entries = page.evaluate("history.length")
    to(here, "Translate")
    expect(typed(page)).to_have_value(SENTENCE)
    expect(page.locator(".bitext [aria-pressed=true]")).to_have_text(word)
    assert page.evaluate("history.length") == entries + 1
    other = page.locator(".bitext .target .word").first
    other.click()
    chosen = other.inner_text()
    assert chosen != word
    expect(other).to_have_attribute("aria-pressed", "true")
    here.at_rest()
    to(here, "Align")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page).get("word") == chosen)
    to(here, "What if")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page).get("word") == chosen)
    expect(page.get_by_role("slider").first).to_have_value("0")
    to(here, "Sequences")
    assert "sequence" not in asked(page)
    to(here, "Map")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page) == {"text": SENTENCE, "word": chosen})
    with here.run():
        page.go_back()
    with here.run():
        page.go_back()
    expect(page).to_have_url(re.compile(r"what_if\?"))
    expect(typed(page)).to_have_value(SENTENCE)

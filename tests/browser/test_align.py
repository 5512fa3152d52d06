"""The Align page as a student meets it: point at a word, and its source words are marked in both maps."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Position, expect

from tests.browser.parts import box

pytestmark = pytest.mark.browser

WRITTEN = """() => {
  window.written = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.written.push(text);
    fillText.call(this, text, x, y);
  };
}"""

APP = Path(__file__).parents[2] / "app.py"
ASKED = "text=Two+dogs+run.&longest=15&beam=2&second=multi30k-en-de@001600"


@pytest.fixture
def align(serve, visit):
    """`align("screen=training", dark=True ...)` opens the page once its maps are drawn."""

    def go(query="", **window):
        opened = visit(f"{serve(APP)}/align?{ASKED}&{query}", **window)
        opened.drawn(opened.page.locator(".alignments"))
        return opened

    return go


def panel(page, number: int) -> Locator:
    return page.locator(f'.alignments canvas[data-panel="{number}"]')


def point(canvas: Locator, row: int) -> Position:
    """The middle of a row's first cell, in pixels of its canvas."""
    left, top, width, height = (
        float(canvas.get_attribute(f"data-{name}") or "nan") for name in ("left", "top", "cell-width", "cell-height")
    )
    return {"x": left + width / 2, "y": top + (row + 0.5) * height}


def test_pointing_marks_the_word_and_its_source_words_in_both_maps_without_the_server(align):
    opened = align(width=1280, height=800)
    first, second = panel(opened.page, 0), panel(opened.page, 1)
    assert box(first)["y"] + 60 < 800, "the first cell is in view"
    first.scroll_into_view_if_needed()
    expect(first).to_have_attribute("data-row", "")
    rest = opened.at_rest()
    first.hover(position=point(first, 1))
    for canvas in (first, second):
        expect(canvas).to_have_attribute("data-row", "1")
        expect(canvas).to_have_attribute("data-marked", re.compile(r"\d+"))
    reading = opened.page.locator(".alignments .reading")
    expect(reading).to_contain_text("Transformer looks at")
    expect(reading).to_contain_text("Transformer, update 1,600 looks at")
    opened.page.keyboard.press("Escape")
    assert opened.at_rest() == rest
    for name in ("data-left", "data-cell-width"):
        expect(second).to_have_attribute(name, first.get_attribute(name) or "-")


def test_a_click_keeps_the_mark_in_the_address(align):
    opened = align()
    second = panel(opened.page, 1)
    second.scroll_into_view_if_needed()
    with opened.run():
        second.click(position=point(second, 0))
    expect(opened.page).to_have_url(re.compile("word=Zwei.*mark=1"))
    opened.page.mouse.move(5, 5)
    expect(panel(opened.page, 0)).to_have_attribute("data-row", "0")
    again = align("mark=1-0")
    expect(panel(again.page, 0)).to_have_attribute("data-row", "0")


def test_the_keyboard_reaches_every_word_and_the_maps_leave_as_a_picture_that_says_what_it_is(align):
    opened = align()
    first = panel(opened.page, 0)
    first.focus()
    for _ in range(3):
        opened.page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("data-row", "2")
    opened.page.keyboard.press("Home")
    expect(first).to_have_attribute("data-row", "0")
    opened.page.evaluate(WRITTEN)
    with opened.page.expect_download() as saved:
        opened.page.get_by_role("button", name="Save PNG").click()
    assert saved.value.suggested_filename == "Two-dogs-run_multi30k-en-de_multi30k-en-de-001600_alignments.png"
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    said = " ".join(opened.page.evaluate("window.written"))
    for words in ("Alignments: multi30k-en-de and", "Sentence: Two dogs run.", "attention weight", "0.25"):
        assert words in said


def test_the_training_plays_in_the_browser_and_rests_in_the_address(align):
    opened = align("screen=training&moment=6")
    page = opened.page
    moment = page.locator(".alignments .moment")
    expect(moment).to_contain_text("update 3,200")
    rest = opened.at_rest()
    page.get_by_role("slider", name="Moment of the training").evaluate(
        "slider => { slider.value = '2'; slider.dispatchEvent(new Event('input')); }"
    )
    expect(moment).to_contain_text("update 200")
    assert opened.at_rest() == rest
    page.get_by_role("slider", name="Moment of the training").evaluate(
        "slider => { slider.value = '7'; slider.dispatchEvent(new Event('input')); }"
    )
    with opened.run():
        page.get_by_role("button", name="Play").click()
    expect(moment).to_contain_text("finished")
    expect(page).to_have_url(re.compile("moment=8"))


LONG = "+and+a+dog".join(["text=A+man", *[""] * 12])
"""A sentence whose map is larger than any window."""


def test_long_maps_fit_their_page(align, serve, visit):
    opened = visit(
        f"{serve(APP)}/align?{LONG}&beam=1&longest=10&force={'ein+Hund+und+' * 12}&second=multi30k-en-de@001600",
        height=700,
    )
    opened.drawn(opened.page.locator(".alignments"))
    first, room = panel(opened.page, 0), box(opened.page.locator(".alignments figure").first)
    assert box(first)["width"] <= room["width"]
    last = int(first.get_attribute("data-rows") or 0) - 1
    first.hover(position=point(first, last))
    expect(first).to_have_attribute("data-row", str(last))

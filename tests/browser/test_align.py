"""The Align page as a student meets it: point at a word, and its source words are marked in both maps."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Position, expect

from tests.browser.parts import box, fits
from tests.browser.visiting import until

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
    expect(opened.page.get_by_role("combobox", name="First model", exact=True)).to_be_visible()
    expect(opened.page.locator(".st-key-models")).to_be_hidden()
    assert box(first)["y"] + 60 < 600, "the first cell is in view"
    first.scroll_into_view_if_needed()
    expect(first).to_have_attribute("data-row", "")
    sent, runs = opened.sent, opened.finished
    first.hover(position=point(first, 1))
    for canvas in (first, second):
        expect(canvas).to_have_attribute("data-row", "1")
        expect(canvas).to_have_attribute("data-marked", re.compile(r"\d+"))
    reading = opened.page.locator(".alignments .reading")
    expect(reading).to_contain_text("multi30k-en-de looks at")
    expect(reading).to_contain_text(re.compile(r"update 1,600 \(BLEU [\d.]+\) looks at"))
    opened.page.keyboard.press("Escape")
    assert (opened.sent, opened.finished) == (sent, runs)
    for name in ("data-left", "data-cell-width"):
        expect(second).to_have_attribute(name, first.get_attribute(name) or "-")


def test_a_click_keeps_the_mark_in_the_address(align):
    opened = align()
    second = panel(opened.page, 1)
    second.scroll_into_view_if_needed()
    with opened.run():
        second.click(position=point(second, 0))
    expect(opened.page).to_have_url(re.compile("mark=1%3A"))
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
    sent = opened.sent
    page.get_by_role("slider", name="Moment of the training").evaluate(
        "slider => { slider.value = '2'; slider.dispatchEvent(new Event('input')); }"
    )
    expect(moment).to_contain_text("update 200")
    assert opened.sent == sent
    page.get_by_role("slider", name="Moment of the training").evaluate(
        "slider => { slider.value = '7'; slider.dispatchEvent(new Event('input')); }"
    )
    with opened.run():
        page.get_by_role("button", name="Play").click()
    expect(moment).to_contain_text("finished")
    expect(page).to_have_url(re.compile("moment=8"))


LONG = "+and+a+dog".join(["text=A+man", *[""] * 12])
"""A sentence whose map is larger than any window."""

SEEN = """box => { const { scrollLeft, scrollTop, scrollHeight, clientHeight, scrollWidth, clientWidth } = box;
  return { scrollLeft, scrollTop, down: scrollHeight - clientHeight, across: scrollWidth - clientWidth } }"""


def test_long_maps_scroll_together_and_keep_their_names_in_sight(align, serve, visit):
    opened = visit(
        f"{serve(APP)}/align?{LONG}&beam=1&longest=10&force={'ein+Hund+und+' * 12}&second=multi30k-en-de@001600",
        height=700,
    )
    page = opened.page
    opened.drawn(page.locator(".alignments"))
    scrollers = page.locator(".alignments .scroller")
    first, second = scrollers.nth(0), scrollers.nth(1)
    expect(first).to_be_visible()
    until(page, lambda: first.evaluate(SEEN)["down"] > 60)  # the map is taller than its window
    before = box(panel(page, 0))
    first.evaluate("box => box.scrollTo(0, 60)")
    page.wait_for_function("box => box.scrollTop === 60", arg=second.element_handle())
    second.evaluate("box => box.scrollTo(0, 1e6)")
    page.wait_for_function("box => box.scrollTop > 60", arg=first.element_handle())
    until(page, lambda: first.evaluate(SEEN)["scrollTop"] == second.evaluate(SEEN)["scrollTop"])
    second.evaluate("box => box.scrollTo(0, 60)")  # where it was led before: this time the reader brought it there
    page.wait_for_function("box => box.scrollTop === 60", arg=first.element_handle())
    second.evaluate("box => box.scrollTo(0, 1e6)")
    page.wait_for_function("box => box.scrollTop > 60", arg=first.element_handle())
    after = box(panel(page, 0))
    assert abs(before["y"] - after["y"]) < 1, "the canvas, and the names on its edges, stay where they are"
    panel(page, 0).hover(position={"x": after["width"] / 2, "y": after["height"] - 20})
    last = int(panel(page, 0).get_attribute("data-rows") or 0) - 1
    expect(panel(page, 0)).to_have_attribute("data-row", str(last))  # the last row is at the bottom
    panel(page, 1).focus()
    page.keyboard.press("Home")
    page.wait_for_function("box => box.scrollTop === 0", arg=first.element_handle())


def test_at_400_pixels_the_maps_lie_below_each_other(align):
    opened = align(width=400, dark=True)
    fits(opened.page, 400)
    lies_below = """panels => {
      const [first, second] = panels.map(panel => panel.getBoundingClientRect());
      return first.top < 844 && second.top > first.bottom && second.left === first.left;
    }"""
    opened.page.wait_for_function(lies_below, arg=[panel(opened.page, number).element_handle() for number in range(2)])
    chosen = opened.page.get_by_role("combobox", name="First model", exact=True)
    expect(chosen).to_be_hidden()
    with opened.run():
        opened.page.locator(".st-key-models label").click()
    expect(chosen).to_be_visible()
    expect(opened.page).to_have_url(re.compile("models=True"))

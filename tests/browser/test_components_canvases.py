"""Matrices and alignments with the keyboard, for a screen reader, in any window, and as a file."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import alignment_moments
from tests.browser.parts import box
from tests.browser.visiting import until

pytestmark = pytest.mark.browser


def matrix(page, name):
    return page.locator(f'.matrices canvas[data-matrix="{name}"]')


def focused(page):
    """What has the keyboard, inside shadow trees too: a matrix's name, a panel's number, or a button's text."""
    return page.evaluate("""() => {
      let one = document.activeElement;
      while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
      return one?.dataset?.matrix ?? one?.dataset?.panel ?? one?.textContent ?? "";
    }""")


def test_the_keyboard_walks_matrices_and_the_button_both_ways(demo):
    page = demo("show=board").page
    save = page.get_by_role("button", name="Save PNG")
    stops = [*(matrix(page, name) for name in "ABC"), save]
    stops[0].focus()
    for key, walk in (("Tab", stops[1:]), ("Shift+Tab", stops[-2::-1])):
        for stop in walk:
            page.keyboard.press(key)
            expect(stop).to_be_focused()


def test_the_keyboard_walks_alignments_and_keeps_its_place_over_a_run(demo):
    opened = demo("show=maps,board")
    page = opened.page
    play = page.get_by_role("button", name="Play")
    play.focus()
    for name in ("", "Save PNG", "0", "1"):
        page.keyboard.press("Tab")
        until(page, lambda name: focused(page) == name, name)
    play.focus()
    with opened.run():
        matrix(page, "A").evaluate("canvas => canvas.dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        page.locator('.matrices canvas[data-matrix="B"]').evaluate("""canvas => {
          const press = key => canvas.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
          press('Enter');
        }""")
    page.wait_for_timeout(100)
    assert focused(page) == "Play"


def exposed(page, role):
    """What Chromium tells a screen reader of elements of this role: name and whether it is selected."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    nodes = [node for node in tree if node.get("role", {}).get("value") == role and not node["ignored"]]
    selected = [[p["value"]["value"] for p in node["properties"] if p["name"] == "selected"] for node in nodes]
    return [(node["name"]["value"], *one) for node, one in zip(nodes, selected, strict=True)]


def active(canvas):
    """The attributes of the active descendant."""
    return canvas.evaluate("""canvas => {
      const one = canvas.querySelector(`[id="${canvas.getAttribute('aria-activedescendant')}"]`);
      const of = element => Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value]));
      return one.parentElement === canvas ? of(one) : { ...of(one.parentElement), ...of(one) };
    }""")


def test_a_screen_reader_is_told_the_cell_where_the_keyboard_stands(demo):
    page = demo("show=board").page
    grid = matrix(page, "C")
    expect(grid).to_have_role("grid")
    assert grid.get_attribute("aria-label").startswith("C 1, 2 \N{MULTIPLICATION SIGN} 2. Pick a cell")
    assert [grid.get_attribute(f"aria-{count}count") for count in ("row", "col")] == ["2", "2"]
    grid.focus()
    expect(grid).to_have_attribute("aria-activedescendant", re.compile("."))
    first = active(grid)
    assert (first["aria-rowindex"], first["aria-colindex"]) == ("1", "1")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".matrices .reading")).to_have_text("C1 [r1, c2] = undefined")
    told = [
        ("[r1, i1] = 0.5000 · comes from", False),
        ("[i1, c1] = 1.0000", False),
        ("[r1, c2] = undefined · picked", True),
    ]
    until(page, lambda: exposed(page, "gridcell") == told)
    second = active(grid)
    assert second["id"] != first["id"], "a new element is spoken"
    assert (second["aria-rowindex"], second["aria-colindex"]) == ("1", "2")


def test_a_screen_reader_is_told_the_word_in_focus_and_what_it_looked_at(demo):
    page = demo("show=maps").page
    words = page.locator(".alignments canvas").nth(1)
    expect(words).to_have_role("listbox")
    words.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(words).to_have_attribute("data-row", "2")
    weights = alignment_moments()[0][0].panels[1].weights[2]
    best = int(weights[:3].argmax())

    def told() -> None:
        names = [name for name, _ in exposed(page, "option")]
        assert len(names) == 2
        assert all(name.startswith("“t2”: M1 looks at ") for name in names)
        assert all(f"M2 looks at s{best} {weights[best]:.2f}" in name for name in names)

    until(page, told)
    assert (active(words)["aria-posinset"], active(words)["aria-setsize"]) == ("3", "5")


def test_a_narrower_window_is_drawn_anew(demo):
    opened = demo("show=maps,board", width=1200)
    page = opened.page
    for name in (".alignments", ".matrices"):
        view = page.locator(name)
        draws = opened.drawn(view)
        page.set_viewport_size({"width": 1200 if page.viewport_size["width"] < 600 else 420, "height": 900})
        opened.drawn(view, draws + 1)
    page.set_viewport_size({"width": 420, "height": 900})
    first, second = (page.locator(".alignments figure").nth(i) for i in range(2))
    expect(page.locator(".alignments .sheet")).to_have_attribute("style", "--columns: 1;")
    until(page, lambda: box(second)["y"] > box(first)["y"] + 50)


WRITTEN = """() => {
  window.written = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.written.push([text, y, this.font, this.getTransform().a]);
    fillText.call(this, text, x, y);
  };
}"""


def test_a_saved_picture_writes_symbols_as_the_page_does_and_says_what_marks_mean(demo):
    page = demo("show=board").page
    page.evaluate(WRITTEN)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save PNG").click()
    assert download.value.suggested_filename == "matrices.png"
    width, height = np.frombuffer(download.value.path().read_bytes(), ">u4", 2, 16)
    assert width > 400
    assert height > 150
    written = page.evaluate("window.written")
    texts = [text for text, *_ in written]
    assert not [text for text in texts if "^" in text or "_" in text]
    at = texts.index("A")
    assert texts[at : at + 3] == ["A", "Q", "0"]
    middle, raised, lowered = (y for _, y, *_ in written[at : at + 3])
    assert raised < middle < lowered
    assert "11.9px" in written[at + 1][2], "small letters are smaller"
    assert {"negative, 0, positive, each matrix up to its own ± largest", "weight 0 to 1"} & set(texts)
    assert {"picked", "comes from", "goes to", "further away", "0.50", "2 \N{MULTIPLICATION SIGN} 3"} <= set(texts)
    assert {scale for *_, scale in written} == {2}, "numbers are drawn at the picture's own sharpness"


def test_a_saved_picture_of_alignments_has_titles_notes_and_sharp_words(demo):
    page = demo("show=maps").page
    page.evaluate(WRITTEN)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save PNG").click()
    width, height = np.frombuffer(download.value.path().read_bytes(), ">u4", 2, 16)
    shown = [box(page.locator(f'canvas[data-panel="{number}"]')) for number in range(2)]
    assert width >= 2 * sum(one["width"] for one in shown), "both maps, side by side, at twice the pixels"
    assert height >= 2 * (5 * 22 + 80), "a title, a map and a legend"
    written = page.evaluate("window.written")
    assert [text for text, *_ in written].count("t4") == 2
    assert {"M1", "M2", "N2", "s0", "s3"} <= {text for text, *_ in written}
    assert min(y for text, y, *_ in written if text.startswith("M")) >= 16, "titles stand clear of the edge"
    assert {scale for *_, scale in written} == {2}

"""Components in Chromium for who uses keys or a screen reader, and what a picture that is saved has written in it."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import alignment_moments
from tests.browser.parts import WRITTEN, box, button, matrix, saved
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

FOCUSED = """() => {
  let one = document.activeElement;
  while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
  return one?.dataset?.matrix ?? one?.dataset?.panel ?? one?.textContent ?? "";
}"""
"""What has the keyboard, inside shadow trees too: a matrix's name, a panel's number, or a button's text."""


def test_the_keyboard_walks_every_canvas_and_button_and_keeps_its_place_over_a_run(demo):
    opened = demo("show=maps,board")
    page = opened.page
    play = button(page, "Play")
    play.focus()
    stops = ["", "Save PNG", "0", "1", "A", "B", "C", "Save PNG"]
    for key, walk in (("Tab", stops), ("Shift+Tab", stops[-2::-1])):
        for name in walk:
            page.keyboard.press(key)
            until(page, lambda name: page.evaluate(FOCUSED) == name, name)
    play.focus()
    with opened.run():
        matrix(page, "A").evaluate("canvas => canvas.dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        matrix(page, "B").evaluate(
            "canvas => canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))"
        )
    opened.idle()
    assert page.evaluate(FOCUSED) == "Play"


def exposed(page, role):
    """What Chromium tells a screen reader of elements of this role: name and whether it is selected."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    nodes = [node for node in tree if node.get("role", {}).get("value") == role and not node["ignored"]]
    selected = [[p["value"]["value"] for p in node["properties"] if p["name"] == "selected"] for node in nodes]
    return [(node["name"]["value"], *one) for node, one in zip(nodes, selected, strict=True)]


def active(canvas, *names):
    """These attributes of the active descendant, or of what holds it."""
    found = canvas.evaluate("""canvas => {
      const one = canvas.querySelector(`[id="${canvas.getAttribute('aria-activedescendant')}"]`);
      const of = element => Object.fromEntries([...element.attributes].map(({ name, value }) => [name, value]));
      return one.parentElement === canvas ? of(one) : { ...of(one.parentElement), ...of(one) };
    }""")
    return tuple(found[name] for name in names)


def painted(page):
    """A picture that is saved: its name and size, and what is written in it: text, height and font of each."""
    page.evaluate(WRITTEN)
    name, data = saved(button(page, "Save PNG"))
    written = page.evaluate("window.written")
    assert {scale for *_, scale in written} == {2}, "drawn at the picture's own sharpness"
    return name, *np.frombuffer(data, ">u4", 2, 16), written


def test_a_screen_reader_is_told_the_cell_and_a_saved_picture_has_symbols_and_says_what_marks_mean(demo):
    page = demo("show=board").page
    name, width, height, written = painted(page)
    assert name == "matrices.png"
    assert width > 400
    assert height > 150
    texts = [text for text, *_ in written]
    assert not [text for text in texts if "^" in text or "_" in text]
    at = texts.index("A")
    assert texts[at : at + 3] == ["A", "Q", "0"]
    middle, raised, lowered = (y for _, y, *_ in written[at : at + 3])
    assert raised < middle < lowered
    assert "11.9px" in written[at + 1][2], "small letters are smaller"
    assert "weight 0 to 1" in texts
    assert {"picked", "comes from", "goes to", "further away", "0.50", "2 \N{MULTIPLICATION SIGN} 3"} <= set(texts)

    grid = matrix(page, "C")
    expect(grid).to_have_role("grid")
    assert grid.get_attribute("aria-label").startswith("C 1, 2 \N{MULTIPLICATION SIGN} 2. Pick a cell")
    assert [grid.get_attribute(f"aria-{count}count") for count in ("row", "col")] == ["2", "2"]
    grid.focus()
    expect(grid).to_have_attribute("aria-activedescendant", re.compile("."))
    first, *place = active(grid, "id", "aria-rowindex", "aria-colindex")
    assert place == ["1", "1"]
    page.keyboard.press("ArrowRight")
    expect(page.locator(".matrices .reading")).to_have_text("C1 [r1, c2] = undefined")
    told = [
        ("[r1, i1] = 0.5000 · comes from", False),
        ("[i1, c1] = 1.0000", False),
        ("[r1, c2] = undefined · picked", True),
    ]
    until(page, lambda: exposed(page, "gridcell") == told)
    second, *place = active(grid, "id", "aria-rowindex", "aria-colindex")
    assert second != first, "a new element is spoken"
    assert place == ["1", "2"]


def test_a_screen_reader_is_told_the_word_and_what_it_looked_at_and_a_saved_picture_has_both_maps(demo):
    page = demo("show=maps").page
    _, width, _, written = painted(page)
    shown = [box(page.locator(f'canvas[data-panel="{number}"]')) for number in range(2)]
    assert width >= 2 * sum(one["width"] for one in shown), "both maps, side by side, at twice the pixels"
    assert {"M1", "M2", "N2", "s0", "s3"} <= {text for text, *_ in written}
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
    assert active(words, "aria-posinset", "aria-setsize") == ("3", "5")

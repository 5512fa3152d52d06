"""Components in Chromium: safe text, files, themes, any window, a finger, pointer, keys, screen readers, Chinese."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from playwright.sync_api import expect

from heedmap.messages import revealed
from tests.browser.pages.sample import HOSTILE, alignment_moments, attention
from tests.browser.parts import SHAPE, WRITTEN, box, cell, cell_colours, fits, matrix, pixels, saved, token, viridis
from tests.browser.visiting import until
from ui.components.shared import mounting

pytestmark = pytest.mark.browser

_, HEADS, QUERIES, KEYS = SHAPE

WEIGHTS = attention(*SHAPE)[0][1]
"""Those of the layer that is shown; its head 2 is."""

CLASSES = {"bitext": "bitext", "lines": "head-view"}


def button(page, name, place=0):
    return page.get_by_role("button", name=name).nth(place)


def word(page, side, index):
    return page.locator(f'.word[data-side="{side}"][data-index="{index}"]')


def test_token_text_is_only_ever_text(demo):
    page = demo("hostile=1&show=lines").page
    for index, text in enumerate(map(revealed, HOSTILE[:-1])):
        drawn = token(page, "query", index).locator(".text")
        until(page, lambda one, text: one.text_content() == text, drawn, text)
        assert drawn.locator("*").count() == 0
        assert (token(page, "query", index).get_attribute("title") or "") == text
    assert box(token(page, "query", HOSTILE.index("long" * 50)))["width"] < 400, "a long token is shortened"
    picture = ET.fromstring(saved(button(page, "Save SVG"))[1])
    tags = {element.tag.partition("}")[2] for element in picture.iter()}
    assert tags == {"svg", "path", "rect", "text"}
    assert HOSTILE[2] in {element.text for element in picture.iter()}
    assert page.evaluate("typeof window.executed") == "undefined"


def test_pictures_can_be_kept(demo):
    page = demo("causal=1&mean=1").page
    names = dict(saved(button(page, f"Save {kind}", place)) for place, kind in ((0, "PNG"), (1, "PNG"), (0, "SVG")))
    assert set(names) == {"all-heads.png", "lines.png", "lines.svg"}
    for name in ("all-heads.png", "lines.png"):
        assert names[name][:8] == b"\x89PNG\r\n\x1a\n"
        width, height = np.frombuffer(names[name], ">u4", 2, 16)
        assert width > 600
        assert height > 400
    picture = ET.fromstring(names["lines.svg"])
    paths = [element for element in picture.iter() if element.tag.endswith("path")]
    assert len(paths) == int((attention(*SHAPE, causal=True)[0][1] >= 0.04).sum()), "each weight seen has a line"
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert {f"q{i}" for i in range(QUERIES)} | {f"k{i}" for i in range(KEYS)} <= set(texts)


def test_pictures_follow_the_theme(demo):
    page = demo("causal=1").page
    canvas, visible = cell(page, 0, 0).locator("canvas"), np.tri(QUERIES, KEYS, dtype=bool)
    before = cell_colours(canvas, QUERIES, KEYS)
    page.emulate_media(color_scheme="dark")

    def redrawn() -> None:
        after = cell_colours(canvas, QUERIES, KEYS)
        assert (before[visible] == after[visible]).all(), "a weight's colour is the same in both themes"
        assert (before[~visible] != after[~visible]).any(), "a masked cell's grey is not"

    until(page, redrawn)


@pytest.mark.parametrize(("width", "scale"), [(400, 2.0), (1600, 1.0)])
def test_pictures_fit_the_window_and_the_screen_and_a_finger_keeps_and_picks(demo, width, scale):
    opened = demo("shape=3,12,11,7", width=width, scale=scale, touch=True)
    page = opened.page
    fits(page, width)
    first = box(cell(page, 0, 0, 12))
    assert min(first["width"], first["height"]) >= 40, "large enough for a finger"
    left, right = box(token(page, "query", 0)), box(token(page, "key", 0))
    assert right["x"] - left["x"] - left["width"] >= 60, "room for lines"
    with opened.run():
        cell(page, 0, 1, 12).tap()
    expect(page.get_by_text("selected (0, 1)")).to_be_visible()
    with opened.run():
        token(page, "query", 2).tap()
    expect(token(page, "query", 2)).to_have_attribute("aria-pressed", "true")


def test_masked_and_nan_cells_have_marks_of_their_own_and_the_legend_says_so(demo):
    opened = demo("causal=1&nan=1")
    page, (weights, visible) = opened.page, attention(*SHAPE, causal=True)
    drawn = pixels(cell(page, 0, 0).locator("canvas"))[..., :3]
    side = drawn.shape[1] // KEYS
    blocks = drawn.reshape(QUERIES, side, KEYS, side, 3).swapaxes(1, 2)
    spread = blocks.max(axis=-1) - blocks.min(axis=-1)
    masked = blocks[~visible]
    assert (spread[~visible] <= 30).all(), "masked cells are neutral"
    assert all(len(np.unique(block.reshape(-1, 3), axis=0)) == 2 for block in masked), "and hatched in two greys"
    assert blocks[2, 1].reshape(-1, 3).tolist() == [[255, 31, 107]] * side**2
    others = visible.copy()
    others[2, 1] = False
    assert np.abs(blocks[others][:, 0, 0] - viridis(weights[0, 0][others])).max() <= 1
    for said in ("weight 0 to 1", "masked", "not a number", "queries down, keys across"):
        expect(page.locator(".all-heads .legend")).to_contain_text(said)
    with opened.run():
        cell(page, 0, 0).click()
    token(page, "query", 2).hover()
    expect(token(page, "key", 1).locator(".number")).to_have_text("not a number")
    expect(page.locator(".head-view path[stroke-dasharray='4 4']")).to_have_count(1)


def test_a_grid_is_picked_by_click_and_walked_and_picked_with_the_keyboard(demo):
    opened = demo()
    page = opened.page
    expect(cell(page, 1, 2)).to_have_attribute("aria-selected", "true")
    with opened.run():
        cell(page, 2, 4).click()
    expect(page.get_by_text("selected (2, 4)")).to_be_visible()
    expect(cell(page, 2, 4)).to_have_attribute("aria-selected", "true")
    expect(cell(page, 1, 2)).to_have_attribute("aria-selected", "false")
    token(page, "query", 3).hover()
    expect(token(page, "key", 6).locator(".number")).to_have_text(f"{attention(*SHAPE)[0][2, 4, 3, 6]:.3f}")
    expect(page.locator('.all-heads .cell[tabindex="0"]')).to_have_count(1)
    button(page, "Save PNG").focus()
    page.keyboard.press("Shift+Tab")
    expect(cell(page, 2, 4)).to_be_focused()
    for key, place in [("Home", (2, 0)), ("Control+End", (2, 4)), ("ArrowUp", (1, 4)), ("ArrowLeft", (1, 3))]:
        page.keyboard.press(key)
        expect(cell(page, *place)).to_be_focused()
    expect(cell(page, 1, 3)).to_have_attribute("aria-label", "L1, H3")
    with opened.run():
        page.keyboard.press("Enter")
    expect(page.get_by_text("selected (1, 3)")).to_be_visible()
    expect(cell(page, 1, 3)).to_be_focused()


def test_twelve_by_twelve_heads_are_light_and_drawn_once(demo):
    opened = demo("shape=12,12,64,64&show=grid")
    scripts = len(mounting.script(mounting.ALL))  # which a browser keeps
    assert 0 < opened.brought - scripts <= 600_000, "everything else that the page received"
    opened.at_rest()
    draws = opened.drawn(opened.page.locator(".all-heads"))
    with opened.run():
        cell(opened.page, 7, 9, 12).click()
    expect(cell(opened.page, 7, 9, 12)).to_have_attribute("aria-selected", "true")
    assert opened.brought < 20_000, "a pick does not send the thumbnails again"
    opened.at_rest()
    assert opened.drawn(opened.page.locator(".all-heads")) <= draws + 1, "a pick draws the grid once at most"


@pytest.mark.parametrize(
    ("show", "back", "across"), [("bitext", "ArrowLeft", "ArrowUp"), ("lines", "ArrowUp", "ArrowRight")]
)
def test_pointing_lights_the_words_that_were_looked_at_and_one_is_kept_by_click_and_by_keyboard(
    demo, show, back, across
):
    opened, weights = demo(f"show={show}"), WEIGHTS[2]
    page, reading = opened.page, opened.page.locator(".lines .reading")
    dotted = [row for row in range(QUERIES) if row % 4 and row * 5 % KEYS != weights[row].argmax()]
    lines = page.locator(f".{CLASSES[show]} path:not([stroke-dasharray])")
    expect(lines).to_have_count(int((weights >= 0.04).sum()))
    expect(page.locator(".lines path[stroke-dasharray]")).to_have_count(len(dotted))
    word(page, "query", 4).hover()
    most = int(weights[4].argmax())
    expect(reading).to_contain_text(f"While writing q4, L1 H2 looked at k{most} ({weights[4, most]:.2f})")
    expect(lines).to_have_count(int((weights[4] >= 0.04).sum()))

    def lit() -> None:
        alpha = [word(page, "key", key).evaluate("e => e.style.backgroundImage") for key in range(KEYS)]
        shown = [float(re.search(r"([\d.]+)\)+$", one)[1]) if one else 0.0 for one in alpha]
        assert shown == pytest.approx([0.6 * weight if weight > 0.02 else 0.0 for weight in weights[4]], abs=0.01)

    until(page, lit)
    numbers = page.locator(".source .number").all_text_contents()
    assert numbers == ([f"{weight:.3f}" for weight in weights[4]] if show == "lines" else [])
    word(page, "key", 2).hover()
    most = int(weights[:, 2].argmax())
    expect(reading).to_contain_text(f"L1 H2 looked at k2 while writing q{most} ({weights[most, 2]:.2f})")
    page.mouse.move(0, 0)
    expect(reading).to_contain_text("Point at a word")
    with opened.run():
        word(page, "query", 3).click()
    expect(page.get_by_text("word 3", exact=True)).to_be_visible()
    page.mouse.move(0, 0)
    expect(reading).to_contain_text("While writing q3")
    expect(word(page, "query", 3)).to_have_attribute("aria-pressed", "true")
    for key in ("End", back):
        page.keyboard.press(key)
    expect(word(page, "query", QUERIES - 2)).to_be_focused()
    expect(reading).to_contain_text(f"While writing q{QUERIES - 2}")
    with opened.run():
        page.keyboard.press("Enter")
    expect(page.get_by_text(f"word {QUERIES - 2}", exact=True)).to_be_visible()
    page.keyboard.press(across)  # to the word that was looked at most
    most = int(weights[QUERIES - 2].argmax())
    expect(word(page, "key", most)).to_be_focused()
    expect(reading).to_contain_text(f"L1 H2 looked at k{most} while writing")
    expect(page.locator('.word[tabindex="0"]')).to_have_count(2)  # one stop a side


def test_the_mean_in_columns_has_the_lines_of_all_heads_and_the_last_of_many_tokens_is_reached(demo):
    page = demo("show=lines&mean=1").page
    expect(page.locator(".head-view .sheet path")).to_have_count(int((WEIGHTS >= 0.04).sum()))
    expect(page.locator(".head-view .legend text")).to_have_text([f"H{head}" for head in range(HEADS)])
    word(page, "query", 3).hover()
    means = [f"{mean:.3f}" for mean in WEIGHTS.mean(axis=0)[3]]
    until(page, lambda: page.locator(".source .number").all_text_contents() == means)
    page = demo("shape=1,2,150,90&show=lines").page
    word(page, "query", 0).focus()
    page.keyboard.press("End")
    expect(word(page, "query", 149)).to_be_focused()
    expect(word(page, "query", 149)).to_be_in_viewport()


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


TEXTS = """root => {
  const spoken = ["aria-label", "aria-valuetext", "title"];
  const found = [...root.querySelectorAll("*")].flatMap(one => spoken.map(name => one.getAttribute(name) ?? ""));
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) found.push(walker.currentNode.data);
  return [...found, ...window.written.map(([text]) => text)];
}"""

NAMES = {"PNG", "SVG", "NaN", "viridis", "Esc", "nat"}
"""Words that are the same in both languages; the sample's own names are a letter and a number."""

READ = {
    "all-heads": (".cell", (), ".legend", "纵向.查询.横向.键"),
    "alignments": ("canvas", ("ArrowDown",), ".reading", "“t0”\uff1aM1 看"),
    "matrices": ('[data-matrix="B"]', ("ArrowDown", "ArrowRight"), ".reading", r"B \[i2, c2\] = 无定义"),
    "bitext": (".target .word", ("End",), ".reading", "写 q10 时"),
    "head-view": (".source .word", ("End",), ".reading", "时看了 k6"),
}
"""Each component: what gets the keyboard, which keys, and what is said where."""


def test_what_is_read_and_saved_is_chinese_of_nothing_too(demo):
    for query in ("shape=1,2,0,0", "show=grid,bitext,lines,maps,board&causal=1&nan=1"):
        page = demo(f"{query}&lang=zh").page
        page.evaluate(WRITTEN)  # what canvases write from now on
        for name, (first, keys, place, said) in READ.items():
            view = page.locator(f".{name}")
            if "show" in query:
                view.locator(first).first.focus()
                for key in keys:
                    page.keyboard.press(key)
                expect(view.locator(place)).to_contain_text(re.compile(said))
                saved(view.get_by_role("button", name="保存 PNG"))
            elif name in ("all-heads", "head-view"):
                expect(view.locator(".empty")).to_be_visible()
            else:
                continue
            texts = " ".join(view.evaluate(TEXTS))
            assert re.search("[\u4e00-\u9fff]", texts)
            assert not re.search(r"[{}]", texts), "a field that nobody filled"
            assert set(re.findall("[A-Za-z]{2,}", texts)) - NAMES == set()

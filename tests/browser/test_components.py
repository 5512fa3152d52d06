"""The canvas components as a reader meets them: what is drawn, and what a hover, a click or a key does."""

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect
from plotly.colors import sequential

from tests.browser.pages.sample import HOSTILE, attention

pytestmark = pytest.mark.browser

PAGE = Path(__file__).parent / "pages" / "components.py"
LAYERS, HEADS, QUERIES, KEYS = SHAPE = (3, 5, 11, 7)

COUNT_STROKES = """() => {
  const stroke = CanvasRenderingContext2D.prototype.stroke;
  window.strokes = 0;
  CanvasRenderingContext2D.prototype.stroke = function (...path) { window.strokes++; stroke.apply(this, path); };
}"""

CONTRAST = """element => {
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(channel => linear(channel / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const text = luminance(getComputedStyle(element).color);
  const page = luminance(getComputedStyle(document.querySelector(".stApp")).backgroundColor);
  return (Math.max(text, page) + 0.05) / (Math.min(text, page) + 0.05);
}"""


@pytest.fixture
def demo(serve, visit):
    """`demo("shape=...", dark=True ...)` opens the demonstration page once both pictures are drawn."""

    def go(query="", **window):
        opened = visit(f"{serve(PAGE)}/?{query}", **window)
        for name, left_out in [("all-heads", "without=grid"), ("head-view", "without=lines")]:
            if left_out not in query:
                opened.drawn(opened.page.locator(f".{name}"))
        return opened

    return go


def token(page, side, index) -> Locator:
    return page.locator(f'.token[data-side="{side}"][data-index="{index}"]')


def cell(page, layer, head, heads=HEADS) -> Locator:
    return page.locator(".all-heads .cell").nth(layer * heads + head)


def chip(page, head) -> Locator:
    return page.locator(".head-view .chip").nth(head)


def box(locator: Locator) -> dict[str, float]:
    """Where it is on the screen: x, y, width and height."""
    found = locator.bounding_box()
    assert found
    return found


def footer(page) -> Locator:
    return page.locator(".head-view .footer")


def numbers(page, side) -> list[str]:
    return page.locator(f'.token[data-side="{side}"] .number').all_text_contents()


def pixels(canvas: Locator) -> np.ndarray:
    """A canvas's own pixels (not the screen's), as (height, width, red green blue alpha)."""
    width, height, values = canvas.evaluate(
        "c => [c.width, c.height, [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]]"
    )
    return np.array(values, dtype=int).reshape(height, width, 4)


def cell_colours(canvas: Locator, queries: int, keys: int) -> np.ndarray:
    """The colour in the middle of each cell of a thumbnail, (query, key, red green blue)."""
    drawn = pixels(canvas)
    side = drawn.shape[1] // keys
    assert drawn.shape[:2] == (queries * side, keys * side)
    return drawn[side // 2 :: side, side // 2 :: side, :3]


def viridis(weights: np.ndarray) -> np.ndarray:
    """What Plotly's own scale gives for these weights on the square-root scale with 255 steps."""
    stops = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in sequential.Viridis])
    at = np.rint(254 * np.sqrt(weights)) / 254 * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, channel]) for channel in range(3)], axis=-1)


# --- All heads


def test_a_thumbnail_is_its_head_s_matrix(demo):
    page = demo("without=lines").page
    weights, _ = attention(*SHAPE)
    for layer, head in [(0, 0), (1, 4), (2, 3)]:
        drawn = cell_colours(cell(page, layer, head).locator("canvas"), QUERIES, KEYS)
        assert np.abs(drawn - viridis(weights[layer, head])).max() <= 1
        lightness = (drawn @ [0.2126, 0.7152, 0.0722]).ravel()[weights[layer, head].ravel().argsort()]
        assert (np.diff(lightness) >= -1).all(), "a heavier weight is never darker"
        assert lightness[-1] > lightness[0] + 100


def test_masked_and_nan_cells_have_marks_of_their_own_and_the_legend_says_so(demo):
    page = demo("causal=1&nan=1&without=lines").page
    weights, visible = attention(*SHAPE, causal=True)
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
    legend = page.locator(".all-heads .legend")
    expect(legend).to_contain_text("weight 0 to 1, square-root colour scale (viridis)")
    expect(legend).to_contain_text("masked")
    expect(legend).to_contain_text("NaN")
    expect(legend).to_contain_text("queries down, keys across")


def test_pointing_at_a_head_enlarges_it_without_the_server(demo):
    opened = demo("without=lines")
    page, sent = opened.page, opened.sent
    cell(page, 2, 1).hover()
    preview = page.locator(".all-heads .preview")
    expect(preview).to_be_visible()
    expect(preview).to_contain_text("layer 2, head 1")
    expect(preview).to_contain_text("note of 2, 1")
    drawn = cell_colours(preview.locator("canvas"), QUERIES, KEYS)
    assert np.abs(drawn - viridis(attention(*SHAPE)[0][2, 1])).max() <= 1
    page.mouse.move(1, 1)
    expect(preview).to_be_hidden()
    assert opened.sent == sent


def test_a_click_picks_a_head_and_the_choice_comes_back(demo):
    opened = demo()
    page = opened.page
    expect(cell(page, 1, 2)).to_have_attribute("aria-selected", "true")
    with opened.run():
        cell(page, 2, 4).click()
    expect(page.get_by_text("picked Picked(layer=2, head=4)")).to_be_visible()
    expect(page.get_by_text("selected (2, 4)")).to_be_visible()
    expect(cell(page, 2, 4)).to_have_attribute("aria-selected", "true")
    expect(cell(page, 1, 2)).to_have_attribute("aria-selected", "false")
    token(page, "query", 3).hover()
    expected = attention(*SHAPE)[0][2].mean(axis=0)[3]
    expect(token(page, "key", 6).locator(".number")).to_have_text(f"{expected[6]:.3f}")


def test_a_grid_is_walked_and_picked_with_the_keyboard(demo):
    opened = demo("without=lines")
    page = opened.page
    assert page.locator('.all-heads .cell[tabindex="0"]').count() == 1
    page.get_by_role("button", name="Save PNG").focus()
    page.keyboard.press("Tab")
    expect(cell(page, 1, 2)).to_be_focused()
    for key, place in [
        ("ArrowRight", (1, 3)),
        ("ArrowDown", (2, 3)),
        ("ArrowDown", (2, 3)),
        ("Home", (2, 0)),
        ("Control+End", (2, 4)),
        ("ArrowLeft", (2, 3)),
        ("ArrowUp", (1, 3)),
    ]:
        page.keyboard.press(key)
        expect(cell(page, *place)).to_be_focused()
    expect(page.locator(".all-heads .preview")).to_contain_text("layer 1, head 3")
    expect(cell(page, 1, 3)).to_have_attribute("aria-label", "layer 1, head 3. note of 1, 3")
    with opened.run():
        page.keyboard.press("Enter")
    expect(page.get_by_text("selected (1, 3)")).to_be_visible()
    expect(cell(page, 1, 3)).to_be_focused()


def test_twelve_by_twelve_heads_are_light_and_quick(demo):
    opened = demo("shape=12,12,64,64&without=lines")
    assert opened.received <= 700_000, "everything that the page received"
    grid = opened.page.locator(".all-heads")
    milliseconds = []
    for scheme in ("dark", "light", "dark"):
        milliseconds.append(float(grid.get_attribute("data-draw-milliseconds") or "inf"))
        draws = opened.drawn(grid)
        opened.page.emulate_media(color_scheme=scheme)
        opened.drawn(grid, draws + 1)
    assert min(milliseconds) < 200, "the best of a few: the machine may have other work"
    received = opened.received
    with opened.run():
        cell(opened.page, 7, 9, 12).click()
    expect(cell(opened.page, 7, 9, 12)).to_have_attribute("aria-selected", "true")
    assert opened.received - received < 20_000, "a pick does not send the thumbnails again"


# --- Head view


def test_hover_isolates_a_token_without_the_server(demo):
    opened = demo("without=grid")
    page = opened.page
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")
    sent, finished = opened.sent, opened.finished
    means = attention(*SHAPE)[0][1].mean(axis=0)
    token(page, "query", 3).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * KEYS} lines drawn")
    expect(footer(page)).to_contain_text("Numbers: mean weight of the 5 heads shown; bars: one a head")
    assert numbers(page, "key") == [f"{mean:.3f}" for mean in means[3]]
    assert set(numbers(page, "query")) == {""}
    token(page, "key", 2).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    assert numbers(page, "query") == [f"{mean:.3f}" for mean in means[:, 2]]
    page.mouse.move(1, 1)
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")
    assert (opened.sent, opened.finished) == (sent, finished)


def test_a_click_locks_another_releases_and_python_hears_both(demo):
    opened = demo("without=grid")
    page = opened.page
    with opened.run():
        token(page, "key", 4).click()
    expect(page.get_by_text("event HeadViewEvent(locked=Token(side='key', index=4)")).to_be_visible()
    token(page, "query", 0).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    expect(token(page, "key", 4)).to_have_attribute("aria-selected", "true")
    with opened.run():
        token(page, "key", 5).click()
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "true")
    with opened.run():
        token(page, "key", 5).click()
    expect(page.get_by_text("event HeadViewEvent(locked=None, released=True")).to_be_visible()
    with opened.run():
        token(page, "query", 9).click()
    with opened.run():
        page.keyboard.press("Escape")
    page.mouse.move(1, 1)
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")
    events = page.get_by_text("events [").text_content() or ""
    assert events.count("HeadViewEvent(") == 5, "each event is told once"


def test_a_token_across_from_the_locked_one_selects_the_pair(demo):
    opened = demo("without=grid")
    page = opened.page
    with opened.run():
        token(page, "key", 4).click()
    with opened.run():
        token(page, "query", 10).click()
    expect(page.get_by_text("event HeadViewEvent(locked=None, released=False, pair=(10, 4)")).to_be_visible()
    mean = attention(*SHAPE)[0][1].mean(axis=0)[10, 4]
    reading = page.locator(".head-view .reading")
    expect(reading).to_have_text(f"Selected pair q10 (query 10) → k4 (key 4): {mean:.3f}, mean of the 5 heads shown.")
    expect(token(page, "query", 10)).to_have_class(re.compile("paired"))


def test_a_click_on_a_line_selects_its_pair(demo):
    opened = demo("shape=1,1,3,2&without=grid")
    page = opened.page
    query, key = box(token(page, "query", 2)), box(token(page, "key", 1))
    x = (query["x"] + query["width"] + key["x"]) / 2
    y = (query["y"] + key["y"]) / 2 + key["height"] / 2  # only the line from query 2 to key 1 passes so low here
    page.mouse.move(x, y)
    weight = attention(1, 1, 3, 2)[0][0, 0, 2, 1]
    expect(page.locator(".head-view .reading")).to_have_text(
        f"q2 (query 2) → k1 (key 1): {weight:.3f}, head 0. Click selects the pair."
    )
    with opened.run():
        page.mouse.click(x, y)
    expect(page.get_by_text("pair=(2, 1)").first).to_be_visible()


def test_a_pair_and_a_lock_can_come_from_outside(demo):
    opened = demo("without=grid")
    page = opened.page
    with opened.run():
        page.get_by_role("button", name="select the pair").click()
    expect(token(page, "query", 1)).to_have_class(re.compile("paired"))
    expect(token(page, "key", 2)).to_have_class(re.compile("paired"))
    expect(token(page, "key", 3)).to_have_attribute("aria-selected", "true")
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")


def test_chips_toggle_and_a_double_click_isolates_and_restores(demo):
    opened = demo("without=grid")
    page = opened.page
    with opened.run():
        chip(page, 1).click()
    expect(chip(page, 1)).to_have_attribute("aria-pressed", "false")
    expect(footer(page)).to_contain_text(f"{(HEADS - 1) * QUERIES * KEYS} lines drawn")
    expect(page.get_by_text("heads=(0, 2, 3, 4)").first).to_be_visible()
    with opened.run():
        chip(page, 3).dblclick()
    expect(footer(page)).to_contain_text(f"{QUERIES * KEYS} lines drawn")
    expect(page.get_by_text("heads=(3,)").first).to_be_visible()
    token(page, "query", 0).hover()
    assert numbers(page, "key") == [f"{weight:.3f}" for weight in attention(*SHAPE)[0][1, 3, 0]]
    expect(footer(page)).to_contain_text("Numbers: weight in head 3")
    with opened.run():
        chip(page, 3).dblclick()
    expect(page.get_by_text("heads=(0, 1, 2, 3, 4)").first).to_be_visible()
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(HEADS)


def test_chips_and_tokens_obey_the_keyboard(demo):
    opened = demo("without=grid")
    page = opened.page
    chip(page, 0).focus()
    page.keyboard.press("ArrowRight")
    expect(chip(page, 1)).to_be_focused()
    with opened.run():
        page.keyboard.press("Enter")
    expect(chip(page, 1)).to_have_attribute("aria-pressed", "false")
    with opened.run():
        page.keyboard.press("Shift+Enter")
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(1)
    with opened.run():
        page.keyboard.press("Shift+Enter")
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(HEADS)
    for _ in range(3):  # past the two buttons, to the column's one stop
        page.keyboard.press("Tab")
    expect(token(page, "query", 0)).to_be_focused()
    for key, side, index in [
        ("ArrowDown", "query", 1),
        ("End", "query", 10),
        ("ArrowRight", "key", 6),
        ("ArrowUp", "key", 5),
    ]:
        page.keyboard.press(key)
        expect(token(page, side, index)).to_be_focused()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    with opened.run():
        page.keyboard.press("Enter")
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    with opened.run():
        page.keyboard.press(" ")
    expect(page.get_by_text("pair=(5, 5)").first).to_be_visible()
    with opened.run():
        page.keyboard.press("Escape")
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "false")


def test_strokes_are_capped_and_the_cap_is_stated(demo):
    opened = demo("shape=1,12,64,64&without=grid")
    page = opened.page
    expect(footer(page)).to_contain_text("2,000 strongest of 49,152 lines drawn")
    page.evaluate(COUNT_STROKES)
    view = page.locator(".head-view")
    draws = opened.drawn(view)
    page.set_viewport_size({"width": 1000, "height": 900})
    opened.drawn(view, draws + 1)
    assert 500 < page.evaluate("window.strokes") / (opened.drawn(view) - draws) <= 2000
    assert page.locator(".head-view .token").count() < 80, "only tokens in view are elements"


def test_a_threshold_leaves_lines_out_and_sends_no_weights(demo):
    opened = demo("shape=1,12,64,64&without=grid")
    page, received = opened.page, opened.received
    slider = page.get_by_role("slider")
    slider.focus()
    with opened.run():
        slider.press("ArrowRight")
    weights = attention(1, 12, 64, 64)[0][0]
    expect(footer(page)).to_contain_text(re.compile(r"of [\d,]+ lines drawn; weights below 0.05 are left out"))
    assert f" {(weights >= np.float32(0.05)).sum():,} lines drawn" in (footer(page).text_content() or "")
    assert opened.received - received < 20_000


def test_the_last_of_many_tokens_is_reached_and_drawn(demo):
    opened = demo("shape=1,2,150,90&without=grid")
    page = opened.page
    token(page, "query", 0).focus()
    page.keyboard.press("End")
    last = token(page, "query", 149)
    expect(last).to_be_focused()
    expect(last).to_be_in_viewport()
    expect(footer(page)).to_contain_text(f"{2 * 90} lines drawn")
    page.keyboard.press("ArrowRight")
    expect(token(page, "key", 89)).to_be_focused()
    expect(token(page, "key", 89)).to_be_in_viewport()


def test_rounded_weights_are_close_and_said_to_be_rounded(demo):
    page = demo("shape=1,12,300,301&without=grid").page
    expect(footer(page)).to_contain_text("weights are rounded to 1/254 of the row's largest")
    for head in range(1, 12):
        chip(page, head).click()
    token(page, "query", 2).hover()
    expect(footer(page)).to_contain_text("weight in head 0")
    shown = np.array([float(number) for number in numbers(page, "key")])
    weights = attention(1, 12, 300, 301)[0][0, 0, 2]
    assert np.abs(shown - weights[: len(shown)]).max() <= weights.max() / 508 + 0.0005
    largest = np.argsort(weights)[::-1][:8]
    assert all(shown[i] == round(float(weights[i]), 3) for i in largest if i < len(shown))


# --- Both


def test_token_text_is_only_ever_text(demo):
    opened = demo("hostile=1&without=grid")
    page = opened.page
    for index, text in enumerate(HOSTILE[:-1]):
        drawn = token(page, "query", index).locator(".text")
        assert drawn.text_content() == text
        assert drawn.locator("*").count() == 0
        assert (token(page, "query", index).get_attribute("title") or "") == text
    assert box(token(page, "query", HOSTILE.index("long" * 50)))["width"] < 400, "a long token is shortened"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save SVG").click()
    picture = ET.fromstring(Path(download.value.path()).read_text(encoding="utf-8"))
    tags = {element.tag.partition("}")[2] for element in picture.iter()}
    assert tags == {"svg", "path", "rect", "text"}
    assert HOSTILE[2] in {element.text for element in picture.iter()}
    assert page.evaluate("typeof window.executed") == "undefined"


def test_pictures_can_be_kept(demo):
    page = demo("causal=1").page
    names = {}
    for number, kind in [(0, "PNG"), (1, "PNG"), (0, "SVG")]:
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {kind}").nth(number).click()
        names[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    assert set(names) == {"all-heads.png", "head-view.png", "head-view.svg"}
    for name in ("all-heads.png", "head-view.png"):
        assert names[name][:8] == b"\x89PNG\r\n\x1a\n"
        width, height = np.frombuffer(names[name], ">u4", 2, 16)
        assert width > 600
        assert height > 400
    picture = ET.parse(io.BytesIO(names["head-view.svg"])).getroot()
    paths = [element for element in picture.iter() if element.tag.endswith("path")]
    assert len(paths) == HEADS * int(np.tri(QUERIES, KEYS).sum()), "every visible pair and no masked one has a line"
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert {f"q{i}" for i in range(QUERIES)} | {f"k{i}" for i in range(KEYS)} <= set(texts)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_and_pictures_follow_the_theme(demo, dark):
    opened = demo("causal=1", dark=dark)
    page = opened.page
    for selector in (".all-heads .column", ".all-heads .legend", ".token .text", ".head-view .footer", ".chip"):
        assert page.locator(selector).first.evaluate(CONTRAST) >= 7
    before = cell_colours(cell(page, 0, 0).locator("canvas"), QUERIES, KEYS)
    draws = opened.drawn(page.locator(".all-heads"))
    page.emulate_media(color_scheme="light" if dark else "dark")
    opened.drawn(page.locator(".all-heads"), draws + 1)
    after = cell_colours(cell(page, 0, 0).locator("canvas"), QUERIES, KEYS)
    visible = np.tri(QUERIES, KEYS, dtype=bool)
    assert (before[visible] == after[visible]).all(), "a weight's colour is the same in both themes"
    assert (before[~visible] != after[~visible]).any(), "a masked cell's grey is not"


@pytest.mark.parametrize(("width", "scale"), [(400, 2.0), (1600, 1.0)])
def test_pictures_fit_the_window_and_the_screen(demo, width, scale):
    page = demo("shape=3,12,11,7", width=width, scale=scale).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lines = page.locator(".head-view .sheet canvas")
    assert lines.evaluate("c => c.width") == round(box(lines)["width"] * scale)
    assert lines.evaluate("c => c.height") == round(box(lines)["height"] * scale)
    first = box(cell(page, 0, 0, 12))
    assert min(first["width"], first["height"]) >= 40, "large enough for a finger"
    left, right = box(token(page, "query", 0)), box(token(page, "key", 0))
    assert right["x"] - left["x"] - left["width"] >= 60, "room for lines"


def test_a_finger_locks_and_picks(demo):
    opened = demo(touch=True, width=400)
    page = opened.page
    with opened.run():
        cell(page, 0, 1).tap()
    expect(page.get_by_text("selected (0, 1)")).to_be_visible()
    with opened.run():
        token(page, "query", 2).tap()
    expect(token(page, "query", 2)).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("shape", ["0,0,0,0", "1,2,0,0", "1,2,3,0"])
def test_nothing_to_show_is_said(demo, shape):
    page = demo(f"shape={shape}").page
    expect(page.locator(".all-heads .empty")).to_have_text(re.compile("no attention to show"))
    expect(page.locator(".head-view .empty")).to_be_visible()


def test_one_token_is_one_line(demo):
    page = demo("shape=1,1,1,1").page
    expect(footer(page)).to_contain_text("1 line drawn")
    expect(page.locator(".all-heads .cell")).to_have_count(1)


def test_nan_is_drawn_apart_and_said(demo):
    opened = demo("nan=1")
    page = opened.page
    with opened.run():
        cell(page, 0, 0).click()
    expect(footer(page)).to_contain_text("1 NaN (not a number): dashed.")
    token(page, "query", 2).hover()
    expect(token(page, "key", 1).locator(".number")).to_have_text("NaN")

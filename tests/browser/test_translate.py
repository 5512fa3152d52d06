"""What a person does on Translate: type, read, hover, click, reload, save; another head asks for nothing."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from heedmap import DecodingOptions, Record, Translation, load, translate
from heedmap.plots.picture import Picture
from tests.browser.parts import box, cell_colours, fits, heatmap_cell, heatmap_colours, menu, radio, viridis
from tests.browser.parts import take_example as take
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SENTENCE = "Two dogs are playing in the snow."
DRAWN = (".bitext", ".head-choice", ".all-heads", ".heatmap, .head-view")
"""All parts of the page."""


@pytest.fixture(scope="module")
def expected() -> Translation:
    """The same run, without the page."""
    return translate(load(ROOT / "checkpoints" / "multi30k-en-de"), SENTENCE, DecodingOptions())


@pytest.fixture
def record(expected: Translation) -> Record:
    return expected.record


def test_a_line_goes_on_below_a_word_of_the_next_row(opened):
    """At 390 pixels the end token stands below the first word, whose line passes behind it."""
    page = opened(f"translate?text={SENTENCE}", ".bitext", width=390).page
    first, below = (page.locator(".bitext .source .word").nth(i) for i in (0, -1))

    def passes() -> None:
        over, under = box(first), box(below)
        assert under["y"] > over["y"] + over["height"] - 1
        side = {"x": over["x"], "y": under["y"] + 1, "width": over["width"], "height": 2}
        drawn = np.asarray(Image.open(io.BytesIO(page.screenshot(clip=side))).convert("RGB")).astype(int)
        assert np.abs(drawn - drawn[0, 0]).max() > 30, "nothing but the ground"

    until(page, passes)


def show(here, view: str) -> None:
    """Open one of the views beside the controls."""
    with here.run():
        here.page.get_by_role("radio", name=view).click()


def told(picture: Picture, query: int, key: int) -> str:
    """What the heatmap says of a cell."""
    value = f"{picture.values[query, key]:.3f}"
    return f"Query {picture.queries.labels[query]}, key {picture.keys.labels[key]}: {value}."


def test_from_a_sentence_to_its_numbers_and_back_by_the_address(opened, expected) -> None:
    here = opened("translate")
    page = here.page
    page.get_by_role("textbox", name="Sentence").fill(SENTENCE)
    with here.run():
        page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text(expected.text, exact=True)).to_be_visible()
    show(here, "Step by step")
    strip = page.get_by_test_id("written-tokens")
    expect(strip.locator(".token")).to_have_count(len(expected.steps))
    first = strip.locator(".token").first
    first.hover()
    expect(first.locator(".others")).to_be_visible()
    expect(first.locator(".others .chosen")).to_contain_text(f"{expected.steps[0].probability:.3f}")
    show(here, "Heatmap")

    page.locator(".all-heads .cell").nth(2 * 4 + 1).click()
    expect(page.locator(".heatmap .title")).to_contain_text("decoder.2.cross · head 1")
    picture = expected.record["decoder.2.cross"].picture(1, words=True)
    reading, canvas = page.locator(".heatmap .reading"), page.locator(".heatmap canvas")
    most = int(picture.values[2].argmax())
    canvas.hover(position=heatmap_cell(canvas, 2, most))
    expect(reading).to_have_text(told(picture, 2, most))
    canvas.click(position=heatmap_cell(canvas, 1, 3))
    expect(page).to_have_url(re.compile("pair=decoder.cross"))
    expect(reading).to_have_text(f"{told(picture, 1, 3)} Marked.")
    maps = [
        expected.record[f"decoder.{layer}.cross"].picture(head, words=True) for layer in range(4) for head in range(4)
    ]
    expect(page.locator(".all-heads .weight")).to_have_text([f"{one.values[1, 3]:.3f}" for one in maps])

    address = page.url
    show(here, "Step by step")
    expect(page.get_by_text(f"Step {expected.axes.written.words.index(1) + 1} of")).to_be_visible()
    again = opened(address)
    expect(again.page.get_by_text(expected.text, exact=True)).to_be_visible()
    expect(again.page.locator(".heatmap .title")).to_contain_text("decoder.2.cross · head 1")
    expect(again.page.locator(".all-heads .tick")).to_have_count(16)


def test_a_step_and_a_hypothesis_can_be_chosen(opened) -> None:
    here = opened("translate?view=steps&written=3")
    expect(here.page.get_by_text("Step 3 of")).to_be_visible()
    show(here, "Beams")
    tree = here.page.locator(".st-key-tree .js-plotly-plot")
    expect(tree).to_be_visible()
    words = tree.locator("text").filter(has_text="</s>").last  # the end of the answer

    def inside() -> None:
        place, around = box(words), box(tree)
        assert place["y"] + place["height"] <= around["y"] + around["height"]

    until(here.page, inside)
    width = box(tree)["width"]
    here.page.set_viewport_size({"width": 390, "height": 800})
    expect(words).to_have_css("font-size", "11px")  # it may be scrolled sideways, and is not squeezed
    until(here.page, lambda: box(tree)["width"] == width)
    fits(here.page, 390)


def test_the_keyboard_walks_the_heatmap_s_cells_and_marks_one(opened, expected) -> None:
    page = opened(f"translate?layer=3&head=0&text={SENTENCE}", ".heatmap").page
    picture = expected.record["decoder.3.cross"].picture(0, words=True)
    layer, reading = page.locator(".heatmap canvas"), page.locator(".heatmap .reading")
    expect(page.locator(".heatmap .title")).to_contain_text("decoder.3.cross")
    layer.focus()
    for pressed in ("End", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(pressed)
    query, key = 1, len(picture.keys) - 2
    words = told(picture, query, key)
    expect(reading).to_have_text(words)

    def ringed() -> None:
        active = layer.get_attribute("aria-activedescendant")
        spoken = layer.locator(f"[role=gridcell][id='{active}']")  # what a screen reader says where the keyboard stands
        assert (spoken.text_content(), spoken.get_attribute("aria-selected")) == (words, "false")
        left, top, wide, tall = (float(part) for part in (layer.get_attribute("data-cells") or "").split())
        place = [left + key * wide, top + (query + 0.5) * tall]  # one pixel of the canvas is one of the page here
        ring = layer.evaluate("(one, [x, y]) => [...one.getContext('2d').getImageData(x - 2, y, 3, 1).data]", place)
        assert max(ring[:3]) < 60, "black outside"
        assert min(ring[8:11]) > 150, "and white inside, which are seen on any ground"

    until(page, ringed)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("pair=decoder.cross"))
    expect(reading).to_have_text(f"{words} Marked.")


def shown(page: Page, record: Record, site: str, head: int | str) -> None:
    """The heatmap, the grid, the lines and the sentences show this head, to the last cell."""
    picture = record[site].picture(head, words=True)
    name = "mean of 4 heads" if head == "mean" else f"head {head}"
    expect(page.locator(".heatmap .title")).to_have_text(f"{site} · {name}")
    seen = picture.visible
    stops = viridis(np.where(seen, picture.values, 0.0))

    def drawn() -> None:
        colours = heatmap_colours(page.locator(".heatmap canvas"), *picture.values.shape)
        assert np.abs(colours - stops)[seen].max() <= 3
        assert (np.abs(colours - stops)[~seen].max(axis=-1) > 3).all()  # masked cells are not those of weight 0

    until(page, drawn)
    until(page, lambda: (f"head={head}" in page.url) == (head != 3))  # no default stands in the address


def test_another_head_asks_nothing_of_the_server_and_every_picture_shows_it(opened, record) -> None:
    here = opened(f"translate?text={SENTENCE}", *DRAWN)
    page, rest, entries = here.page, here.at_rest(), here.page.evaluate("history.length")
    shown(page, record, "decoder.2.cross", 3)
    said = page.locator(".bitext .reading")
    page.locator(".all-heads .cell").nth(3 * 4 + 2).click()
    shown(page, record, "decoder.3.cross", 2)
    expect(said).to_contain_text("layer 3 head 2")
    expect(page.locator(".head-choice .said > :visible")).to_contain_text("Layer 3 head 2")
    page.get_by_text("More on this head").click()
    atlas = page.get_by_role("link", name="This head in the atlas")
    expect(atlas).to_have_attribute("href", re.compile(r"/atlas\?.*kind=decoder\.cross&layer=3&head=2"))
    radio(page, "Attention", "Encoder self")
    shown(page, record, "encoder.3.self", 2)
    expect(said).to_contain_text("layer 3 head 2 (Encoder self)")
    expect(page.locator(".bitext .target .word")).to_have_text(list(record["encoder.3.self"].queries.merged().texts))
    words = record["encoder.3.self"].picture(2, words=True)
    thumbnail = page.locator(".all-heads .cell").nth(3 * 4 + 2).locator("canvas")
    stops = viridis(words.values).round()
    until(page, lambda: np.array_equal(cell_colours(thumbnail, *words.values.shape), stops))
    radio(page, "Head", "mean")
    shown(page, record, "encoder.3.self", "mean")
    page.locator(".heatmap").get_by_role("switch", name="Relative scale").click()
    expect(page).to_have_url(re.compile("#kind=encoder.self&layer=3&head=mean&relative=true$"))
    assert page.evaluate("history.length") == entries + 4
    last = page.url
    before = (("encoder.3.self", "mean"), ("encoder.3.self", 2), ("decoder.3.cross", 2), ("decoder.2.cross", 3))
    for site, head in before:
        page.evaluate("history.back()")
        shown(page, record, site, head)
    page.evaluate("history.go(4)")
    expect(page).to_have_url(last)
    expect(page.locator(".heatmap .title")).to_have_text("encoder.3.self · mean of 4 heads")
    assert here.at_rest() == rest

    fresh = opened(f"translate?text={SENTENCE}#{page.url.partition('#')[2]}", *DRAWN)
    canvases = [one.page.locator(".heatmap canvas") for one in (here, fresh)]
    until(page, lambda: len({one.evaluate("canvas => canvas.toDataURL()") for one in canvases}) == 1)
    expect(fresh.page).to_have_url(last)

    def kept() -> None:
        expect(page).to_have_url(re.compile("#kind=encoder.self&layer=3&head=mean&relative=true"))
        expect(page.locator(".heatmap .title")).to_have_text("encoder.3.self · mean of 4 heads")

    with here.run():  # what the server does next knows of it, and undoes nothing
        page.get_by_role("button", name="Display").click()
        page.mouse.move(0, 0)  # what opens below the pointer shows its tooltip, which would lie over the choice
        page.get_by_text("Whole words", exact=True).click()
    expect(page).to_have_url(re.compile("words=False"))
    kept()
    with here.run():
        take(page, 3)
    expect(page.locator(".bitext .source .word").first).not_to_have_text("Two")
    kept()


def test_lines_follow_the_head_and_links_and_slow_views_know_it(opened, record) -> None:
    here = opened(f"translate?text={SENTENCE}&view=head_view", *DRAWN)
    page, rest = here.page, here.at_rest()
    lines = page.locator(".head-view path:not([stroke-dasharray])")

    def counted(layer: int, head: int) -> int:
        return int((record[f"decoder.{layer}.cross"].picture(head, words=True).values >= 0.04).sum())

    expect(lines).to_have_count(counted(2, 3))
    radio(page, "Layer", "0")
    expect(lines).to_have_count(counted(0, 3))
    radio(page, "Layer", "1")
    expect(page).to_have_url(re.compile("#layer=1$"))
    for way, layer in ((-1, 0), (1, 1)):
        page.evaluate("way => history.go(way)", way)
        expect(lines).to_have_count(counted(layer, 3))
    assert here.at_rest() == rest

    page.get_by_text("More on this head").click()
    with here.run():
        page.get_by_role("link", name="What if this were changed?").click()
    expect(page).to_have_url(re.compile(r"/what_if\?.*layer=1"))
    with here.run():
        menu(page, "Translate").click()
    expect(page).to_have_url(re.compile(r"/translate\?.*#layer=1$"))
    expect(lines).to_have_count(counted(1, 3))

    show(here, "Downloads")
    with here.run():  # the server draws what is handed out, and is asked once the reader pauses
        radio(page, "Head", "2")
    expect(page.get_by_text("decoder.1.cross · head 2")).to_be_visible()
    assert box(page.locator(".head-choice"))["height"] > 0

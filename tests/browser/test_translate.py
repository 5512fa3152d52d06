"""What a person does on the Translate page: type, run, read, hover, click, reload, take the numbers away."""

import io
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box, fits
from tests.browser.visiting import until
from transformer import DecodingOptions, load, translate
from transformer.plots.picture import Picture

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SENTENCE = "Two dogs are playing in the snow."


@pytest.fixture(scope="module")
def expected():
    """The same run, without the page."""
    return translate(load(ROOT / "checkpoints" / "multi30k-en-de"), SENTENCE, DecodingOptions())


def strip(page: Page):
    return page.get_by_test_id("written-tokens")


def run_sentence(here, text: str) -> None:
    here.page.get_by_role("textbox", name="Sentence").fill(text)
    with here.run():
        here.page.get_by_role("button", name="Run", exact=True).click()


def show(here, view: str) -> None:
    """Open one of the views beside the controls."""
    with here.run():
        here.page.get_by_role("radio", name=view).click()


def cell(page: Page, query: int, key: int) -> tuple[float, float]:
    """Where a cell of the heatmap lies on the screen, once it is in view."""
    canvas = page.locator(".heatmap canvas")
    canvas.scroll_into_view_if_needed()
    around = box(canvas)
    left, top, wide, tall = (float(part) for part in (canvas.get_attribute("data-cells") or "").split())
    return around["x"] + left + (key + 0.5) * wide, around["y"] + top + (query + 0.5) * tall


def told(page: Page, picture: Picture, query: int, key: int) -> str:
    """What the heatmap says of a cell."""
    value = f"{picture.values[query, key]:.3f}"
    return f"Query {picture.queries.labels[query]}, key {picture.keys.labels[key]}: {value}."


def test_from_a_sentence_to_the_numbers_on_disk(opened, expected) -> None:
    here = opened("translate")
    run_sentence(here, SENTENCE)
    expect(here.page.get_by_text(expected.text, exact=True)).to_be_visible()
    show(here, "Step by step")
    expect(strip(here.page).locator(".token")).to_have_count(len(expected.steps))

    first = strip(here.page).locator(".token").first
    first.hover()
    expect(first.locator(".others")).to_be_visible()
    expect(first.locator(".others .chosen")).to_contain_text(f"{expected.steps[0].probability:.3f}")
    show(here, "Heatmap")

    here.page.locator(".all-heads .cell").nth(2 * 4 + 1).click()
    expect(here.page.locator(".heatmap .title")).to_contain_text("decoder.2.cross · head 1")

    picture = expected.record["decoder.2.cross"].picture(1, words=True)
    reading = here.page.locator(".heatmap .reading")
    here.page.mouse.move(*cell(here.page, 2, int(picture.values[2].argmax())))
    expect(reading).to_have_text(told(here.page, picture, 2, int(picture.values[2].argmax())))

    here.page.mouse.click(*cell(here.page, 1, 3))
    expect(here.page).to_have_url(re.compile("pair=decoder.cross"))
    expect(reading).to_have_text(f"{told(here.page, picture, 1, 3)} Marked.")
    weights = [
        [f"{expected.record[f'decoder.{layer}.cross'].picture(head, words=True).values[1, 3]:.3f}" for head in range(4)]
        for layer in range(4)
    ]
    expect(here.page.locator(".all-heads .weight")).to_have_text([weight for row in weights for weight in row])

    address = here.page.url
    show(here, "Step by step")
    expect(here.page.get_by_text(f"Step {expected.axes.written.words.index(1) + 1} of")).to_be_visible()
    again = opened(address.split("/", 3)[3])
    expect(again.page.get_by_text(expected.text, exact=True)).to_be_visible()
    expect(again.page.locator(".heatmap .title")).to_contain_text("decoder.2.cross · head 1")
    expect(again.page.locator(".all-heads .tick")).to_have_count(16)

    show(again, "Downloads")
    with again.page.expect_download() as download:
        again.page.get_by_role("button", name="This matrix (CSV)").click()
    table = pd.read_csv(io.StringIO(Path(download.value.path()).read_text("utf-8")), index_col=0)
    assert table.shape == picture.values.shape
    assert table.iloc[2, 1] == pytest.approx(picture.values[2, 1], abs=1e-5)
    assert list(table.index)[:2] == list(picture.queries.labels)[:2]


def test_a_step_and_a_hypothesis_can_be_chosen(opened) -> None:
    here = opened("?view=Step+by+step&step=2")
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
    here = opened(f"?layer=3&head=0&text={SENTENCE}")
    page, picture = here.page, expected.record["decoder.3.cross"].picture(0, words=True)
    layer, reading = page.locator(".heatmap canvas"), page.locator(".heatmap .reading")
    expect(page.locator(".heatmap .title")).to_contain_text("decoder.3.cross")
    here.drawn(page.locator(".heatmap"))
    layer.focus()
    for pressed in ("End", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(pressed)
    query, key = 1, len(picture.keys) - 2
    words = told(page, picture, query, key)
    expect(reading).to_have_text(words)

    def ringed() -> None:
        active = layer.get_attribute("aria-activedescendant")
        spoken = page.locator(f"[id='{active}']")
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


def test_choosing_a_head_moves_nothing(opened) -> None:
    here = opened("translate?text=Someone+is+cooking+dinner+in+a+small+kitchen.")
    page = here.page
    cells, parts = page.locator(".all-heads .cell"), (".all-heads .grid", ".heatmap canvas", ".bitext .target")
    here.drawn(page.locator(".heatmap"))
    before = [box(page.locator(part)) for part in parts]
    for head in range(16):
        cells.nth(head).dispatch_event("click")
        expect(page.locator(".heatmap .title")).to_have_text(f"decoder.{head // 4}.cross · head {head % 4}")
        assert [box(page.locator(part)) for part in parts] == before

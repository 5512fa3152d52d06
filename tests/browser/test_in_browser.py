"""Translate's heads, layers, pairs and thresholds: the browser draws them, writes the address, and asks for nothing."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box, cell_colours, heatmap_colours, take_example, viridis
from tests.browser.visiting import Visit, until
from transformer import DecodingOptions, Record, load, translate

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SENTENCE = "Two dogs are playing in the snow."


@pytest.fixture(scope="module")
def record() -> Record:
    """The same run, without the page."""
    return translate(load(ROOT / "checkpoints" / "multi30k-en-de"), SENTENCE, DecodingOptions()).record


@pytest.fixture
def opened(serve, visit):
    """`opened(address)` opens Translate there, once all of it is drawn."""

    def go(address: str = "") -> Visit:
        here = visit(f"{serve(ROOT / 'app.py')}/translate?text={SENTENCE}{address}")
        for name in ("bitext", "head-choice", "all-heads"):
            here.drawn(here.page.locator(f".{name}"))
        here.drawn(here.page.locator(".heatmap, .head-view").first)
        return here

    return go


def radio(page: Page, group: str, name: str) -> None:
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


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
    until(page, lambda: (f"head={head}" in page.url) == (head != 1))  # no default stands in the address


def test_another_head_asks_nothing_of_the_server_and_every_picture_shows_it(opened, record) -> None:
    here = opened()
    page, rest, entries = here.page, here.at_rest(), here.page.evaluate("history.length")
    shown(page, record, "decoder.2.cross", 1)
    said = page.locator(".bitext .reading")
    page.locator(".all-heads .cell").nth(3 * 4 + 2).click()
    shown(page, record, "decoder.3.cross", 2)
    expect(said).to_contain_text("layer 3 head 2")
    expect(page.locator(".head-choice .said > :visible")).to_contain_text("Layer 3 head 2")
    page.get_by_text("More on this head").click()
    atlas = page.get_by_role("link", name="This head in the atlas")
    expect(atlas).to_have_attribute("href", re.compile(r"/atlas\?.*site=decoder\.3\.cross&head=2"))
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
    before = (("encoder.3.self", "mean"), ("encoder.3.self", 2), ("decoder.3.cross", 2), ("decoder.2.cross", 1))
    for site, head in before:
        page.evaluate("history.back()")
        shown(page, record, site, head)
    page.evaluate("history.go(4)")
    expect(page).to_have_url(last)
    expect(page.locator(".heatmap .title")).to_have_text("encoder.3.self · mean of 4 heads")
    assert here.at_rest() == rest

    fresh = opened(f"#{page.url.partition('#')[2]}")
    canvases = [one.page.locator(".heatmap canvas") for one in (here, fresh)]
    until(page, lambda: len({one.evaluate("canvas => canvas.toDataURL()") for one in canvases}) == 1)
    expect(fresh.page).to_have_url(last)

    with here.run():  # what the server does next knows of it, and undoes nothing
        page.get_by_role("button", name="Display").click()
        page.get_by_text("Whole words", exact=True).click()
    expect(page).to_have_url(re.compile("words=False"))
    expect(page).to_have_url(re.compile("#kind=encoder.self&layer=3&head=mean&relative=true"))
    expect(page.locator(".heatmap .title")).to_have_text("encoder.3.self · mean of 4 heads")
    with here.run():
        take_example(page, 3)
    expect(page.locator(".bitext .source .word").first).not_to_have_text("Two")
    expect(page).to_have_url(re.compile("#kind=encoder.self&layer=3&head=mean&relative=true"))
    expect(page.locator(".heatmap .title")).to_have_text("encoder.3.self · mean of 4 heads")


def test_lines_follow_head_and_threshold_and_links_and_slow_views_know_them(opened, record) -> None:
    here = opened("&view=head_view")
    page, rest = here.page, here.at_rest()
    lines = page.locator(".head-view .footer")
    slider = page.locator(".head-view input[type=range]")

    def counted(layer: int, head: int, least: float) -> str:
        values = record[f"decoder.{layer}.cross"].picture(head, words=True).values.astype(np.float32)
        return f"{int((values >= np.float32(least)).sum())} lines drawn; weights below {least} are left out."

    expect(lines).to_contain_text(counted(2, 1, 0.05))
    slider.focus()
    slider.press("End")
    expect(lines).to_contain_text(counted(2, 1, 0.5))
    radio(page, "Layer", "0")
    expect(lines).to_contain_text(counted(0, 1, 0.5))
    radio(page, "Layer", "1")
    expect(page).to_have_url(re.compile("#layer=1&threshold=0.5$"))
    assert here.at_rest() == rest
    page.evaluate("history.go(-1)")
    expect(lines).to_contain_text(counted(0, 1, 0.5))
    page.evaluate("history.go(1)")
    expect(lines).to_contain_text(counted(1, 1, 0.5))

    page.get_by_text("More on this head").click()
    link = page.get_by_role("link", name="What if this were changed?")
    with here.run():
        link.click()
    expect(page).to_have_url(re.compile(r"/what_if\?.*layer=1"))
    menu = page.get_by_test_id("stSidebar").get_by_role("link", name="Translate", exact=True)
    with here.run():
        menu.click()
    expect(page).to_have_url(re.compile(r"/translate\?.*#layer=1&threshold=0.5$"))
    expect(lines).to_contain_text(counted(1, 1, 0.5))

    with here.run():
        page.get_by_role("radio", name="Downloads").click()
    with here.run():  # the server draws what is handed out, and is asked once the reader pauses
        radio(page, "Head", "3")
    expect(page.get_by_text("decoder.1.cross · head 3")).to_be_visible()
    assert box(page.locator(".head-choice"))["height"] > 0

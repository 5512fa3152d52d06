"""Figures in a real Chromium: what is drawn, what hovering says, what a click selects."""

from collections.abc import Callable, Iterator
from pathlib import Path

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, expect

from tests.browser.parts import box
from tests.browser.visiting import until
from tests.figures.examples import HOSTILE, picture
from transformer.figures.export import html
from transformer.figures.heatmap import heatmap

pytestmark = pytest.mark.browser

MASKED = "masked: this query may not see this key"

Shown = Callable[[go.Figure], Page]


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Shown]:
    """`shown(figure)` is its exported page, drawn; a request or an error of the page fails the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 1000})
    page, wrong = context.new_page(), list[str]()
    page.set_default_timeout(60_000)

    def refuse(dialog: Dialog) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    def local_only(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            wrong.append(request.url)

    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", local_only)

    def draw(figure: go.Figure) -> Page:
        file = tmp_path / "figure.html"
        file.write_text(html(figure), encoding="utf-8")
        page.goto(file.as_uri())
        page.wait_for_selector(".js-plotly-plot .main-svg .heatmaplayer .hm")
        page.evaluate("""() => {
            window.clicked = [];
            const plot = document.querySelector('.js-plotly-plot');
            plot.on('plotly_click', event => clicked.push(...event.points.map(point => point.customdata)));
        }""")
        return page

    yield draw
    context.close()
    assert wrong == []


def cell(page: Page, shape: tuple[int, int], query: int, key: int) -> tuple[float, float]:
    """A point in a cell, off its middle."""
    place = box(page.locator(".nsewdrag").first)
    return place["x"] + (key + 0.8) * place["width"] / shape[1], place["y"] + (query + 0.3) * place["height"] / shape[0]


def said(page: Page) -> str:
    """What is said of the cell that is pointed at, without marks of direction."""
    return (page.locator(".hovertext").text_content() or "").replace("\u2068", "").replace("\u2069", "")


@pytest.mark.parametrize("where", [(0, 0), (3, 2), (4, 6)])
def test_hovering_names_both_tokens_and_the_weight_and_a_click_selects_the_pair(
    shown: Shown, where: tuple[int, int]
) -> None:
    drawn = picture(5, 7)
    page = shown(heatmap(drawn))
    page.mouse.move(*cell(page, (5, 7), *where))
    until(page, lambda: said(page) == f"query: ▁q{where[0]}key: ▁k{where[1]}weight {drawn.values[where]:.6g}")
    page.mouse.click(*cell(page, (5, 7), *where))
    assert page.wait_for_function("clicked.length && clicked").json_value() == [list(where)]


def test_hovering_a_masked_cell_says_that_it_is_masked(shown: Shown) -> None:
    page = shown(heatmap(picture(5, 5, causal=True)))
    page.mouse.move(*cell(page, (5, 5), 1, 3))
    until(page, lambda: MASKED in said(page))
    expect(page.locator(".legendtext")).to_have_text([MASKED])


def test_hovering_a_large_map_names_tokens_whose_labels_are_left_out(shown: Shown) -> None:
    drawn = picture(113, 113, causal=True)
    page = shown(heatmap(drawn))
    page.mouse.move(*cell(page, (113, 113), 101, 37))
    until(page, lambda: said(page).startswith("query: ▁q101key: ▁k37weight "))
    assert float(said(page).rpartition(" ")[2]) == pytest.approx(drawn.values[101, 37], rel=1e-5)
    page.mouse.move(*cell(page, (113, 113), 37, 101))
    page.wait_for_function("document.querySelector('.hovertext')?.textContent.includes('masked')")


def test_hostile_tokens_are_drawn_as_text(shown: Shown) -> None:
    page = shown(heatmap(picture(texts=HOSTILE)))
    labels = page.locator(".yaxislayer-above text, .y2tick text, .overaxes-above text")
    asked = {"<b>bold</b>", "<script>alert(1…", "a&lt;b", "$x^2$", "%{z}"}
    until(page, lambda: asked <= set(labels.all_text_contents()))
    assert page.locator(".js-plotly-plot script").count() == 0

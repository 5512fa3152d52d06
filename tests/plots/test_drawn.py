"""Figures in a real Chromium: what is drawn, what hovering says."""

from collections.abc import Callable, Iterator
from pathlib import Path

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Dialog, Page, Request

from tests.browser.parts import box
from tests.browser.visiting import until
from tests.plots.examples import HOSTILE, picture
from transformer.plots.export import html
from transformer.plots.heatmap import heatmap

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


def test_hovering_names_both_tokens_and_the_weight_or_that_it_is_masked(shown: Shown) -> None:
    drawn = picture(5, 7, causal=True)
    page = shown(heatmap(drawn))
    page.mouse.move(*cell(page, (5, 7), 3, 2))
    until(page, lambda: said(page) == f"query: ▁q3key: ▁k2weight {drawn.values[3, 2]:.6g}")
    page.mouse.move(*cell(page, (5, 7), 1, 3))
    until(page, lambda: MASKED in said(page))


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
    labels = page.locator(".ytick text")
    asked = {"<b>bold</b>", "<script>alert(1)</script>", "a&lt;b", "$x^2$", "%{z}"}
    until(page, lambda: asked <= {text.strip("\u2068\u2069") for text in labels.all_text_contents()})
    assert page.locator(".js-plotly-plot script").count() == 0

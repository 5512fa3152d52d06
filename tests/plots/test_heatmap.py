"""The Plotly heatmap has the record's own numbers on a scale that it names; so do notes, themes and other figures."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Dialog, Page, Request
from plotly.subplots import make_subplots

from tests.browser.parts import box
from tests.browser.visiting import until
from tests.plots.examples import HOSTILE, picture
from transformer.plots.axes import Axis
from transformer.plots.heatmap import heatmap
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.plots.theme import ink, theme

MASKED = "masked: this query may not see this key"


def bar(figure: go.Figure) -> str:
    return str(figure.data[0].colorbar.title.text).replace("<br>", " ")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_array_that_is_drawn_is_the_pictures_own_and_masked_cells_have_no_colour(dtype: type) -> None:
    drawn = picture(causal=True, dtype=dtype)
    z = heatmap(drawn, dark=True).data[0].z
    assert z.dtype == drawn.values.dtype
    np.testing.assert_array_equal(z, np.where(drawn.visible, drawn.values, np.nan))


def test_queries_go_down_from_the_first_and_keys_across() -> None:
    layout = heatmap(picture(5, 7, texts=("the", "man", "the"))).layout
    assert (layout.yaxis.autorange, layout.xaxis.side) == ("reversed", "top")
    assert layout.yaxis.title.text == "query: target (German)"
    assert layout.xaxis.title.text == "key: source (English)"
    assert [text.strip("\u2068\u2069") for text in layout.yaxis.ticktext] == ["the (1)", "man", "the (2)"]


def test_the_scale_of_weights_is_fixed_from_0_to_1() -> None:
    figure = heatmap(picture())
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 1)
    assert bar(figure) == "attention weight (probability)"
    assert figure.data[0].colorscale[0][1] == "#440154"


def test_scores_have_a_scale_centred_at_0_that_names_its_range() -> None:
    drawn = picture(quantity=Quantity.SCORE)
    figure = heatmap(drawn)
    assert figure.data[0].zmin == -figure.data[0].zmax == pytest.approx(-float(np.abs(drawn.values).max()))
    assert f"from {drawn.values.min():.3g} to {drawn.values.max():.3g} here" in bar(figure)
    assert figure.data[0].colorscale[0][1] != "#440154"
    zero = heatmap(replace(picture(2, 2, quantity=Quantity.SCORE), values=np.zeros((2, 2)))).data[0]
    assert (zero.zmin, zero.zmax) == (-1, 1)


def test_hover_gives_the_exact_number_or_says_why_there_is_none() -> None:
    drawn = picture(3, 5, causal=True)
    drawn.values[1, 1], drawn.values[0, 4] = np.nan, np.nan
    cells = heatmap(drawn).data[0]
    assert cells.hovertemplate == "query: %{y}<br>key: %{x}<br>%{text}<extra></extra>"
    assert cells.hoverongaps
    for query, key in np.ndindex(3, 5):
        text = str(cells.text[query][key])
        if key > query:
            assert text == MASKED
        elif (query, key) == (1, 1):
            assert text == "not a finite number (nan)"
        else:
            assert float(text.removeprefix("weight ")) == pytest.approx(drawn.values[query, key], rel=1e-5)


def test_a_picture_without_tokens_says_so() -> None:
    none = Axis.of_tokens("source", [])
    empty = Picture("encoder.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), none, none)
    assert [note.text for note in heatmap(empty).layout.annotations] == ["No tokens are left to show."]


def test_notes_and_changes_stand_in_the_title() -> None:
    changes = ("decoder.3.cross (heads 1, 3) off (mean)", "encoder.0.self (head 1, key 4) knocked out")
    title = heatmap(replace(picture(notes=("rows no longer sum to 1", "a <b>")), changes=changes)).layout.title
    assert title.text.endswith("2 changes"), "both named are too long for one line"
    said = title.subtitle.text.replace("<br>", " ")
    assert said == "; ".join([*changes, "rows no longer sum to 1", "a &lt;b&gt;"])
    one = heatmap(replace(picture(), changes=("encoder.0.self off (mean)",))).layout.title
    assert one.text.endswith("changed: encoder.0.self off (mean)")


def strings(thing: object) -> list[str]:
    if isinstance(thing, dict):
        return [text for value in thing.values() for text in strings(value)]
    if isinstance(thing, list):
        return [text for value in thing for text in strings(value)]
    return [thing] if isinstance(thing, str) else []


def test_no_token_becomes_markup() -> None:
    drawn = picture(texts=HOSTILE, notes=("<script>",))
    axis = Axis("<script>", *(getattr(drawn.keys, name) for name in ("texts", "words", "special")))
    drawn = replace(drawn, site="<script>", keys=axis, queries=axis)
    for text in strings(json.loads(heatmap(drawn).to_json())):
        assert "<" not in re.sub("<br>|<extra></extra>", "", text), text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("quantity", Quantity)
def test_no_colour_is_one_that_a_pages_theme_replaces(dark: bool, quantity: Quantity) -> None:
    """Streamlit replaces the colours #000001 to #000040 wherever they stand in a figure."""
    assert not re.search(r"#0000[0-4][0-9]", heatmap(picture(5, 5, True, quantity=quantity), dark=dark).to_json())


pytestmark = pytest.mark.browser


Shown = Callable[[go.Figure], Page]


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Shown]:
    """`shown(figure)` is it as a page, drawn; a request or an error of the page fails the test."""
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
        figure.write_html(file)
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


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["ink", "faint", "accent", "second", "chosen"])
def test_every_colour_that_letters_have_can_be_read_on_the_paper(dark: bool, name: str) -> None:
    colours = theme(dark)
    low, high = sorted([luminance(getattr(colours, name)), luminance(colours.paper)])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def subplots() -> go.Figure:
    figure = make_subplots(2, 2, subplot_titles=("a", "b", "c", "d"))
    figure.add_scatter(y=[1, 2], row=2, col=1)
    figure.add_heatmap(z=[[1, 2]], row=1, col=2)
    return figure.update_layout(title=dict(text="t", font=dict(size=17)), xaxis_title="x")


@pytest.mark.parametrize("dark", [False, True])
def test_ink_writes_every_axis_and_shares_no_template(dark: bool) -> None:
    found = ink(subplots(), theme(dark))
    assert {axis.tickfont.color for axis in found.select_xaxes()} == {theme(dark).ink}
    assert found.layout.title.font.to_plotly_json() == {"color": theme(dark).ink, "size": 17}
    found.layout.template.layout.font.size = 99
    assert ink(go.Figure(), theme(dark)).layout.template.layout.font.size == 12

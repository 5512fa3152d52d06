"""A saved record, and a record in a notebook's cell, in a Chromium without a network: the record's own numbers."""

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Frame, Page, expect

from heedmap.attention.record import AttentionMap, Record
from heedmap.attention.softmax_inputs import AttentionInputs
from heedmap.nn.masks import Mask
from heedmap.plots.axes import Axis
from heedmap.sites import Site
from tests.browser.parts import heatmap_cell, viridis
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

LAYERS, HEADS, QUERIES, KEYS = 2, 3, 5, 7
HOSTILE = "</script><img src=x onerror=alert(1)>"

PIXELS = """(canvas, [x, y, side]) => {
  const ratio = canvas.width / canvas.getBoundingClientRect().width;
  const { data } = canvas.getContext('2d').getImageData(x * ratio, y * ratio, side, side);
  return Array.from({ length: side * side }, (_, at) => [...data.slice(4 * at, 4 * at + 3)]);
}"""
ROOM = "innerHeight - document.querySelector('main').offsetHeight"
DARK = "document.documentElement.matches(':root') && getComputedStyle(document.documentElement).colorScheme"

Opened = Callable[..., Page]


def attention(site: str, queries: int, keys: int, causal: bool = False) -> AttentionMap:
    q, k = (2 * torch.randn(1, HEADS, count, 11) for count in (queries, keys))
    axes = [Axis.of_tokens(name, [f"{name}{i}" for i in range(count)]) for name, count in (("q", queries), ("k", keys))]
    if not causal:
        axes[1] = Axis.of_tokens("k", [HOSTILE, *axes[1].texts[1:]])
    return AttentionMap(Site(site), axes[0], axes[1], AttentionInputs(q, k, Mask(causal=causal), 11**-0.5))


@pytest.fixture
def record() -> Record:
    """Two layers of cross-attention, and one of causal self-attention."""
    maps = [attention(f"decoder.{layer}.cross", QUERIES, KEYS) for layer in range(LAYERS)]
    maps.append(attention("decoder.0.self", QUERIES, QUERIES, causal=True))
    return Record({one.site: one for one in maps})


def weights(one: AttentionMap, head: int) -> np.ndarray:
    """The weights of a map without a mask, by the book."""
    assert isinstance(one.source, AttentionInputs)
    exponents = np.exp((one.source.q[0, head] @ one.source.k[0, head].T).double().numpy() * one.source.scale)
    return exponents / exponents.sum(1, keepdims=True)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """`opened(html, dark=False, width=1280)` is a page of this text, from a file, offline; no script of it fails."""
    pages: list[Page] = []
    errors: list[str] = []

    def go(html: str, dark: bool = False, width: int = 1280, after: str = "") -> Page:
        path = tmp_path / f"page{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        scheme = "dark" if dark else "light"
        window = browser.new_context(offline=True, color_scheme=scheme, viewport={"width": width, "height": 900})
        page = window.new_page()
        page.on("console", lambda message: errors.extend([message.text] if message.type == "error" else []))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.goto(f"{path.as_uri()}{after}")
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.context.close()
    assert errors == []


def pixels(page: Page | Frame, query: int, key: int, side: int = 1) -> list[list[int]]:
    """Colours in a square of a cell of the large map, from its middle on."""
    canvas = page.locator(".heatmap canvas")
    until(canvas.page, lambda: bool(canvas.get_attribute("data-cells")))
    at = heatmap_cell(canvas, query, key)
    return list(canvas.evaluate(PIXELS, [at["x"], at["y"], side]))


def point(page: Page | Frame, query: int, key: int) -> None:
    canvas = page.locator(".heatmap canvas")
    canvas.hover(position=heatmap_cell(canvas, query, key))


def shows(page: Page | Frame, expected: np.ndarray, of: AttentionMap) -> None:
    """The large map shows these numbers: by the text that the pointer brings, and by their colours."""
    for query, key in ((0, 0), (QUERIES - 1, KEYS - 1), (3, 5)):
        assert np.abs(pixels(page, query, key)[0] - viridis(expected[query, key], exact=True)).max() <= 1.0
        point(page, query, key)
        told = f"Query {of.queries.labels[query]}, key {of.keys.labels[key]}: {expected[query, key]:.3f}."
        expect(page.locator(".heatmap .reading")).to_have_text(told)


def choose(page: Page | Frame, group: int, name: str) -> None:
    page.locator(".head-choice .options").nth(group).get_by_role("radio", name=name, exact=True).click()


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 700)])
def test_a_saved_page_shows_the_records_numbers(record: Record, opened: Opened, dark: bool, width: int) -> None:
    page = opened(record.html(), dark, width)
    assert page.evaluate(DARK) == ("dark" if dark else "light")
    one = record["decoder.0.cross"]
    mean = np.mean([weights(one, head) for head in range(HEADS)], axis=0)
    shows(page, mean, one)
    page.locator(".all-heads .cell").nth(HEADS + 2).click()
    expect(page.locator(".heatmap .title")).to_have_text("decoder.1.cross · head 2")
    shows(page, weights(record["decoder.1.cross"], 2), record["decoder.1.cross"])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is beyond the page's side"


def test_a_saved_page_is_chosen_marked_left_by_back_and_linked(record: Record, opened: Opened) -> None:
    """Lines are of the chosen head, a marked pair is so in every view, and what the mask hides is hatched and named."""
    page = opened(record.html())
    choose(page, 1, "1")
    choose(page, 2, "0")
    title, reading, canvas = (page.locator(f".heatmap {part}") for part in (".title", ".reading", "canvas"))
    address = page.evaluate("location.hash")
    assert address == "#layer=1&head=0"
    again = opened(record.html(), after=address)
    expect(again.locator(".heatmap .title")).to_have_text("decoder.1.cross · head 0")
    page.go_back()
    expect(title).to_contain_text("decoder.1.cross · mean")
    page.go_forward()
    expect(title).to_have_text("decoder.1.cross · head 0")

    canvas.click(position=heatmap_cell(canvas, 2, 4))
    of_head = weights(record["decoder.1.cross"], 0)
    expect(page.locator(".all-heads .weight").nth(HEADS)).to_have_text(f"{of_head[2, 4]:.3f}")
    page.get_by_role("tab", name="Lines").click()
    expect(page.locator(".head-view [aria-pressed=true] .text")).to_have_text("q2")
    expect(page.locator(".head-view .reading")).to_contain_text("At q2, head 0 looked at")
    page.locator(".head-view .target .word").nth(3).hover()
    expect(page.locator(".head-view .source .number").nth(5)).to_have_text(f"{of_head[3, 5]:.3f}")

    page.get_by_role("tab").first.click()
    choose(page, 0, "decoder.0.self")
    expect(title).to_contain_text("decoder.0.self")
    expect(page.locator(".head-choice .group").nth(1)).to_be_hidden()
    point(page, 1, 3)
    expect(reading).to_have_text("Query q1, key k3: masked.")
    paper, ink = (255, 255, 255), (31, 36, 48)
    ground, stripe = ([round(a + (b - a) * share) for a, b in zip(paper, ink, strict=True)] for share in (0.14, 0.42))
    drawn = pixels(page, 0, 2, 8)
    assert [drawn.count(ground), drawn.count(stripe)] == [48, 16], "which no weight is"


@pytest.mark.parametrize(("ground", "nested"), [(("#fff", "#111", "light"), False), (("#111", "#eee", "dark"), True)])
def test_cells_of_a_notebook_do_not_meet_and_are_as_high_as_they_need(
    record: Record, opened: Opened, ground: tuple[str, str, str], nested: bool
) -> None:
    paper, ink, theme = ground
    cell = record._repr_html_()
    html = f'<!DOCTYPE html><meta charset="utf-8"><body style="background:{paper};color:{ink}"><p>above</p>{cell}{cell}'
    if nested:  # as Colab shows what a cell brings
        html = (
            '<!DOCTYPE html><meta charset="utf-8"><iframe id="output" sandbox="allow-scripts" '
            f'style="width:100%;height:2400px" srcdoc="{escape(html)}"></iframe>'
        )
    page = opened(html, dark=theme == "light")
    first = page.frames[1] if nested else page.main_frame
    until(page, lambda: len(first.child_frames) == 2)
    one, other = first.child_frames
    record_of = record["decoder.0.cross"]
    for frame in (one, other):
        frame.locator(".heatmap canvas").scroll_into_view_if_needed()
        until(page, lambda frame=frame: frame.evaluate(DARK) == theme)
        until(page, lambda frame=frame: frame.evaluate(ROOM) in (0, 1))  # a height is rounded
    choose(one, 2, "1")
    shows(one, weights(record_of, 1), record_of)
    expect(other.locator(".heatmap .title")).to_have_text("decoder.0.cross · mean of 3 heads")
    before = one.evaluate("innerHeight")
    beside = other.evaluate("innerHeight")
    one.get_by_role("tab", name="Lines").click()
    until(page, lambda: one.evaluate("innerHeight") < before and one.evaluate(ROOM) in (0, 1))
    one.get_by_role("tab").first.click()
    until(page, lambda: one.evaluate("innerHeight") == before)
    assert other.evaluate("innerHeight") == beside
    first.evaluate("ink => { document.body.style.color = ink }", "#eee" if theme == "light" else "#111")
    until(page, lambda: one.evaluate(DARK) != theme)  # another theme of the notebook, while it is open
    assert one.evaluate("(() => { try { return parent.document.title } catch { return null } })()") is None

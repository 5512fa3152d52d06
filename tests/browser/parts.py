"""Finding and measuring the parts of the components on their demonstration page."""

from pathlib import Path

import numpy as np
from playwright.sync_api import FloatRect, Locator, Page, Position
from plotly.colors import sequential

from tests.browser.visiting import until

LAYERS, HEADS, QUERIES, KEYS = SHAPE = (3, 5, 11, 7)
"""What the page draws when its address does not say otherwise."""


def token(page: Page, side: str, index: int) -> Locator:
    """A token's element in columns."""
    return page.locator(f'.head-view .word[data-side="{side}"][data-index="{index}"]')


def cell(page: Page, layer: int, head: int, heads: int = HEADS) -> Locator:
    """A thumbnail's cell."""
    return page.locator(".all-heads .cell").nth(layer * heads + head)


def matrix(page: Page, name: str) -> Locator:
    """The canvas of a matrix."""
    return page.locator(f'canvas[data-matrix="{name}"]')


def saved(button: Locator) -> tuple[str, bytes]:
    """What a button saves: what the file is called, and what is in it."""
    with button.page.expect_download() as download:
        button.click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def radio(page: Page, group: str, name: str) -> None:
    """Press one of a group of buttons."""
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def menu(page: Page, title: str) -> Locator:
    """The menu's link to a page."""
    return page.get_by_test_id("stSidebar").get_by_role("link", name=title, exact=True)


def take_example(page: Page, number: int) -> None:
    """Choose an example, counted from 1, of the list of them."""
    page.locator(".st-key-examples button").first.click()
    page.get_by_role("menuitem").nth(number - 1).click()


RESTING = """element => new Promise(found => {
  let before = "";
  const look = () => {
    const { x, y, width, height } = element.getBoundingClientRect();
    const now = [x, y, width, height].join();
    if (now === before || !element.isConnected) found(element.isConnected && width > 0 && height > 0);
    else requestAnimationFrame(look);
    before = now;
  };
  look();
})"""
"""Whether an element is seen, once two frames show it in one place."""


def box(locator: Locator) -> FloatRect:
    """Where it rests on the screen: x, y, width and height."""
    until(locator.page, lambda: locator.evaluate(RESTING))
    found = locator.bounding_box()
    assert found
    return found


def fits(page: Page, width: int) -> None:
    """Nothing on the page is wider than the window."""
    until(page, lambda: page.evaluate("document.documentElement.scrollWidth") <= width)


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


HEATMAP = """(canvas, [queries, keys]) => {
  const [left, top, wide, tall] = canvas.dataset.cells.split(" ").map(Number);
  const at = (start, order, side) => start + order * side + Math.floor(side / 4);
  const pen = canvas.getContext("2d");
  const one = (query, key) => [...pen.getImageData(at(left, key, wide), at(top, query, tall), 1, 1).data.slice(0, 3)];
  return Array.from({ length: queries }, (_, query) => Array.from({ length: keys }, (_, key) => one(query, key)));
}"""


def heatmap_colours(canvas: Locator, queries: int, keys: int) -> np.ndarray:
    """The colour of each cell of the heatmap, beside its middle, where a masked one is hatched."""
    return np.array(canvas.evaluate(HEATMAP, [queries, keys]))


def viridis(weights: np.ndarray, *, exact: bool = False) -> np.ndarray:
    """What Plotly's own scale gives for these weights, with 255 steps unless it is `exact`."""
    stops = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in sequential.Viridis])
    at = (weights if exact else np.rint(254 * weights) / 254) * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, channel]) for channel in range(3)], axis=-1)


def middle(canvas: Locator, row: int, column: int = 0) -> Position:
    """The middle of a cell of a matrix or an alignment, in pixels of its canvas."""
    names = ("left", "top", "cell-width", "cell-height")
    left, top, width, height = (float(canvas.get_attribute(f"data-{name}") or "nan") for name in names)
    return {"x": left + (column + 0.5) * width, "y": top + (row + 0.5) * height}


def heatmap_cell(canvas: Locator, query: int, key: int) -> Position:
    """The middle of a cell of a heatmap that rests in view, in pixels of its canvas."""
    canvas.scroll_into_view_if_needed()
    box(canvas)
    left, top, wide, tall = (float(part) for part in (canvas.get_attribute("data-cells") or "").split())
    return {"x": left + (key + 0.5) * wide, "y": top + (query + 0.5) * tall}


WRITTEN = """() => {
  window.written = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.written.push([text, y, this.font, this.getTransform().a]);
    fillText.call(this, text, x, y);
  };
}"""
"""Notes what canvases write from now on: each text with its height, its font and its scale."""

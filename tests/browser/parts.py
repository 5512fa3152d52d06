"""Finding and measuring the parts of the components on their demonstration page."""

import numpy as np
from playwright.sync_api import FloatRect, Locator, Page
from plotly.colors import sequential

from tests.browser.visiting import until

LAYERS, HEADS, QUERIES, KEYS = SHAPE = (3, 5, 11, 7)
"""What the page draws when its address does not say otherwise."""


def token(page: Page, side: str, index: int) -> Locator:
    """A token's element."""
    return page.locator(f'.token[data-side="{side}"][data-index="{index}"]')


def cell(page: Page, layer: int, head: int, heads: int = HEADS) -> Locator:
    """A thumbnail's cell."""
    return page.locator(".all-heads .cell").nth(layer * heads + head)


def chip(page: Page, head: int) -> Locator:
    """A head's chip."""
    return page.locator(".head-view .chip").nth(head)


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


def footer(page: Page) -> Locator:
    """The sentence below the lines."""
    return page.locator(".head-view .footer")


def numbers(page: Page, side: str) -> list[str]:
    """The weights written beside the tokens of one column."""
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


def viridis(weights: np.ndarray) -> np.ndarray:
    """What Plotly's own scale gives for these weights with 255 steps."""
    stops = np.array([[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in sequential.Viridis])
    at = np.rint(254 * weights) / 254 * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, channel]) for channel in range(3)], axis=-1)

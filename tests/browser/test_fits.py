"""Every view fits its window at four widths, every page also in Chinese at two; its first screen is not crowded.

`fits.toml` lists the views by address, and what is known to be too much: a view may not get worse than that.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.visiting import PATIENCE, ROOT, Visit

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
LOOK = (HERE / "fits.js").read_text("utf-8")
LISTED: dict[str, Any] = tomllib.loads((HERE / "fits.toml").read_text("utf-8"))
WINDOWS = {1280: 800, 1920: 1080, 853: 533, 390: 844}
"""Widths and heights; 853 is 1280 at a zoom of 150 %."""

FIRST_SCREEN = {"words": 60, "controls": 12}
"""What may stand on a first screen of 1280 x 800 besides a picture: words of explanation, and controls besides the
sentence. What the Tab key stops at once, such as a row of buttons or the parts of a map, is one control."""


SHIFTS = """() => {
  window.shifted = 0;
  const add = (seen) => seen.getEntries().forEach((one) => (shifted += one.value));
  new PerformanceObserver(add).observe({ type: "layout-shift" });
}"""
"""Adds up how far what is drawn moves from now on (cumulative layout shift)."""


@pytest.fixture(scope="module")
def reader(browser: Browser, serve: Callable[[Path], str]) -> Iterator[Visit]:
    """A window with the app, whose scripts are loaded once."""
    with browser.new_context(reduced_motion="reduce") as window:
        visit = Visit(window.new_page())
        visit.page.set_default_timeout(PATIENCE * 1000)
        with visit.run():
            visit.page.goto(f"{serve(ROOT / 'app.py')}/masks")
        yield visit


@pytest.mark.parametrize("page", LISTED["views"])
def test_every_view_fits_its_window(reader: Visit, page: str) -> None:
    _fits(reader, page, LISTED["views"][page], "en", WINDOWS)


@pytest.mark.parametrize("page", LISTED["views"])
def test_every_page_fits_its_window_in_chinese(reader: Visit, page: str) -> None:
    _fits(reader, page, LISTED["views"][page][:1], "zh", (1280, 390))


def test_another_head_moves_nothing(reader: Visit) -> None:
    page = reader.page
    page.set_viewport_size({"width": 1280, "height": WINDOWS[1280]})
    reader.move(f"{page.evaluate('location.origin')}/translate?lang=en")
    page.evaluate(LOOK)  # which waits until it is drawn
    page.evaluate(SHIFTS)
    heads = page.locator(".head-choice [role=radio]").all()
    assert len(heads) >= 4
    for one in heads:
        one.dispatch_event("click")
        page.wait_for_timeout(100)
    assert page.evaluate("shifted") <= 0.001


def _fits(visit: Visit, page: str, views: Iterable[str], language: str, widths: Iterable[int]) -> None:
    problems = [
        f"{address} {width}: {one}"
        for address, width, found in measured(visit, page, views, language, widths)
        for one in _too_much(address, found, width, language)
    ]
    assert not problems, "\n".join(problems)
    assert visit.errors == []


def measured(
    visit: Visit, page: str, views: Iterable[str], language: str, widths: Iterable[int]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Views of a page, each in windows of these widths: its address, the width, and what `fits.js` found."""
    root = visit.page.evaluate("location.origin")
    for view in views:
        visit.page.set_viewport_size({"width": 1280, "height": WINDOWS[1280]})
        visit.move(f"{root}/{page}?{view}{'&' if view else ''}lang={language}")
        for width in widths:
            visit.page.set_viewport_size({"width": width, "height": WINDOWS[width]})
            found = visit.page.evaluate(LOOK)
            assert not found["failed"], (page, view)
            yield f"/{page}{'?' if view else ''}{view}", width, found


def _too_much(address: str, found: dict[str, Any], width: int, language: str) -> Iterable[str]:
    """What is wrong in one window, beyond what is known of this view."""
    known: dict[str, int] = LISTED["known"].get(address, {})
    for what in ("cut", "overlapping", "small"):
        if len(found[what]) > known.get(what, 0):
            yield f"{what} ({len(found[what])}): {'; '.join(found[what][:6])}"
    if width != 1280:
        return
    if not found["pictures"] and not known.get("no_picture"):
        yield "no picture on the first screen"
    counted = {"controls": found["controls"], **({"words": found["sentences"]} if language == "en" else {})}
    for what, said in counted.items():
        count = found["words"] if what == "words" else len(said)
        if count > known.get(what, FIRST_SCREEN[what]):
            yield f"{count} {what}: {said}"

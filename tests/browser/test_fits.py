"""Every view fits its window, is not crowded and can be read, and its policy stops nothing that it needs.

`tests/views.toml` lists the views by address, and what is known to be too much: a view may not get worse than that. One
window goes from view to view, and is made wider and narrower while a view is open.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.parts import box
from tests.browser.policy import Watched
from tests.browser.reading import faint_texts, nameless_controls
from tests.browser.visiting import ROOT, until
from tests.views import LISTED, VIEWS

pytestmark = pytest.mark.browser

LOOK = (Path(__file__).parent / "fits.js").read_text("utf-8")
WINDOWS = {390: 844, 853: 533, 1920: 1080, 1280: 800}
"""Widths and heights; 853 is 1280 at a zoom of 150 %."""

PATIENCE = 10
"""How often a window is looked at in which something is wrong."""

FIRST_SCREEN = {"words": 60, "controls": 12}
"""What may stand on a first screen of 1280 x 800 besides a picture: words of explanation, and controls besides the
sentence. What the Tab key stops at once, such as a row of buttons or the parts of a map, is one control."""

AT_REST = """() => document.getAnimations().every(
  (one) => one.playState !== "running" || one.timeline !== document.timeline ||
    one.effect.getComputedTiming().iterations === Infinity)"""
"""Whether every colour that glides to another has arrived; what moves with scrolling alone is at rest."""

GROUNDS = {"light": "rgb(253, 252, 249)", "dark": "rgb(16, 23, 30)"}
"""The colours behind a page."""

SHIFTS = """() => {
  window.shifted = 0;
  const add = (seen) => seen.getEntries().forEach((one) => (shifted += one.value));
  new PerformanceObserver(add).observe({ type: "layout-shift" });
}"""
"""Adds up how far what is drawn moves from now on (cumulative layout shift)."""


@pytest.fixture(scope="module")
def reader(browser: Browser, serve: Callable[[Path], str]) -> Iterator[Watched]:
    """A window with the app, whose scripts are loaded once."""
    with browser.new_context(reduced_motion="reduce") as window:
        reader = Watched(window.new_page())
        reader.go(f"{serve(ROOT / 'app.py')}/masks")
        yield reader


@pytest.mark.parametrize("page", VIEWS)
def test_every_view_fits_its_window_and_can_be_read(reader: Watched, page: str) -> None:
    """In English and in the light; the first one of a page at four widths, and once more in Chinese and in the dark."""
    root, problems, views = reader.page.evaluate("location.origin"), list[str](), VIEWS[page]
    for number, view in enumerate((*views, views[0])):
        language, scheme = ("en", "light") if number < len(views) else ("zh", "dark")
        address = f"/{page}{'?' if view else ''}{view}"
        _resize(reader, 1280)
        reader.page.emulate_media(color_scheme=scheme)
        expect(reader.page.locator(".stApp")).to_have_css("background-color", GROUNDS[scheme])  # the next run knows it
        reader.go(f"{root}/{page}?{view}{'&' if view else ''}lang={language}")
        for width in WINDOWS if number == 0 else (390, 1280):
            _resize(reader, width)
            for _ in range(PATIENCE):
                found = reader.page.evaluate(LOOK)
                assert not found["failed"], address
                wrong = list(_too_much(address, found, width, language))
                if not wrong:
                    break
                reader.page.wait_for_timeout(500)  # a chart may not have its new width yet
            problems += [f"{address} {language} {width}: {one}" for one in wrong]
        _can_be_read(reader.page, address, scheme)
        assert reader.stopped(patience=0) == [], address
    assert reader.stopped() == [], f"a view of /{page}, late"
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("page", VIEWS)
def test_every_drawing_of_a_presented_view_is_inside_its_box(reader: Watched, page: str) -> None:
    """A presented page is enlarged, and what measures itself in pixels of the screen would be drawn larger still."""
    root = reader.page.evaluate("location.origin")
    for view in VIEWS[page]:
        _resize(reader, 1280)
        reader.go(f"{root}/{page}?{view}{'&' if view else ''}present=1")
        for width in (1280, 1920):
            _resize(reader, width)
            until(reader.page, _is_held, reader.page)
    assert reader.stopped() == []


def _is_held(page: Page) -> None:
    found = page.evaluate(LOOK)
    assert found["outside"] == [] and not found["failed"]  # noqa: PT018


def _resize(reader: Watched, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": WINDOWS[width]})


def _can_be_read(page: Page, address: str, scheme: str) -> None:
    """Its texts stand out, but for what is known, and its controls have names."""
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)  # Streamlit's own, while a run goes on
    page.wait_for_function(AT_REST)

    def stand_out() -> None:
        faint = faint_texts(page, figures=scheme == "light")  # their colours in the dark have a test of theirs
        assert len(faint) <= LISTED["known"].get(address, {}).get("faint", 0), (address, faint)

    until(page, stand_out)
    if scheme == "light":
        until(page, lambda: nameless_controls(page) == [])


def _too_much(address: str, found: dict[str, Any], width: int, language: str) -> Iterator[str]:
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


def test_another_head_moves_nothing(reader: Watched) -> None:
    page = reader.page
    _resize(reader, 1280)
    reader.go(f"{page.evaluate('location.origin')}/translate?lang=en")
    page.evaluate(LOOK)  # which waits until it is drawn
    page.evaluate(SHIFTS)
    parts = [page.locator(part) for part in (".all-heads .grid", ".heatmap canvas", ".bitext .target")]
    before = [box(part) for part in parts]
    for head in range(16):
        page.locator(".all-heads .cell").nth(head).dispatch_event("click")
        expect(page.locator(".heatmap .title")).to_have_text(f"decoder.{head // 4}.cross · head {head % 4}")
        assert [box(part) for part in parts] == before
    assert page.evaluate("shifted") <= 0.001

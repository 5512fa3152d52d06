"""Every view fits its window, is not crowded and can be read, and its policy stops nothing that it needs.

`fits.toml` lists the views by address, and what is known to be too much: a view may not get worse than that. One window
goes from view to view and is made wider and narrower, darker and lighter, while a view is open.
"""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.policy import Watched
from tests.browser.reading import faint_texts, nameless_controls
from tests.browser.visiting import ROOT, until

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
LOOK = (HERE / "fits.js").read_text("utf-8")
LISTED: dict[str, Any] = tomllib.loads((HERE / "fits.toml").read_text("utf-8"))
WINDOWS = {1280: 800, 1920: 1080, 853: 533, 390: 844}
"""Widths and heights; 853 is 1280 at a zoom of 150 %."""

FIRST_SCREEN = {"words": 60, "controls": 12}
"""What may stand on a first screen of 1280 x 800 besides a picture: words of explanation, and controls besides the
sentence. A row of buttons is one control."""

AT_REST = """() => document.getAnimations().every(
  (one) => one.playState !== "running" || one.effect.getComputedTiming().iterations === Infinity)"""
"""Whether every colour that glides to another has arrived."""

GROUNDS = {"light": "rgb(253, 252, 249)", "dark": "rgb(16, 23, 30)"}
"""The colours behind a page."""


@pytest.fixture(scope="module")
def reader(browser: Browser, serve: Callable[[Path], str]) -> Iterator[Watched]:
    """A window with the app, whose scripts are loaded once."""
    with browser.new_context(reduced_motion="reduce") as window:
        reader = Watched(window.new_page())
        reader.go(f"{serve(ROOT / 'app.py')}/masks")
        yield reader


@pytest.mark.parametrize("page", LISTED["views"])
def test_every_view_fits_its_window_and_can_be_read(reader: Watched, page: str) -> None:
    """In English at all widths, in Chinese the first view of each page at the two that differ most."""
    root, problems = reader.page.evaluate("location.origin"), list[str]()
    views = [("en", view) for view in LISTED["views"][page]] + [("zh", LISTED["views"][page][0])]
    for number, (language, view) in enumerate(views):
        _resize(reader, 1280)
        reader.go(f"{root}/{page}?{view}{'&' if view else ''}lang={language}")
        address = f"/{page}{'?' if view else ''}{view}"
        for width in WINDOWS if number == 0 else (1280, 390):
            _resize(reader, width)
            found = reader.page.evaluate(LOOK)
            assert not found["failed"], address
            problems += [f"{address} {language} {width}: {one}" for one in _too_much(address, found, width, language)]
        _resize(reader, 1280)
        _can_be_read(reader.page, address)
        assert reader.stopped() == [], address
    assert not problems, "\n".join(problems)


def _resize(reader: Watched, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": WINDOWS[width]})


def _can_be_read(page: Page, address: str) -> None:
    """Its texts stand out in the dark and in the light, but for what is known, and its controls have names."""
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)  # Streamlit's own, while a run goes on

    def stand_out(figures: bool) -> None:  # which are drawn in other colours by the next run alone
        faint = faint_texts(page, figures=figures)
        assert len(faint) <= LISTED["known"].get(address, {}).get("faint", 0), (address, faint)

    for scheme in ("dark", "light"):
        _light_up(page, scheme)
        until(page, stand_out, scheme == "light")
    until(page, lambda: nameless_controls(page) == [])


def _light_up(page: Page, scheme: Literal["light", "dark"]) -> None:
    """Wait until the page has these colours, and nothing glides to another any more."""
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(".stApp")).to_have_css("background-color", GROUNDS[scheme])
    page.wait_for_function(AT_REST)


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

"""The Content-Security-Policy of every page is in force, and stops nothing that a reader does (views: test_fits.py)."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.policy import Watched
from tests.browser.visiting import ROOT

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Iterator[Watched]:
    """A page in a window that keeps the app's scripts."""
    with browser.new_context(accept_downloads=True, reduced_motion="reduce") as window:  # nothing fades
        yield Watched(window.new_page())


def test_the_policy_is_in_force(watched: Watched, serve: Callable[..., str]) -> None:
    """Else the test above would say nothing."""
    watched.go(f"{serve(ROOT / 'app.py')}/masks")
    for harm in (
        "document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }))",
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.ran = 1' }))",
        "fetch('http://127.0.0.1:9/').catch(() => 0)",
    ):
        watched.page.evaluate(f"() => {{ {harm}; }}")
    watched.page.wait_for_function("window.stopped.length >= 3")
    stopped = " ".join(watched.stopped())
    assert all(what in stopped for what in ("img-src", "script-src-elem inline", "connect-src"))
    assert watched.page.evaluate("window.ran") is None
    watched.told.clear()


def test_pictures_components_and_downloads_work_under_it(watched: Watched, serve: Callable[..., str]) -> None:
    page = watched.page
    watched.go(f"{serve(ROOT / 'app.py')}/")
    watched.visit.drawn(page.locator(".map"))
    assert watched.stopped() == []
    watched.go(f"{serve(ROOT / 'app.py')}/translate")
    watched.visit.drawn(page.locator(".all-heads"))
    watched.visit.drawn(page.locator(".heatmap"))
    watched.go(f"{serve(ROOT / 'app.py')}/your_model?show=tensors")
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_test_id("stDownloadButton").get_by_role("button").last.click()
    assert saved.value.suggested_filename.endswith(".csv")
    assert "\n" in Path(saved.value.path()).read_text("utf-8")
    plot = page.locator(".js-plotly-plot").first
    plot.hover()
    with page.expect_download() as picture:
        plot.locator(".modebar-btn").first.click()
    assert Path(picture.value.path()).stat().st_size > 1000
    assert watched.stopped() == []

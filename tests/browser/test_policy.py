"""Every page: its own Content-Security-Policy stops nothing that it needs, and all that it says can be read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.reading import faint_texts, nameless_controls
from tests.browser.visiting import PATIENCE, ROOT, Visit, until

pytestmark = pytest.mark.browser
RECORD = """window.stopped = [];
document.addEventListener("securitypolicyviolation", event => window.stopped.push(
  `${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile ?? ""} ${event.sample ?? ""}`));"""
FALLS_BACK = "script-src wasm-eval {address}/static/js/protobuf."
"""What may be stopped: a library of Streamlit's counts in WebAssembly if it may, and in JavaScript if it may not."""

STOPPED = ("Content Security Policy", "Content-Security-Policy")
ADDRESSES = (
    "", "translate", "translate?view=Downloads", "translate?lang=zh&layer=1", "align", "learning",
    "learning?screen=lesson", "align?screen=downloads", "sequences", "sequences?window=538-597(%2B)",

    "your_model", "your_model?show=tensors", "attention_steps", "inside_layer", "masks",
    "masks?screen=test", "positions", "positions?screen=rotation", "what_if", "what_if?do=encoder.0.self~mean~h0",
    "atlas", "atlas?screen=table", "atlas?screen=map", "atlas?screen=head", "translate?view=steps",
    "translate?view=sources", "translate?view=head_view",
)  # fmt: skip
"""Every page, with views of it that draw otherwise."""


class Watched:
    """A page that notes what its policy stopped."""

    def __init__(self, page: Page) -> None:
        self.page, self.visit = page, Visit(page)
        self.told: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.add_init_script(RECORD)
        page.on("console", lambda message: self.hear(message.text))

    def hear(self, text: str) -> None:
        """Note a message of the console about the policy."""
        if any(name in text for name in STOPPED):
            self.told.append(text)

    def go(self, url: str) -> None:
        """Visit an address, once its first run is done; the app is loaded once."""
        if self.page.url == "about:blank":
            with self.visit.run():
                self.page.goto(url)
        else:
            self.visit.move(url)

    def stopped(self) -> list[str]:
        """What was stopped since this was asked last, and is not known to do without."""
        self.page.wait_for_timeout(300)
        known = FALLS_BACK.format(address=self.page.evaluate("location.origin"))
        found = [one for one in self.page.evaluate("window.stopped.splice(0)") if not one.startswith(known)]
        return [*found, *self.told, *self.visit.errors]


AT_REST = """() => document.getAnimations().every(
  (one) => one.playState !== "running" || one.effect.getComputedTiming().iterations === Infinity)"""
"""Whether every colour that glides to another has arrived."""


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Iterator[Watched]:
    """A page in a window that keeps the app's scripts."""
    with browser.new_context(accept_downloads=True, reduced_motion="reduce") as window:  # nothing fades
        yield Watched(window.new_page())


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_asks_for_what_its_policy_stops_and_all_can_be_read(
    watched: Watched, serve: Callable[..., str], address: str
) -> None:
    page = watched.page
    watched.go(f"{serve(ROOT / 'app.py')}/{address}")
    assert watched.stopped() == []
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)  # Streamlit's own, while a run goes on

    def readable(figures: bool = True) -> None:
        assert faint_texts(page, figures=figures) == []
        assert nameless_controls(page) == []

    until(page, readable)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".stApp")).to_have_css("background-color", "rgb(16, 23, 30)")
    page.wait_for_function(AT_REST)
    until(page, lambda: readable(False))  # figures follow in the next run: their colours have a test of theirs
    page.emulate_media(color_scheme="light")
    expect(page.locator(".stApp")).not_to_have_css("background-color", "rgb(16, 23, 30)")  # the next run knows it too


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

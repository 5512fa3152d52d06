"""The life of components in Chromium: drawn anew in another window, a late goodbye, and what is listened for."""

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import lines_sent
from tests.browser.parts import box
from tests.browser.visiting import until
from ui.components.shared import mounting
from ui.components.views import columns

pytestmark = pytest.mark.browser


def test_a_narrower_or_wider_window_is_drawn_anew(demo):
    """A new height alone changes nothing."""
    opened = demo("show=lines,maps,board", width=1200)
    page = opened.page
    views = [page.locator(name) for name in (".head-view", ".alignments", ".matrices")]
    for width in (420, 900, 420):
        draws = [opened.drawn(view) for view in views]
        page.set_viewport_size({"width": width, "height": 900})
        for view, before in zip(views, draws, strict=True):
            opened.drawn(view, before + 1)
        lines = page.locator(".head-view .sheet > svg")
        until(page, lambda lines: lines.get_attribute("width") == str(round(box(lines.locator(".."))["width"])), lines)
    opened.at_rest()
    draws = [opened.drawn(view) for view in views]
    page.set_viewport_size({"width": 420, "height": 600})
    opened.at_rest()
    assert [opened.drawn(view) for view in views] == draws
    first, second = (page.locator(".alignments figure").nth(i) for i in range(2))
    expect(page.locator(".alignments .sheet")).to_have_attribute("style", "--columns: 1;")
    until(page, lambda: box(second)["y"] > box(first)["y"] + 50)


START = """async ([script, bytes]) => {
  await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const run = window.heedmapScripts.get("heedmap.head_view").draw;
  const host = document.body.appendChild(document.createElement("div"));
  window.parent_ = host.attachShadow({ mode: "open" });
  window.sent = [];
  const send = (name, value) => window.sent.push([name, value]);
  window.start = () => run({ data: Uint8Array.from(bytes), parentElement: window.parent_, setTriggerValue: send });
  window.post = options => {
    window.heedmapOptions = new Map([["one", options]]);
    window.dispatchEvent(new CustomEvent("heedmap-options", { detail: "one" }));
  };
  const frame = () => new Promise(requestAnimationFrame);
  window.twoFrames = () => frame().then(frame);
}"""


WATCHED = """() => {
  window.watched = new Set();
  const { observe, disconnect } = ResizeObserver.prototype;
  ResizeObserver.prototype.observe = function (one) { watched.add(this); observe.call(this, one); };
  ResizeObserver.prototype.disconnect = function () { watched.delete(this); disconnect.call(this); };
}"""


def test_a_late_goodbye_ends_nothing_what_ended_watches_nothing_and_only_what_is_listened_for_is_sent(browser):
    """The lines of 5 queries and 2 keys, on a blank page."""
    message = columns.message("one", *lines_sent(np.full((3, 5, 2), 0.5), np.True_, "abcde", "xy"))
    page = browser.new_page()

    def post(**options) -> None:
        page.evaluate("post", {"selected": None, "events": ["picked"]} | options)
        page.evaluate("twoFrames()")

    page.evaluate(START, [mounting.script(mounting.ALL), list(message)])
    page.evaluate(WATCHED)
    page.evaluate("window.first = start(); window.second = start(); void first()")
    post()
    assert page.locator(".head-view .target .word").count() == 5
    assert (page.locator(".head-view").count(), page.evaluate("watched.size")) == (1, 1)
    page.evaluate("void second()")
    assert (page.locator(".head-view").count(), page.evaluate("watched.size")) == (0, 0)
    page.evaluate("void start()")
    post(selected=1)
    kept = "[...parent_.querySelectorAll('.target .word')].map(word => word.ariaPressed === 'true')"
    assert page.evaluate(kept) == [False, True, False, False, False]
    for events in ([], ["picked"]):
        post(events=events)
        page.locator(".target .word").nth(1).click()
    assert page.evaluate("sent") == [["picked", {"query": 1}]]
    page.close()

"""A component's life without a server: late goodbyes, choices from both sides, widths, and what remains at the end."""

import numpy as np
import pytest

from tests.browser.pages.sample import lines_sent
from tests.browser.parts import box
from tests.browser.visiting import until
from ui.components.head_view.component import component
from ui.components.shared import bundle

pytestmark = pytest.mark.browser

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


@pytest.fixture
def stage(browser):
    """A blank page on which a head view of 3 heads, 5 queries and 2 keys may be started, posted to and ended."""
    message = component.message("one", *lines_sent(np.full((3, 5, 2), 0.5), np.True_, "abcde", "xy"))
    page = browser.new_page()
    page.evaluate(START, [bundle.script(bundle.ALL), list(message)])
    yield page
    page.close()


def post(page, **options):
    said = {"active": None, "selected_pair": None, "threshold": 0, "events": ["pair"]}
    page.evaluate("post", said | options)
    page.evaluate("twoFrames()")


def lit(page):
    """Which chips are on."""
    return page.evaluate("[...parent_.querySelectorAll('.chip')].map(chip => chip.ariaPressed === 'true')")


def test_a_late_goodbye_of_an_older_run_ends_nothing(stage):
    stage.evaluate("window.first = start(); window.second = start(); void first()")
    post(stage)
    assert stage.locator(".head-view .chip").count() == 3
    assert stage.locator(".head-view").count() == 1
    stage.evaluate("void second()")
    assert stage.locator(".head-view").count() == 0


def test_a_component_that_ended_can_start_again_in_the_same_place(stage):
    stage.evaluate("void start()()")
    stage.evaluate("void start()")
    post(stage, active=[1])
    assert lit(stage) == [False, True, False]


def test_a_caller_that_ignores_events_leaves_the_reader_in_charge(stage):
    stage.evaluate("void start()")
    post(stage, active=[0, 1])
    stage.locator(".chip").nth(2).click()
    post(stage, active=[0, 1], threshold=0.1)
    assert lit(stage) == [True, True, True]
    post(stage, active=[2])
    assert lit(stage) == [False, False, True]


def test_only_what_python_listens_for_is_sent(stage):
    stage.evaluate("void start()")
    for events in ([], ["pair"]):
        post(stage, events=events)
        stage.locator(".token[data-side=query][data-index='1']").click()
        stage.locator(".token[data-side=key][data-index='0']").click()
        stage.keyboard.press("Escape")
        stage.locator(".chip").first.click()
    assert stage.evaluate("sent") == [["pair", {"query": 1, "key": 0}]]


def test_a_new_width_is_drawn_and_an_ended_component_watches_nothing(stage):
    stage.evaluate("""() => {
      window.watched = new Set();
      const { observe, disconnect } = ResizeObserver.prototype;
      ResizeObserver.prototype.observe = function (one) { watched.add(this); observe.call(this, one); };
      ResizeObserver.prototype.disconnect = function () { watched.delete(this); disconnect.call(this); };
    }""")
    stage.evaluate("void (window.end = start())")
    post(stage)
    assert stage.evaluate("watched.size") == 1
    view, ratio = stage.locator(".head-view"), stage.evaluate("devicePixelRatio")
    canvas = view.locator(".sheet canvas")
    for width in (500, 900):
        draws = int(view.get_attribute("data-draws"))
        stage.set_viewport_size({"width": width, "height": 700})
        stage.wait_for_function("draws => Number(parent_.querySelector('.head-view').dataset.draws) > draws", arg=draws)
        until(stage, lambda: canvas.evaluate("c => c.width") == round(box(canvas)["width"] * ratio))
    stage.evaluate("twoFrames()")
    draws = int(view.get_attribute("data-draws"))
    stage.set_viewport_size({"width": 900, "height": 500})
    stage.evaluate("twoFrames()")
    assert int(view.get_attribute("data-draws")) == draws, "a new height alone changes nothing"
    stage.evaluate("end()")
    assert stage.evaluate("watched.size") == 0

"""A component's life without a server: late goodbyes, echoes of older choices, and what remains at the end."""

import numpy as np
import pytest

from ui.components.head_view.component import head_view_message
from ui.components.shared import bundle

pytestmark = pytest.mark.browser

START = """async ([script, style, bytes]) => {
  const { default: run } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const host = document.body.appendChild(document.createElement("div"));
  window.parent_ = host.attachShadow({ mode: "open" });
  window.parent_.appendChild(document.createElement("style")).textContent = style;
  window.sent = [];
  const send = (name, value) => window.sent.push([name, value]);
  window.start = () => run({ data: Uint8Array.from(bytes), parentElement: window.parent_, setTriggerValue: send });
  window.post = options => {
    window.attentionAtlasOptions = new Map([["one", options]]);
    window.dispatchEvent(new CustomEvent("heedmap-options", { detail: "one" }));
  };
  const frame = () => new Promise(requestAnimationFrame);
  window.twoFrames = () => frame().then(frame);
}"""


@pytest.fixture
def stage(browser):
    """A blank page on which a head view of 3 heads, 5 queries and 2 keys may be started, posted to and ended."""
    message = head_view_message(
        np.full((3, 5, 2), 0.5),
        None,
        instance="one",
        query_labels=list("abcde"),
        key_labels=list("xy"),
        heads=["h0", "h1", "h2"],
        query_title="queries",
        key_title="keys",
        file_name="file",
    )
    page = browser.new_page()
    page.evaluate(START, [bundle.script("head_view.js"), bundle.stylesheet(), list(message)])
    yield page
    page.close()


def post(page, **options):
    page.evaluate("post", {"active": None, "locked": None, "selected_pair": None, "threshold": 0} | options)
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


def test_an_echo_of_an_older_choice_does_not_undo_a_newer_one(stage):
    stage.evaluate("void start()")
    post(stage)
    stage.locator(".token[data-side=query][data-index='1']").click()
    stage.locator(".token[data-side=query][data-index='3']").click()
    assert stage.evaluate("sent") == [
        ["token", {"side": "query", "index": 1}],
        ["token", {"side": "query", "index": 3}],
    ]
    selected = stage.locator(".token[aria-selected=true]")
    post(stage, locked={"side": "query", "index": 1})
    assert selected.get_attribute("data-index") == "3"
    post(stage, locked={"side": "query", "index": 3})
    assert selected.get_attribute("data-index") == "3"
    post(stage, locked={"side": "key", "index": 0})
    assert selected.get_attribute("data-side") == "key"


def test_a_caller_that_ignores_events_leaves_the_reader_in_charge(stage):
    stage.evaluate("void start()")
    post(stage, active=[0, 1])
    stage.locator(".chip").nth(2).click()
    post(stage, active=[0, 1], threshold=0.1)
    assert lit(stage) == [True, True, True]
    post(stage, active=[2])
    assert lit(stage) == [False, False, True]

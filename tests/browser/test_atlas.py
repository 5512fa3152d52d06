"""The Head atlas as a reader meets it: a plane of queries and keys by keyboard and pointer, and the way back."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"


def test_a_point_is_reached_by_keys_and_pointer_kept_in_the_address_and_let_go_by_back(serve, visit):
    opened = visit(f"{serve(APP)}/atlas?screen=vectors&site=encoder.2.self&head=3", width=390, dark=True)
    page = opened.page
    plane = page.locator(".vectors")
    opened.drawn(plane)
    assert int(plane.get_attribute("data-points") or 0) > 3_000
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    reading = plane.locator(".reading")
    expect(reading).to_contain_text("Circles are queries")
    plane.locator(".lit").focus()
    sent = opened.sent
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(reading).to_contain_text("token 3 of its sentence, looks most at")
    focus = json.loads(plane.get_attribute("data-focus") or "")
    assert (focus["side"], focus["sentence"], focus["place"]) == ("query", 2, 2)
    entries = page.evaluate("history.length")
    page.get_by_role("radio", name="Token class").click()
    expect(plane.locator(".legend")).to_contain_text("punctuation")
    expect(page).to_have_url(re.compile(r"head=3&colour=class$"))
    page.get_by_role("textbox", name="Only this token").fill("man")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"colour=class&word=man$"))
    page.go_back()
    page.go_back()
    expect(page).not_to_have_url(re.compile("colour="))
    expect(plane.locator(".legend")).not_to_contain_text("punctuation")
    page.go_forward()
    expect(page.get_by_role("radio", name="Token class")).to_be_checked()
    assert page.evaluate("history.length") == entries + 2
    assert opened.sent == sent  # nothing was asked of the server
    plane.locator(".lit").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    with opened.run():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("colour=class"))
    expect(page).to_have_url(re.compile(r"point=query\.2\.2"))
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    milliseconds = float(plane.get_attribute("data-draw-milliseconds") or "nan")
    assert milliseconds < 200  # the points stay drawn; only what is in focus is drawn again
    with opened.run():
        page.go_back()
    expect(page).not_to_have_url(re.compile("point="))
    expect(page.locator(".js-plotly-plot")).to_have_count(0)
    opened.move(f"{serve(APP)}/atlas?kind=decoder.cross&model=multi30k-en-de")
    page.evaluate("() => { window.stays = true }")
    entries = page.evaluate("history.length")
    with opened.run():
        page.locator(".atlas a", has_text="L2 H1").click()
    expect(page.get_by_role("heading", name="decoder.2.cross, head 1")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/atlas\?.*screen=head&site=decoder\.2\.cross&head=1"))
    assert page.evaluate("[window.stays, history.length]") == [True, entries + 1]  # the app was not loaded anew
    with opened.run():
        page.go_back()
    expect(page.locator(".atlas a", has_text="L2 H1")).to_be_visible()

"""The Head atlas as a reader meets it: a plane of queries and keys by keyboard and pointer, and the way back."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.parts import fits
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"


def focused(plane: Locator) -> dict[str, Any]:
    """The point that has the keyboard."""
    return json.loads(plane.get_attribute("data-focus") or "{}")


def test_a_point_is_reached_by_keys_and_pointer_kept_in_the_address_and_let_go_by_back(serve, visit):
    opened = visit(f"{serve(APP)}/atlas?screen=vectors&site=encoder.2.self&head=3", width=390, dark=True)
    page = opened.page
    plane = page.locator(".vectors")
    opened.drawn(plane)
    until(page, lambda: int(plane.get_attribute("data-points") or 0) > 3_000)
    fits(page, 390)
    reading = plane.locator(".reading")
    expect(reading).to_contain_text("Circles are queries")
    plane.locator(".lit").focus()
    sent = opened.sent
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(reading).to_contain_text("token 3 of its sentence, looks most at")
    until(page, lambda: {"side": "query", "sentence": 2, "place": 2}.items() <= focused(plane).items())
    points = plane.locator(".sheet canvas").first
    points.evaluate("canvas => { canvas.getContext('2d').fillRect(0, 0, 1, 1); }")
    page.keyboard.press("ArrowRight")
    expect(plane).not_to_have_attribute("data-focus", re.compile('"place":2[,}]'))
    kept = points.evaluate("canvas => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]")
    assert kept[3] == 255, "the points stay drawn; only what is in focus is drawn again"
    page.keyboard.press("ArrowLeft")
    until(page, lambda: focused(plane)["place"] == 2)
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
    until(page, lambda: page.evaluate("[window.stays, history.length]") == [True, entries + 1])  # not loaded anew
    with opened.run():
        page.go_back()
    expect(page.locator(".atlas a", has_text="L2 H1")).to_be_visible()

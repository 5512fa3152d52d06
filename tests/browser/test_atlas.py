"""The Head atlas as a reader meets it: a plane of queries and keys by pointer, and the way back."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.visiting import until

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"

SPOT = """(plot, id) => {
  const { xaxis, yaxis } = plot._fullLayout ?? {};
  const box = plot.getBoundingClientRect();
  for (const { customdata, x, y } of plot._fullData ?? []) {
    const at = [...customdata ?? []].indexOf(id);
    if (at >= 0) return [box.x + xaxis._offset + xaxis.l2p(x[at]), box.y + yaxis._offset + yaxis.l2p(y[at])];
  }
  return null;
}"""
"""Where the point with this name is on the screen."""


def test_a_point_is_kept_in_the_address_and_let_go_by_back_and_a_card_leads_to_its_head(serve, visit):
    opened = visit(f"{serve(APP)}/atlas?screen=vectors&site=encoder.2.self&head=3", dark=True)
    page = opened.page
    plane = page.locator(".js-plotly-plot").first
    until(page, lambda: plane.evaluate(SPOT, "query.2.2"))
    with opened.run():
        page.mouse.move(*plane.evaluate(SPOT, "query.2.2"))
        expect(plane.locator(".hoverlayer .hovertext")).to_contain_text(re.compile("(query; looks|key; looked) "))
        page.mouse.click(*plane.evaluate(SPOT, "query.2.2"))
    expect(page).to_have_url(re.compile(r"point=(query|key)\."))
    expect(page.get_by_text("Open this sentence in Translate")).to_be_visible()
    with opened.run():
        page.go_back()
    expect(page).not_to_have_url(re.compile("point="))
    expect(page.get_by_text("Open this sentence in Translate")).to_have_count(0)
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

"""The Head atlas as a reader meets it: cards and the tree by pointer, and the way back."""

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
"""Where the point that holds this is on the screen."""


def test_a_card_and_a_leaf_of_the_tree_lead_to_their_head_and_back_leads_back(serve, visit):
    opened = visit(f"{serve(APP)}/atlas?kind=decoder.cross&model=multi30k-en-de", dark=True)
    page = opened.page
    page.evaluate("() => { window.stays = true }")
    entries = page.evaluate("history.length")
    with opened.run():
        page.locator(".atlas a", has_text="layer 2 · head 1").click()
    expect(page.get_by_text("Cross · layer 2 · head 1:")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/atlas\?.*screen=head&layer=2&head=1"))
    until(page, lambda: page.evaluate("[window.stays, history.length]") == [True, entries + 1])  # not loaded anew
    with opened.run():
        page.go_back()
    expect(page.locator(".atlas a", has_text="layer 2 · head 1")).to_be_visible()
    opened.move(f"{serve(APP)}/atlas?screen=map&kind=decoder.cross&model=multi30k-en-de")
    tree = page.locator(".js-plotly-plot").first
    until(page, lambda: tree.evaluate(SPOT, 6))
    with opened.run():
        page.mouse.click(*tree.evaluate(SPOT, 6))
    expect(page.get_by_text("Cross · layer 1 · head 2:")).to_be_visible()

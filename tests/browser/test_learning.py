"""A class starts a training, stops it, and opens the model on another page."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"


@pytest.mark.parametrize(("settings", "page"), [("d_model=16", "Translate"), ("task=repeat&d_model=16", "Map")])
def test_a_training_is_started_and_stopped_and_its_model_opened_on_another_page(serve, visit, settings, page):
    here = visit(f"{serve(APP)}/learning?{settings}&seed=7").page
    expect(here.get_by_text("Nothing is trained with these settings yet")).to_be_visible()
    here.get_by_role("button", name="Train", exact=True).click()
    expect(here.get_by_text(re.compile(r"right after \d|After \d"))).to_be_visible()
    here.get_by_role("button", name="Pause").or_(here.get_by_role("button", name="Train", exact=True)).first.click()
    expect(here.get_by_role("button", name="Train", exact=True)).to_be_visible()
    expect(here.locator(".alignments canvas").first).to_be_visible()
    here.get_by_role("button", name=re.compile(r"Open this model \(update")).click()
    opened = here.get_by_test_id("stPopoverBody")
    opened.get_by_role("button", name="Open", exact=True).click()
    opened.get_by_role("link", name=page).click()
    expect(here.get_by_role("heading", name=page)).to_be_visible()
    expect(here.locator("canvas, svg.map, .map").first).to_be_visible()
    assert "model=upload%2F" in here.url

"""What a person does on the map: look, point, walk with the keyboard, open a part, go back, send the address."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
MOST_ELEMENTS = 400


@pytest.fixture
def opened(serve, visit):
    """`opened(address)` opens the app there, once the map is drawn."""

    def go(address="", **window):
        here = visit(f"{serve(ROOT / 'app.py')}/{address}", **window)
        here.drawn(here.page.locator(".map"))
        return here

    return go


def focused(page: Page) -> str:
    """How the part that has the keyboard is read aloud."""
    return page.locator(".map .part:focus").get_attribute("aria-label") or ""


def path_of(page: Page) -> str:
    return page.url.split("/", 3)[3]


def test_a_part_is_reached_opened_and_left_by_the_keyboard_and_every_step_is_an_address(opened) -> None:
    here = opened(motion=True)  # parts that still rise can be reached
    page = here.page
    assert page.locator(".map *").count() <= MOST_ELEMENTS
    page.locator('.map .part[tabindex="0"]').focus()
    assert "words" in focused(page)
    seen = [focused(page)]
    for _ in range(4):
        page.keyboard.press("ArrowUp")
        seen.append(focused(page))
    assert [name.split(": ")[1].split(".")[0] for name in seen[1:]] == [
        "embedding",
        "+ positions",
        "layer norm",
        "self-attention",
    ]
    expect(page.locator(".map .tip")).to_contain_text("softmax(Q K")
    before = page.locator(".map .stream").last.get_attribute("d")
    whole = here.whole
    with here.run():
        page.keyboard.press("ArrowRight")
    assert "at_word=7" in page.url
    assert page.locator(".map .stream").last.get_attribute("d") != before
    with here.run():
        page.keyboard.press("Enter")
    assert "part=encoder.0.self_attention" in page.url
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    expect(page.locator(".js-plotly-plot .heatmaplayer image")).to_be_visible()
    address = path_of(page)
    with here.run():
        page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_have_count(0)
    assert "part=" not in page.url
    assert here.whole == whole  # a step, opening and closing are drawn without the page around the map
    with here.run():
        page.go_back()
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    fresh = opened(address).page
    expect(fresh.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    assert fresh.locator(".map .stream").last.get_attribute("d") == page.locator(".map .stream").last.get_attribute("d")
    link = fresh.get_by_test_id("stMain").get_by_role("link", name="This head on Translate")
    link.click()
    expect(fresh.get_by_role("heading", name="Translate", exact=True)).to_be_visible()
    assert "layer=0" in fresh.url


def test_a_thumbnail_opens_its_own_head_and_narrow_towers_stand_one_above_the_other(opened) -> None:
    here = opened("?sentence=Two+dogs+are+playing.", width=390)
    page = here.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    encoder, decoder = (page.locator(".map .stream").nth(i).bounding_box() for i in (0, 1))
    assert encoder
    assert decoder
    assert decoder["y"] + decoder["height"] < encoder["y"]
    expect(page.locator(".map .legend")).to_contain_text("Light on a source word")
    page.emulate_media(media="print")
    expect(page.locator(".map .about")).to_be_visible()  # on paper too it says what model this is
    expect(page.locator(".map .player")).to_be_hidden()
    page.emulate_media(media="screen")
    heads = page.locator(".map image").last
    heads.scroll_into_view_if_needed()
    box = heads.bounding_box()
    assert box
    with here.run():
        page.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] / 2)
    assert "at_head=0" in page.url  # not the surest one, which needs no saying


def test_an_old_link_opens_translate_and_back_leaves_it(opened, serve, visit) -> None:
    here = opened()
    page = here.page
    with here.run():
        page.goto(f"{serve(ROOT / 'app.py')}/?text=Two+dogs&layer=1&view=Step+by+step")
    expect(page.get_by_role("heading", name="Translate", exact=True)).to_be_visible()
    page.wait_for_url(re.compile(r"/translate\?.*view=steps"))  # today's word is no entry of its own
    link = page.get_by_test_id("stSidebar").get_by_role("link", name="Map", exact=True)
    link.hover()
    expect(link).to_have_attribute("href", re.compile(r"^\./"))  # so a middle click opens the map
    with here.run():
        page.go_back()
    expect(page.get_by_role("heading", name="Map", exact=True)).to_be_visible()

"""What a person does on the map: look, point, walk with the keyboard, open a part, go back, send the address."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box, fits
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

MOST_ELEMENTS = 400


def focused(page: Page, name: str) -> None:
    """The part that has the keyboard is read aloud by this name."""
    expect(page.locator(".map .part:focus")).to_have_attribute("aria-label", re.compile(rf"^[^:]*: {re.escape(name)}"))


def stream(page: Page) -> str:
    """The path of the decoder's residual stream."""
    return page.locator(".map .stream").last.get_attribute("d") or ""


def type_size(page: Page) -> float:
    """The smallest type on the map, in CSS pixels."""
    return page.locator(".map svg.sheet").evaluate("""svg => {
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const sizes = [...svg.querySelectorAll("text")].map(one => parseFloat(getComputedStyle(one).fontSize));
      return scale * Math.min(...sizes);
    }""")


def test_a_part_is_reached_opened_and_left_by_the_keyboard_and_every_step_is_an_address(opened) -> None:
    here = opened("", ".map", motion=True)
    page = here.page
    until(page, lambda: page.locator(".map *").count() <= MOST_ELEMENTS)
    page.locator('.map .part[tabindex="0"]').focus()
    expect(page.locator(".map .part:focus")).to_have_attribute("aria-label", re.compile("words"))
    for name in ("embedding.", "+ positions.", "layer norm.", "self-attention."):
        page.keyboard.press("ArrowUp")
        focused(page, name)
    expect(page.locator(".map .tip")).to_contain_text("softmax(Q K")
    before = stream(page)
    whole = here.whole
    with here.run():
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("word=Schnee"))
    until(page, lambda: stream(page) != before)
    with here.run():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"part=encoder\.0\.self_attention"))
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    expect(page.locator(".st-key-part-heatmap canvas")).to_be_visible()
    expect(page.get_by_role("button", name="Map")).to_be_focused()
    assert type_size(page) >= 10, "the map is no smaller beside the panel"
    address = page.url
    with here.run():
        page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_have_count(0)
    expect(page).not_to_have_url(re.compile("part="))
    focused(page, "self-attention.")
    with here.run():
        page.locator(".map .word", has_text="dogs").click()
    expect(page).to_have_url(re.compile("from="))
    expect(page.locator(".map .word-mark.from")).to_have_count(1)
    assert here.whole == whole  # a step, opening and closing are drawn without the page around the map
    with here.run():
        page.go_back()
    with here.run():
        page.go_back()
    expect(page.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    fresh = opened(address, ".map").page
    expect(fresh.get_by_role("heading", name="self-attention", exact=True)).to_be_visible()
    until(fresh, lambda: stream(fresh) == stream(page))
    link = fresh.get_by_test_id("stMain").get_by_role("link", name="This head on Translate")
    link.click()
    expect(fresh.get_by_role("heading", name="Translate", exact=True)).to_be_visible()
    expect(fresh).to_have_url(re.compile("layer=0"))


def test_a_thumbnail_opens_its_own_head_and_narrow_towers_stand_one_above_the_other(opened) -> None:
    here = opened("?text=Two+dogs+are+playing.", ".map", width=390)
    page = here.page
    fits(page, 390)

    def decoder_above() -> None:
        encoder, decoder = (box(page.locator(".map .stream").nth(i)) for i in (0, 1))
        assert decoder["y"] + decoder["height"] < encoder["y"]

    until(page, decoder_above)
    expect(page.locator(".map .legend")).to_contain_text("A source word is the darker")
    page.emulate_media(media="print")
    expect(page.locator(".map .about")).to_be_visible()  # on paper too it says what model this is
    expect(page.locator(".map .player")).to_be_hidden()
    page.emulate_media(media="screen")
    heads = page.locator(".map image").last
    heads.scroll_into_view_if_needed()
    place = box(heads)
    with here.run():
        page.mouse.click(place["x"] + place["width"] * 0.1, place["y"] + place["height"] / 2)
    expect(page).to_have_url(re.compile("at_head=0"))  # not the surest one, which needs no saying

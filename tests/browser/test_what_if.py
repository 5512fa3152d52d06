"""What if in a real browser: switch a head off, drag and type a row, sweep, Back, and a copied address."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box
from tests.browser.visiting import Visit, until
from transformer.attention.interventions.text import from_text

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SITE = "decoder.1.cross"
START = "what_if?text=Two+dogs+run.&kind=decoder.cross&layer=1&head=2&cell=1-1&lang={language}"


def done(page: Page) -> str:
    """What the address says is changed."""
    return parse_qs(urlsplit(page.url).query).get("do", [""])[0]


def texts(page: Page) -> list[str]:
    return [page.get_by_test_id(f"words-{side}").inner_text() for side in ("was", "now")]


def test_a_head_a_row_a_sweep_back_and_the_copied_address(opened: Callable[..., Visit]) -> None:
    """Each is one entry of the history; what the bars show is what is forced; a fresh visit shows the same."""
    here = opened(START.format(language="en"))
    page = here.page
    bars = page.locator(".row-bars .track")
    expect(bars).to_have_count(5)
    expect(page.get_by_test_id("words-now")).to_be_visible()
    until(page, lambda: len(set(texts(page))) == 1)  # nothing is changed

    with here.run():
        page.locator(".all-heads .cell").nth(1 * 4 + 2).click()
    until(page, lambda: done(page) == f"{SITE}~mean~h2")
    expect(page.locator(".all-heads .cell.off")).to_have_count(1)
    expect(page.locator(".all-heads .cell.off")).to_have_attribute("aria-label", re.compile(r"off \(mean\)$"))
    with here.run():
        page.get_by_role("button", name=f"{SITE} (head 2) off (mean)").click()
    until(page, lambda: done(page) == "")

    first = bars.nth(0)
    first.scroll_into_view_if_needed()
    place = box(first)
    page.mouse.move(place["x"] + 2, place["y"] + place["height"] / 2)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, steps=3)
    expect(first).to_have_attribute("aria-valuetext", re.compile(r"0\.(4[89]|5[0-2])"))
    dragged = first.get_attribute("aria-valuetext")
    with here.run():
        page.mouse.up()
    until(page, lambda: done(page) != "")
    (forced,) = from_text(done(page))
    assert (forced.site, forced.action, forced.heads, forced.queries) == (SITE, "force", (2,), (1,))
    assert forced.value[0] == float(dragged or 0) == pytest.approx(0.5, abs=0.02)
    assert sum(forced.value) == pytest.approx(1)
    with here.run():
        first.press("End")
    # the keyboard sets it anew, one change of a row at a time
    until(page, lambda: done(page) == f"{SITE}~force~h2~q1~k0~v1.0")
    expect(bars.nth(1)).to_have_attribute("aria-valuetext", "0.000")
    title = f"{SITE} · head 2 · 1 change"
    expect(page.locator(".heatmap .title")).to_have_text(title)
    expect(page.get_by_role("grid", name=title)).to_be_visible()
    changed = (page.url, texts(page))

    with here.run():
        page.get_by_role("radio", name="every source word hidden").click()
    expect(page.get_by_text("The same numbers as a table")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    with here.run():
        page.go_back()
    expect(page.get_by_text("The same numbers as a table")).to_have_count(0)
    expect(page).to_have_url(changed[0])
    with here.run():
        page.go_back()
    until(page, lambda: from_text(done(page)) == (forced,))  # Back undoes
    expect(first).to_have_attribute("aria-valuetext", dragged or "")
    with here.run():
        page.go_forward()
    expect(page).to_have_url(changed[0])  # Forward redoes

    again = opened(changed[0].split("/", 3)[3])
    expect(again.page.locator(".row-bars .track").nth(0)).to_have_attribute("aria-valuetext", "1.000")
    until(again.page, lambda: texts(again.page) == changed[1])


def test_a_bar_opens_its_step_and_leaves_the_rest_of_the_address(opened: Callable[..., Visit]) -> None:
    """Back shows the step of before."""
    here = opened(f"{START.removesuffix('&lang={language}')}&step=1")
    page = here.page
    rows = page.get_by_test_id("bars-effects").locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    before = urlsplit(page.url)
    with here.run():
        rows.nth(3).click()
    until(page, lambda: parse_qs(urlsplit(page.url).query)["step"] == ["3"])
    after = urlsplit(page.url)
    assert parse_qs(after.query) == {**parse_qs(before.query), "step": ["3"]}
    expect(rows.nth(3)).to_have_attribute("aria-current", "true")
    expect(rows.nth(1)).not_to_have_attribute("aria-current", "true")
    with here.run():
        page.go_back()
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(before.geturl())

"""What if, Sources, the Head atlas and Learning in a browser: a head and a row changed, a word, a card, a training."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from heedmap.attention.interventions.value import from_text
from tests.browser.parts import box, heatmap_cell, saved
from tests.browser.visiting import MOVE, Visit, until

pytestmark = pytest.mark.browser

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

    again = opened(changed[0])
    expect(again.page.locator(".row-bars .track").nth(0)).to_have_attribute("aria-valuetext", "1.000")
    until(again.page, lambda: texts(again.page) == changed[1])


def test_a_bar_opens_its_step_and_leaves_the_rest_of_the_address(opened: Callable[..., Visit]) -> None:
    """Back shows the step of before."""
    here = opened(f"{START.removesuffix('&lang={language}')}&written=2")
    page = here.page
    rows = page.get_by_test_id("bars-effects").locator("tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    before = urlsplit(page.url)
    with here.run():
        rows.nth(3).click()
    until(page, lambda: parse_qs(urlsplit(page.url).query)["written"] == ["4"])
    after = urlsplit(page.url)
    assert parse_qs(after.query) == {**parse_qs(before.query), "written": ["4"]}
    expect(rows.nth(3)).to_have_attribute("aria-current", "true")
    expect(rows.nth(1)).not_to_have_attribute("aria-current", "true")
    with here.run():
        page.go_back()
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(before.geturl())


WHOLE = """list => {
  const { top, bottom } = list.getBoundingClientRect();
  return [...list.children].map((word) => word.getBoundingClientRect()).filter((word) => word.top < bottom)
    .every((word) => word.bottom <= bottom + 0.5 && word.top >= top - 0.5);
}"""


def test_no_row_of_a_long_text_s_words_is_cut(opened: Callable[..., Visit]) -> None:
    for width in (1280, 390):
        here = opened(f"what_if?text={'+'.join(map(str, range(40)))}&do=none", width=width)
        words = here.page.locator(".st-key-hidden-words [data-testid=stButtonGroup] > div")
        words.locator("button").nth(40).wait_for(state="attached")
        until(here.page, lambda words=words: words.evaluate("one => one.scrollHeight > one.clientHeight"))
        until(here.page, lambda words=words: words.evaluate(WHOLE))


def test_a_word_its_sources_and_what_is_known_of_the_methods(opened):
    """One visit: two methods beside each other, another word by a click on a row, and its file."""
    here = opened("translate?view=sources&text=Two+dogs+run.&by=deletion&also=contributions")
    page = here.page
    strips = [page.get_by_test_id(f"sources-{method}") for method in ("deletion", "contributions")]
    for strip in strips:
        expect(strip.locator("span")).to_have_count(5)
        n_colours = "all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size"
        until(page, lambda one, asked: one.locator("span").evaluate_all(asked) > 1, strip, n_colours)
        brightest = strip.locator('span[style*="60%"]')
        expect(brightest).to_have_count(1)
        expect(brightest).to_contain_text("Two")
    expect(page.get_by_text("It cannot say:")).to_have_count(2)
    for begins in ("The other methods are measured against it. On", "Measured on"):
        expect(page.get_by_text(f"{begins} 206 written words of 200 sentences")).to_be_visible()
    expect(page.get_by_text("Agreement of the two")).to_be_visible()
    expect(page.locator(".bars .split").last).to_be_visible()  # nothing moves any more
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)
    drawn = page.locator(".heatmap canvas").first
    with here.run():
        drawn.click(position=heatmap_cell(drawn, 1, 0))
    expect(page).to_have_url(re.compile("word=Hunde"))
    expect(strips[0].locator('span[style*="60%"]')).to_contain_text("dogs")
    name, table = saved(page.get_by_role("button", name="CSV").first)
    assert name.endswith("_multi30k-en-de_sources_deletion.csv")
    assert "Hunde" in table.decode()
    assert here.errors == []


def test_slow_work_says_what_it_costs_and_stops_when_told_to(opened):
    """By integrated gradients, of a long target, in Chinese; what came before stays, and it is asked for after all."""
    address = "translate?lang=zh&view=sources&by=norms"
    here = opened(f"{address}&text=Two+dogs+run.")
    page, words = here.page, "+".join(["Two+dogs+run."] * 30)
    page.evaluate(MOVE, f"/{address.replace('norms', 'integrated_gradients')}&text={words}&force={words}")
    bar = page.get_by_test_id("stProgress")
    expect(bar).to_contain_text(re.compile("积分梯度.+模型要运行 [\\d,]+ 遍.+ [\\d,]+ 秒"))
    with here.run():
        page.get_by_role("button", name="停止", exact=True).click()
    expect(page.get_by_text(re.compile("积分梯度.+已由你停止"))).to_be_visible()
    expect(bar).to_have_count(0)
    page.get_by_role("button", name="还是要算").click()
    expect(bar).to_be_visible()


def test_a_card_leads_to_its_head_and_back_leads_back(opened):
    here = opened("atlas?kind=decoder.cross&model=multi30k-en-de", dark=True)
    page = here.page
    page.evaluate("() => { window.stays = true }")
    entries = page.evaluate("history.length")
    with here.run():
        page.locator(".atlas a", has_text="layer 2 · head 1").click()
    expect(page.get_by_text("Cross · layer 2 · head 1:")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/atlas\?.*screen=head&kind=decoder\.cross&layer=2&head=1"))
    until(page, lambda: page.evaluate("[window.stays, history.length]") == [True, entries + 1])  # not loaded anew
    with here.run():
        page.go_back()
    expect(page.locator(".atlas a", has_text="layer 2 · head 1")).to_be_visible()


@pytest.mark.parametrize(("settings", "page"), [("d_model=16", "Translate"), ("task=repeat&d_model=16", "Map")])
def test_a_training_is_started_and_stopped_and_its_model_opened_on_another_page(opened, settings, page):
    here = opened(f"learning?{settings}&seed=7").page
    expect(here.get_by_text("Nothing is trained with these settings yet")).to_be_visible()
    here.get_by_role("button", name="Train", exact=True).click()
    expect(here.get_by_text(re.compile(r"right after \d|After \d"))).to_be_visible()
    here.get_by_role("button", name="Pause").or_(here.get_by_role("button", name="Train", exact=True)).first.click()
    expect(here.get_by_role("button", name="Train", exact=True)).to_be_visible()
    expect(here.locator(".alignments canvas").first).to_be_visible()
    here.get_by_role("button", name=re.compile(r"Open this model \(update")).click()
    menu = here.get_by_test_id("stPopoverBody")
    menu.get_by_role("button", name="Open", exact=True).click()
    menu.get_by_role("link", name=page).click()
    expect(here.get_by_role("heading", name=page)).to_be_visible()
    expect(here.locator("canvas, svg.map, .map").first).to_be_visible()
    assert "model=upload%2F" in here.url

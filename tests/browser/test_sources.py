"""Sources as a reader meets it: pick a word, see its source words by two methods, take the matrix away."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.parts import box
from tests.browser.visiting import MOVE, until

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"


def test_a_word_its_sources_and_what_is_known_of_the_methods(serve, visit):
    """One visit: two methods beside each other, another word by a click on a row, and its file."""
    opened = visit(f"{serve(APP)}/translate?view=sources&text=Two+dogs+run.&by=deletion&also=contributions")
    page = opened.page
    strips = [page.get_by_test_id(f"sources-{method}") for method in ("deletion", "contributions")]
    for strip in strips:
        expect(strip.locator("span")).to_have_count(5)
        n_colours = "all => new Set(all.map(one => getComputedStyle(one).backgroundColor)).size"
        until(page, lambda one, asked: one.locator("span").evaluate_all(asked) > 1, strip, n_colours)
        brightest = strip.locator('span[style*="60%"]')
        expect(brightest).to_have_count(1)
        expect(brightest).to_contain_text("Two")
    expect(page.get_by_text("It cannot say:")).to_have_count(2)
    expect(page.get_by_text("The other methods are measured against it. On 1,014 sentences")).to_be_visible()
    expect(page.get_by_text("Measured on 1,014 sentences")).to_be_visible()
    expect(page.get_by_text("Agreement of the two")).to_be_visible()
    expect(page.locator(".bars .split").last).to_be_visible()  # nothing moves any more
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)
    drawn = page.locator(".heatmap canvas").first
    drawn.scroll_into_view_if_needed()
    left, top, wide, tall = (float(part) for part in (drawn.get_attribute("data-cells") or "").split())
    place = box(drawn)
    with opened.run():
        page.mouse.click(place["x"] + left + wide / 2, place["y"] + top + 1.5 * tall)  # the second row
    expect(page).to_have_url(re.compile("word=Hunde"))
    expect(strips[0].locator('span[style*="60%"]')).to_contain_text("dogs")
    with page.expect_download() as taken:
        page.get_by_role("button", name="CSV").first.click()
    assert taken.value.suggested_filename.endswith("_multi30k-en-de_sources_deletion.csv")
    table = Path(taken.value.path()).read_text(encoding="utf-8-sig")
    assert "Hunde" in table
    assert opened.errors == []


def test_slow_work_says_what_it_costs_and_stops_when_told_to(serve, visit):
    """By integrated gradients, of a long target, in Chinese; what came before stays, and it is asked for after all."""
    address = f"{serve(APP)}/translate?lang=zh&view=sources&by=norms"
    opened = visit(f"{address}&text=Two+dogs+run.")
    page, words = opened.page, "+".join(["Two+dogs+run."] * 30)
    page.evaluate(MOVE, f"{address.replace('norms', 'integrated_gradients')}&text={words}&force={words}")
    bar = page.get_by_test_id("stProgress")
    expect(bar).to_contain_text(re.compile("积分梯度.+模型要运行 [\\d,]+ 遍.+ [\\d,]+ 秒"))
    with opened.run():
        page.get_by_role("button", name="停止", exact=True).click()
    expect(page.get_by_text(re.compile("积分梯度.+已由你停止"))).to_be_visible()
    expect(bar).to_have_count(0)
    page.get_by_role("button", name="还是要算").click()
    expect(bar).to_be_visible()

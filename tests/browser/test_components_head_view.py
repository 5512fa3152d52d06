"""The head view as a reader meets it: which lines there are, and what a hover, a click or a key does."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import attention
from tests.browser.parts import HEADS, KEYS, QUERIES, SHAPE, box, chip, footer, numbers, token
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

COUNT_STROKES = """() => {
  const stroke = CanvasRenderingContext2D.prototype.stroke;
  window.strokes = 0;
  CanvasRenderingContext2D.prototype.stroke = function (...path) { window.strokes++; stroke.apply(this, path); };
}"""


def test_hover_isolates_a_token_and_a_click_locks_it_without_the_server_which_hears_of_a_pair(demo):
    opened = demo("show=lines")
    page = opened.page
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")
    rest = opened.at_rest()
    means = attention(*SHAPE)[0][1].mean(axis=0)
    token(page, "query", 3).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * KEYS} lines drawn")
    expect(footer(page)).to_contain_text("Numbers: mean weight of the 5 heads shown; bars: one a head")
    until(page, lambda: numbers(page, "key") == [f"{mean:.3f}" for mean in means[3]])
    until(page, lambda: set(numbers(page, "query")) == {""})
    token(page, "key", 2).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    until(page, lambda: numbers(page, "query") == [f"{mean:.3f}" for mean in means[:, 2]])
    page.mouse.move(1, 1)
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")

    # a click locks, another releases
    token(page, "key", 4).click()
    token(page, "query", 0).hover()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    expect(token(page, "key", 4)).to_have_attribute("aria-selected", "true")
    token(page, "key", 5).click()
    expect(token(page, "key", 4)).to_have_attribute("aria-selected", "false")
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "true")
    token(page, "key", 5).click()
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "false")
    token(page, "query", 9).click()
    expect(page.locator(".head-view .reading")).to_have_text(
        "q9 (query 9). Locked: click a token across to select the pair, Escape releases."
    )
    page.keyboard.press("Escape")
    page.mouse.move(1, 1)
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES * KEYS} lines drawn")
    assert opened.at_rest() == rest

    # a token across from the locked one selects the pair
    token(page, "key", 4).click()
    with opened.run():
        token(page, "query", 10).click()
    expect(page.get_by_text("pairs [(10, 4)]")).to_be_visible()
    mean = attention(*SHAPE)[0][1].mean(axis=0)[10, 4]
    reading = page.locator(".head-view .reading")
    expect(reading).to_have_text(f"Selected pair q10 (query 10) → k4 (key 4): {mean:.3f}, mean of the 5 heads shown.")
    expect(token(page, "query", 10)).to_have_class(re.compile("paired"))
    expect(token(page, "key", 4)).to_have_attribute("aria-selected", "true")


def test_a_pair_that_nobody_listens_for_is_selected_without_a_run(demo):
    opened = demo("show=lines&deaf=1")
    page, rest = opened.page, opened.at_rest()
    token(page, "query", 2).click()
    token(page, "key", 3).click()
    expect(page.locator(".head-view .reading")).to_contain_text("Selected pair q2 (query 2) → k3 (key 3)")
    assert opened.at_rest() == rest


def test_a_click_on_a_line_selects_its_pair(demo):
    opened = demo("shape=1,1,3,2&show=lines")
    page = opened.page
    query, key = box(token(page, "query", 2)), box(token(page, "key", 1))
    x = (query["x"] + query["width"] + key["x"]) / 2
    y = (query["y"] + key["y"]) / 2 + key["height"] / 2  # only the line from query 2 to key 1 passes so low here
    page.mouse.move(x, y)
    weight = attention(1, 1, 3, 2)[0][0, 0, 2, 1]
    expect(page.locator(".head-view .reading")).to_have_text(
        f"q2 (query 2) → k1 (key 1): {weight:.3f}, H0. Click selects the pair."
    )
    with opened.run():
        page.mouse.click(x, y)
    expect(page.get_by_text("pairs [(2, 1)]")).to_be_visible()


def test_a_pair_can_come_from_outside_and_a_newer_one_from_here(demo):
    opened = demo("show=lines")
    page = opened.page
    with opened.run():
        page.get_by_role("button", name="select the pair").click()
    expect(token(page, "query", 1)).to_have_class(re.compile("paired"))
    expect(token(page, "key", 2)).to_have_class(re.compile("paired"))
    token(page, "key", 5).click()
    with opened.run():
        token(page, "query", 0).click()
    expect(token(page, "query", 0)).to_have_class(re.compile("paired"))
    expect(token(page, "query", 1)).not_to_have_class(re.compile("paired"))


def test_chips_toggle_and_isolate_by_pointer_and_keyboard_and_keys_walk_the_tokens(demo):
    opened = demo("show=lines")
    page, rest = opened.page, opened.at_rest()
    chip(page, 1).click()
    expect(chip(page, 1)).to_have_attribute("aria-pressed", "false")
    page.mouse.move(1, 1)
    expect(footer(page)).to_contain_text(f"{(HEADS - 1) * QUERIES * KEYS} lines drawn")
    chip(page, 3).dblclick()
    expect(footer(page)).to_contain_text(f"{QUERIES * KEYS} lines drawn")
    token(page, "query", 0).hover()
    until(page, lambda: numbers(page, "key") == [f"{weight:.3f}" for weight in attention(*SHAPE)[0][1, 3, 0]])
    expect(footer(page)).to_contain_text("Numbers: weight in H3")
    chip(page, 3).dblclick()
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(HEADS)
    assert opened.at_rest() == rest

    # the same with the keyboard
    chip(page, 0).focus()
    page.keyboard.press("ArrowRight")
    expect(chip(page, 1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(chip(page, 1)).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Shift+Enter")
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(1)
    page.keyboard.press("Shift+Enter")
    expect(page.locator('.chip[aria-pressed="true"]')).to_have_count(HEADS)
    for _ in range(2):  # past the buttons, which are one stop, to the column's one stop
        page.keyboard.press("Tab")
    expect(token(page, "query", 0)).to_be_focused()
    for key, side, index in [
        ("ArrowDown", "query", 1),
        ("End", "query", 10),
        ("ArrowRight", "key", 6),
        ("ArrowUp", "key", 5),
    ]:
        page.keyboard.press(key)
        expect(token(page, side, index)).to_be_focused()
    expect(footer(page)).to_contain_text(f"{HEADS * QUERIES} lines drawn")
    page.keyboard.press("Enter")
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    with opened.run():
        page.keyboard.press(" ")
    expect(page.get_by_text("pairs [(5, 5)]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(token(page, "key", 5)).to_have_attribute("aria-selected", "false")


def test_strokes_are_capped_and_the_cap_is_stated_and_a_threshold_leaves_lines_out(demo):
    opened = demo("shape=1,12,64,64&show=lines")
    page = opened.page
    expect(footer(page)).to_contain_text("2,000 strongest of 49,152 lines drawn")
    page.evaluate(COUNT_STROKES)
    view = page.locator(".head-view")
    counts = "view => [window.strokes, Number(view.dataset.draws)]"
    strokes, draws = view.evaluate(counts)
    page.set_viewport_size({"width": 1000, "height": 900})
    opened.drawn(view, draws + 1)
    more, later = view.evaluate(counts)
    assert 500 < (more - strokes) / (later - draws) <= 2000

    # a threshold leaves lines out, and asks for nothing
    rest = opened.at_rest()
    slider = page.get_by_role("slider")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    weights = attention(1, 12, 64, 64)[0][0]
    drawn = f" {(weights >= np.float32(0.05)).sum():,} lines drawn"
    expect(footer(page)).to_contain_text(f"{drawn}; weights below 0.05 are left out")
    assert opened.at_rest() == rest


def test_the_last_of_many_tokens_is_reached_and_drawn(demo):
    opened = demo("shape=1,2,150,90&show=lines")
    page = opened.page
    token(page, "query", 0).focus()
    page.keyboard.press("End")
    last = token(page, "query", 149)
    expect(last).to_be_focused()
    expect(last).to_be_in_viewport()
    expect(footer(page)).to_contain_text(f"{2 * 90} lines drawn")
    page.keyboard.press("ArrowRight")
    expect(token(page, "key", 89)).to_be_focused()
    expect(token(page, "key", 89)).to_be_in_viewport()

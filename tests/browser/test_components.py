"""What both canvas components owe every reader: safe text, files, themes, any window, a finger, nothing to show."""

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages.sample import HOSTILE
from tests.browser.parts import HEADS, KEYS, QUERIES, box, cell, cell_colours, fits, footer, token
from tests.browser.visiting import until

pytestmark = pytest.mark.browser

CONTRAST = """element => {
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(channel => linear(channel / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const text = luminance(getComputedStyle(element).color);
  const page = luminance(getComputedStyle(document.querySelector(".stApp")).backgroundColor);
  return (Math.max(text, page) + 0.05) / (Math.min(text, page) + 0.05);
}"""


def test_token_text_is_only_ever_text(demo):
    opened = demo("hostile=1&show=lines")
    page = opened.page
    for index, text in enumerate(HOSTILE[:-1]):
        drawn = token(page, "query", index).locator(".text")
        until(page, lambda one, text: one.text_content() == text, drawn, text)
        assert drawn.locator("*").count() == 0
        assert (token(page, "query", index).get_attribute("title") or "") == text
    assert box(token(page, "query", HOSTILE.index("long" * 50)))["width"] < 400, "a long token is shortened"
    with page.expect_download() as download:
        page.get_by_role("button", name="Save SVG").click()
    picture = ET.fromstring(Path(download.value.path()).read_text(encoding="utf-8"))
    tags = {element.tag.partition("}")[2] for element in picture.iter()}
    assert tags == {"svg", "path", "rect", "text"}
    assert HOSTILE[2] in {element.text for element in picture.iter()}
    assert page.evaluate("typeof window.executed") == "undefined"


def test_pictures_can_be_kept(demo):
    page = demo("causal=1").page
    names = {}
    for number, kind in [(0, "PNG"), (1, "PNG"), (0, "SVG")]:
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {kind}").nth(number).click()
        names[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    assert set(names) == {"all-heads.png", "head-view.png", "head-view.svg"}
    for name in ("all-heads.png", "head-view.png"):
        assert names[name][:8] == b"\x89PNG\r\n\x1a\n"
        width, height = np.frombuffer(names[name], ">u4", 2, 16)
        assert width > 600
        assert height > 400
    picture = ET.parse(io.BytesIO(names["head-view.svg"])).getroot()
    paths = [element for element in picture.iter() if element.tag.endswith("path")]
    assert len(paths) == HEADS * int(np.tri(QUERIES, KEYS).sum()), "every visible pair and no masked one has a line"
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert {f"q{i}" for i in range(QUERIES)} | {f"k{i}" for i in range(KEYS)} <= set(texts)


def test_texts_stand_out_and_pictures_follow_the_theme(demo):
    page = demo("causal=1").page

    def stand_out() -> None:
        for selector in (".all-heads .column", ".all-heads .legend", ".token .text", ".head-view .footer", ".chip"):
            assert page.locator(selector).first.evaluate(CONTRAST) >= 7

    until(page, stand_out)
    canvas, visible = cell(page, 0, 0).locator("canvas"), np.tri(QUERIES, KEYS, dtype=bool)
    before = cell_colours(canvas, QUERIES, KEYS)
    page.emulate_media(color_scheme="dark")

    def redrawn() -> None:
        after = cell_colours(canvas, QUERIES, KEYS)
        assert (before[visible] == after[visible]).all(), "a weight's colour is the same in both themes"
        assert (before[~visible] != after[~visible]).any(), "a masked cell's grey is not"

    until(page, redrawn)
    until(page, stand_out)


@pytest.mark.parametrize(("width", "scale"), [(400, 2.0), (1600, 1.0)])
def test_pictures_fit_the_window_and_the_screen(demo, width, scale):
    page = demo("shape=3,12,11,7", width=width, scale=scale).page
    fits(page, width)
    lines = page.locator(".head-view .sheet canvas")

    def sharp() -> None:
        place = box(lines)
        sizes = [round(place["width"] * scale), round(place["height"] * scale)]
        assert lines.evaluate("c => [c.width, c.height]") == sizes

    until(page, sharp)
    first = box(cell(page, 0, 0, 12))
    assert min(first["width"], first["height"]) >= 40, "large enough for a finger"
    left, right = box(token(page, "query", 0)), box(token(page, "key", 0))
    assert right["x"] - left["x"] - left["width"] >= 60, "room for lines"


def test_a_finger_locks_and_picks(demo):
    opened = demo(touch=True, width=400)
    page = opened.page
    with opened.run():
        cell(page, 0, 1).tap()
    expect(page.get_by_text("selected (0, 1)")).to_be_visible()
    token(page, "query", 2).tap()
    expect(token(page, "query", 2)).to_have_attribute("aria-selected", "true")


def test_nothing_to_show_is_said(demo):
    page = demo("shape=1,2,3,0").page
    expect(page.locator(".all-heads .empty")).to_have_text(re.compile("no attention to show"))
    expect(page.locator(".head-view .empty")).to_be_visible()


def test_nan_is_drawn_apart_and_said(demo):
    opened = demo("nan=1")
    page = opened.page
    with opened.run():
        cell(page, 0, 0).click()
    expect(footer(page)).to_contain_text("1 NaN (not a number): dashed.")
    token(page, "query", 2).hover()
    expect(token(page, "key", 1).locator(".number")).to_have_text("NaN")

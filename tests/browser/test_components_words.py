"""The components in Chinese: what they show, tell a screen reader and draw holds no English word."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.parts import box, chip, footer, token

pytestmark = pytest.mark.browser

LISTEN = """() => {
  window.drawnTexts = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    window.drawnTexts.push(text);
    fillText.call(this, text, ...rest);
  };
}"""

TEXTS = """root => {
  const spoken = ["aria-label", "aria-valuetext", "title"];
  const found = [...root.querySelectorAll("*")].flatMap(one => spoken.map(name => one.getAttribute(name) ?? ""));
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) found.push(walker.currentNode.data);
  return [...found, ...window.drawnTexts];
}"""

NAMES = {"PNG", "SVG", "NaN", "viridis", "Esc", "nat"}
"""Words that are the same in both languages; the sample's own names are a letter and a number."""


def english(opened, component):
    """The Latin words among all texts of a component; some Chinese must be there too."""
    texts = " ".join(opened.page.locator(f".{component}").evaluate(TEXTS))
    assert re.search("[\u4e00-\u9fff]", texts)
    assert not re.search(r"[{}]", texts), "a field that nobody filled"
    return set(re.findall("[A-Za-z]{2,}", texts)) - NAMES


@pytest.fixture
def chinese(demo):
    """`chinese("show=...")` visits the components' page in Chinese, and listens to what canvases write."""

    def go(query, **window):
        opened = demo(f"{query}&lang=zh", **window)
        opened.page.evaluate(LISTEN)
        return opened

    return go


def save(opened, name):
    with opened.page.expect_download() as download:
        opened.page.get_by_role("button", name=f"保存 {name}").click()
    return download.value.path().read_text("utf-8") if name == "SVG" else ""


def test_all_heads(chinese):
    opened = chinese("show=grid&causal=1&nan=1")
    opened.page.locator(".all-heads .cell").first.hover()
    expect(opened.page.locator(".all-heads .preview")).to_contain_text("查询 ↓")
    expect(opened.page.locator(".all-heads .legend")).to_contain_text(re.compile("纵向.查询.横向.键"))
    save(opened, "PNG")
    assert english(opened, "all-heads") == set()


def test_all_heads_and_head_view_of_nothing(chinese):
    opened = chinese("shape=1,2,0,0")
    assert english(opened, "all-heads") == set()
    assert english(opened, "head-view") == set()


def test_head_view(chinese):
    opened = chinese("show=lines&causal=1&nan=1&shape=1,12,64,64")
    page = opened.page
    assert english(opened, "head-view") == set()
    token(page, "query", 2).click()
    expect(page.locator(".head-view .reading")).to_contain_text("已锁定")
    assert english(opened, "head-view") == set()
    with opened.run():
        token(page, "key", 0).click()
    expect(page.locator(".head-view .reading")).to_contain_text("选中的一对")
    expect(token(page, "key", 3).locator(".number")).to_have_text("被屏蔽")
    save(opened, "PNG")
    svg = " ".join(re.findall(">([^<]+)<", save(opened, "SVG")))
    assert set(re.findall("[A-Za-z]{2,}", svg)) - NAMES == set()
    assert "选中的一对" in svg
    page.get_by_role("slider").focus()
    page.get_by_role("slider").press("ArrowRight")
    expect(footer(page)).to_contain_text("低于 0.01 的权重不画")
    assert english(opened, "head-view") == set()


def test_head_view_of_lines_and_of_no_head(chinese):
    opened = chinese("show=lines&shape=1,1,3,2")
    page = opened.page
    query, key = box(token(page, "query", 2)), box(token(page, "key", 1))
    page.mouse.move((query["x"] + query["width"] + key["x"]) / 2, (query["y"] + key["y"]) / 2 + key["height"] / 2)
    expect(page.locator(".head-view .reading")).to_contain_text("单击即选中这一对")
    assert english(opened, "head-view") == set()
    chip(page, 0).click()
    expect(footer(page)).to_contain_text("没有打开任何头")
    assert english(opened, "head-view") == set()


def test_alignments(chinese):
    opened = chinese("show=maps")
    opened.page.locator(".alignments canvas").first.focus()
    opened.page.keyboard.press("ArrowDown")
    expect(opened.page.locator(".alignments .reading")).to_contain_text("“t0”\uff1aM1 看")
    save(opened, "PNG")
    assert english(opened, "alignments") == set()


def test_bitext(chinese):
    opened = chinese("show=bitext&causal=1")
    page = opened.page
    assert english(opened, "bitext") == set()
    page.locator(".bitext .target .word").nth(4).hover()
    expect(page.locator(".bitext .reading")).to_contain_text("写 q4 时")
    page.locator(".bitext .source .word").nth(3).hover()
    expect(page.locator(".bitext .reading")).to_contain_text("时看了 k3")
    save(opened, "PNG")
    assert english(opened, "bitext") == set()


def test_matrices(chinese):
    opened = chinese("show=board")
    matrix = opened.page.locator('.matrices canvas[data-matrix="B"]')
    matrix.focus()
    for key in ("ArrowDown", "ArrowRight"):
        opened.page.keyboard.press(key)
    expect(opened.page.locator(".matrices .reading")).to_have_text("B [i2, c2] = 无定义")
    save(opened, "PNG")
    assert english(opened, "matrices") == set()

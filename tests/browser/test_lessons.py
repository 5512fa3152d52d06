"""The lessons as a teacher meets them: a click on a cell lights up every matrix and writes the equation."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Position, expect

from tests.browser.parts import box, fits
from tests.browser.visiting import until
from transformer.lessons.attention import attention_board
from transformer.lessons.expressions.board import Highlight
from transformer.lessons.toy import toy_sentences, toy_transformer

pytestmark = pytest.mark.browser

APP = Path(__file__).parents[2] / "app.py"


@pytest.fixture
def board(serve, visit):
    """`board("screen=board", dark=True ...)` opens the page once its matrices are drawn."""

    def go(query="screen=board", **window):
        opened = visit(f"{serve(APP)}/attention_steps?{query}", **window)
        opened.drawn(opened.page.locator(".matrices"))
        return opened

    return go


def matrix(page, name: str) -> Locator:
    return page.locator(f'canvas[data-matrix="{name}"]')


def middle(canvas: Locator, row: int, column: int) -> Position:
    """The middle of a cell, in pixels of its canvas."""
    canvas.scroll_into_view_if_needed()
    box(canvas)  # which rests
    names = ("left", "top", "cell-width", "cell-height")
    left, top, width, height = (float(canvas.get_attribute(f"data-{name}") or "nan") for name in names)
    return {"x": left + (column + 0.5) * width, "y": top + (row + 0.5) * height}


def click(opened, name: str, row: int, column: int) -> None:
    canvas = matrix(opened.page, name)
    with opened.run():
        canvas.click(position=middle(canvas, row, column))


RELATIONS = dict(
    sources="sources", targets="targets", further_sources="furtherSources", further_targets="furtherTargets"
)


def test_every_stage_of_a_second_head_lights_up_and_is_worked_out(board):
    """Input to norm, with a causal mask: what the page lights and writes is what the library says of that cell."""
    opened = board("screen=board&attention=decoder&at_head=1")
    page = opened.page
    known = attention_board(toy_transformer(4, 2, seed=1), *toy_sentences(4), "decoder.0.self")
    shown = [name for name, one in known.items() if one.head in {None, 1}]
    expect(page.locator(".matrices canvas")).to_have_count(len(shown))
    cells = [
        ("E", 1, 0), ("X", 2, 3), ("W_Q1", 0, 1), ("K1", 1, 1), ("V1", 0, 0), ("S1", 3, 2), ("D1", 2, 1), ("M1", 2, 2),
        ("M1", 1, 3), ("A1", 3, 0), ("Z1", 1, 1), ("Z", 2, 3), ("W_O", 3, 1), ("O", 1, 2), ("R", 3, 3), ("Y", 0, 1),
    ]  # fmt: skip
    for name, row, column in cells:
        click(opened, name, row, column)
        expect(matrix(page, name)).to_have_attribute("data-picked", f"{row}-{column}")
        light = known.highlight(name, row, column)

        def lit(name: str, light: Highlight) -> None:
            for drawn in page.locator(".matrices canvas").evaluate_all("all => all.map(one => ({ ...one.dataset }))"):
                for relation, attribute in RELATIONS.items():
                    cells_lit = getattr(light, relation).get(drawn["matrix"])
                    expected = 0 if cells_lit is None else cells_lit.sum()
                    assert int(drawn[attribute]) == expected, (name, drawn["matrix"])

        until(page, lit, name, light)
        latex = known.equation(name, row, column).latex
        expect(page.locator("annotation").last).to_have_text(latex)
        expect(page).to_have_url(re.compile(re.escape(f"cell={name}.{row}.{column}")))
    again = board(page.url.split("?", 1)[1])
    expect(matrix(again.page, "Y")).to_have_attribute("data-picked", "0-1")
    until(again.page, lambda: again.page.locator("annotation").last.text_content() == latex)
    click(opened, name, row, column)  # a second click takes the mark away
    expect(matrix(page, name)).to_have_attribute("data-picked", "")
    expect(page).not_to_have_url(re.compile("cell="))


def test_matrices_and_equation_are_in_view_together_and_a_pick_goes_along(board):
    """The first screen of 1280 x 800 holds both; the picked cell is that of the same words on the next step."""
    opened = board("stage=scores", height=800)
    page = opened.page
    for one in (*(matrix(page, name) for name in ("Q0", "K0", "S0")), page.locator(".katex-display").last):
        until(page, lambda one: (place := box(one))["y"] + place["height"] < 700, one)
    expect(matrix(page, "S0")).to_have_attribute("data-picked", "")
    click(opened, "S0", 1, 2)
    expect(matrix(page, "S0")).to_have_attribute("data-picked", "1-2")
    with opened.run():
        page.get_by_role("radio", name="Softmax").click()
    expect(matrix(page, "A0")).to_have_attribute("data-picked", "1-2")
    expect(page.locator("annotation").last).to_contain_text("A_0[1,2]")


def test_numbers_grow_with_the_window_and_wide_matrices_leave_out_their_middle(board):
    opened = board("stage=scores", width=1280)
    page, size = opened.page, lambda: float(matrix(opened.page, "S0").get_attribute("data-cell-width") or "nan")
    small = size()
    page.set_viewport_size({"width": 1920, "height": 1080})
    until(page, lambda: size() > 1.2 * small)
    page.set_viewport_size({"width": 1280, "height": 900})
    opened.move(f"{page.url.split('?')[0]}?made=shipped&stage=input")
    until(page, lambda: box(matrix(page, "X"))["width"] < 700)


def test_the_keyboard_moves_and_picks(board):
    opened = board()
    page = opened.page
    matrix(page, "A0").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".matrices .reading")).to_contain_text("[cat, cat]")
    with opened.run():
        page.keyboard.press("Enter")
    expect(matrix(page, "A0")).to_have_attribute("data-picked", "1-1")
    expect(matrix(page, "M0")).to_have_attribute("data-sources", "4")
    matrix(page, "A0").focus()
    with opened.run():
        page.keyboard.press("Escape")
    expect(matrix(page, "A0")).to_have_attribute("data-picked", "")


def test_the_matrices_leave_as_a_picture_and_as_numbers(board):
    opened = board("stage=softmax")
    page = opened.page
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    page.get_by_role("button", name="Downloads").click()
    with page.expect_download() as table:
        page.get_by_role("button", name="A_0 as CSV").click()
    lines = Path(table.value.path()).read_text("utf-8").splitlines()
    assert lines[0] == ",the,cat,sat,on"
    assert sum(map(float, lines[1].split(",")[1:])) == pytest.approx(1)


def test_hovering_over_a_mask_says_why_a_cell_is_hidden(serve, visit):
    opened = visit(f"{serve(APP)}/masks")
    opened.drawn(opened.page.locator(".matrices"))
    reading, canvas = opened.page.locator(".matrices .reading"), matrix(opened.page, "result")
    canvas.hover(position=middle(canvas, 1, 2))
    expect(reading).to_contain_text("“zwei” may not see “Hunde”: it comes later")
    canvas.hover(position=middle(canvas, 5, 4))
    expect(reading).to_contain_text("it is padding")


def test_inside_a_layer_a_click_travels_with_the_step_and_comes_back(serve, visit):
    """From the norm to the feed-forward net, on a narrow window too, with keys, and Back."""
    opened = visit(f"{serve(APP)}/inside_layer?stage=norm")
    page = opened.page
    opened.drawn(page.locator(".matrices"))
    click(opened, "Y", 1, 2)
    for name, relation, count in [
        ("N", "sources", 1), ("g", "sources", 1), ("b", "sources", 1), ("s", "further-sources", 1),
        ("X", "further-sources", 4), ("mu", "further-sources", 1),
    ]:  # fmt: skip
        expect(matrix(page, name)).to_have_attribute(f"data-{relation}", str(count))
    expect(page.locator("annotation").filter(has_text="Y[1,2]").first).to_be_attached()
    expect(page).to_have_url(re.compile(r"cell=Y\.1\.2"))
    with opened.run():
        page.locator(".st-key-next button:visible").click()
    expect(matrix(page, "Y")).to_have_attribute("data-picked", "1-2")
    with opened.run():
        page.get_by_role("radio", name="Feed-forward").click()
    expect(matrix(page, "F")).to_have_attribute("data-picked", "1-2")
    with opened.run():
        matrix(page, "A").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"cell=A\.\d\.\d"))
    with opened.run():
        page.go_back()
    expect(matrix(page, "F")).to_have_attribute("data-picked", "1-2")


def test_on_a_phone_the_equation_stands_below_the_matrices_and_a_list_closes_on_choice(serve, visit):
    opened = visit(f"{serve(APP)}/attention_steps?lang=zh", width=390, dark=True)
    page = opened.page
    opened.drawn(page.locator(".matrices"))
    for name in ("previous", "next"):
        place = box(page.locator(f".st-key-{name} button:visible"))
        assert 0 <= place["x"] < place["x"] + place["width"] <= 390

    def stands_below() -> None:
        equation = box(page.locator(".st-key-worked .katex-display").last)
        first = box(page.locator("canvas[data-matrix]").first)
        assert first["y"] < 844
        assert first["y"] + first["height"] < equation["y"]

    until(page, stands_below)
    fits(page, 390)
    page.locator(".st-key-attention_steps-try button").click()
    with opened.run():
        page.get_by_role("menuitem").nth(1).click()
    expect(page.get_by_role("menuitem")).to_have_count(0)

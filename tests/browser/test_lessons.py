"""The lessons as a teacher meets them: a click on a cell lights up every matrix and writes the equation."""

import io
import re
import zipfile

import pytest
from playwright.sync_api import Locator, Position, expect

from heedmap.lessons.attention import attention_board
from heedmap.lessons.board import Highlight
from heedmap.lessons.sentences import toy_sentences, toy_transformer
from tests.browser.parts import box, fits, matrix, middle, saved
from tests.browser.visiting import until

pytestmark = pytest.mark.browser


@pytest.fixture
def board(opened):
    """`board("screen=board", dark=True ...)` opens the page once its matrices are drawn."""
    return lambda query="screen=board", **window: opened(f"attention_steps?{query}", ".matrices", **window)


def place(canvas: Locator, row: int, column: int) -> Position:
    """The middle of a cell, once its canvas rests in view."""
    canvas.scroll_into_view_if_needed()
    box(canvas)
    return middle(canvas, row, column)


def click(opened, name: str, row: int, column: int) -> None:
    canvas = matrix(opened.page, name)
    with opened.run():
        canvas.click(position=place(canvas, row, column))


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
                for relation, found in light.items():
                    expected = found[drawn["matrix"]].sum() if drawn["matrix"] in found else 0
                    assert int(drawn[relation]) == expected, (name, drawn["matrix"])

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
        until(page, lambda one: (found := box(one))["y"] + found["height"] < 700, one)
    expect(matrix(page, "S0")).to_have_attribute("data-picked", "")
    click(opened, "S0", 1, 2)
    expect(matrix(page, "S0")).to_have_attribute("data-picked", "1-2")
    with opened.run():
        page.get_by_role("radio", name="Softmax").click()
    expect(matrix(page, "A0")).to_have_attribute("data-picked", "1-2")
    expect(page.locator("annotation").last).to_contain_text("A_0[1,2]")


def test_the_matrices_leave_as_numbers_grow_with_the_window_and_leave_out_their_middle_where_they_are_wide(board):
    opened = board("stage=softmax", width=1280)
    page, size = opened.page, lambda: float(matrix(opened.page, "A0").get_attribute("data-cell-width") or "nan")
    assert saved(page.get_by_role("button", name="Save PNG"))[1].startswith(b"\x89PNG")
    with zipfile.ZipFile(io.BytesIO(saved(page.get_by_role("button", name="All as ZIP"))[1])) as archive:
        lines = archive.read("A_0.csv").decode("utf-8-sig").splitlines()
    assert lines[0] == ",the,cat,sat,on"
    assert sum(map(float, lines[1].split(",")[1:])) == pytest.approx(1)
    small = size()
    page.set_viewport_size({"width": 1920, "height": 1080})
    until(page, lambda: size() > 1.2 * small)
    page.set_viewport_size({"width": 1280, "height": 900})
    opened.move(f"{page.url.split('?')[0]}?made=shipped&stage=input")
    until(page, lambda: box(matrix(page, "X"))["width"] < 700)


def test_hovering_over_a_mask_says_why_a_cell_is_hidden(opened):
    page = opened("masks", ".matrices").page
    reading, canvas = page.locator(".matrices .reading"), matrix(page, "result")
    canvas.hover(position=place(canvas, 1, 2))
    expect(reading).to_contain_text("“zwei” may not see “Hunde”: it comes later")
    canvas.hover(position=place(canvas, 5, 4))
    expect(reading).to_contain_text("it is padding")


def test_on_a_phone_the_equation_stands_below_the_matrices_and_a_list_closes_on_choice(board):
    opened = board("lang=zh", width=390, dark=True)
    page = opened.page
    for name in ("previous", "next"):
        found = box(page.locator(f".st-key-{name} button:visible"))
        assert 0 <= found["x"] < found["x"] + found["width"] <= 390

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

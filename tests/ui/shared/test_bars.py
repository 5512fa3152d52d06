"""Bars as the page gets them: places on the scale, marks, colours, and texts that are shown as text."""

import re
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.browser.hostile import TEXTS
from tests.pages.opening import DrawnBar, bar_rows
from tests.plots.examples import HOSTILE
from transformer.messages import LANGUAGES, speaking
from transformer.plots.theme import DARK, LIGHT
from transformer.text.steps import Candidate, Step
from ui.shared.bars import Bar, bars, effects, next_tokens

LIKELIEST = (Candidate("▁Hund", 0.5), Candidate("▁Mann", 0.25), Candidate("▁a", 0.125))


def body(draw: Callable[[], None]) -> str:
    """What a page is sent of these bars."""
    with patch("ui.shared.bars.st.html") as sent:
        draw()
    (html,) = sent.call_args.args
    assert isinstance(html, str)
    return html


def next_rows(step: Step, is_next: bool = True) -> list[DrawnBar]:
    return bar_rows(body(lambda: next_tokens(step, key="key", is_next=is_next)))


def places(html: str, tag: str = "i") -> list[str]:
    return re.findall(f'<{tag} style="(.*?)"', html)


def test_bars_are_the_likeliest_tokens_and_all_others_and_sum_to_one() -> None:
    drawn = next_rows(Step("▁Mann", 0.25, 1, LIKELIEST))
    assert [row.value for row in drawn] == [0.5, 0.25, 0.125, 0.125]
    assert drawn[3].note == "all other tokens together: probability 0.125"
    assert drawn[3].look == "faint"


def test_the_scale_of_probabilities_is_fixed_and_named() -> None:
    html = body(lambda: next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST), key="key"))
    assert places(html) == [f"left:0.00%;width:{width}%" for width in ("50.00", "25.00", "12.50", "12.50")]
    assert "<caption>probability of the next token</caption>" in html
    assert "<span>0</span><span>0.5</span><span>1</span>" in html


def test_the_written_token_is_marked_by_more_than_its_colour() -> None:
    drawn = next_rows(Step("▁Mann", 0.25, 1, LIKELIEST))
    assert [row.name for row in drawn] == ["▁Hund", "▁Mann", "▁a", "all others"]
    assert [row.text for row in drawn] == ["0.500", "0.250 ◀ written", "0.125", "0.125"]
    assert [row.look for row in drawn] == ["", "second strong", "", "faint"]
    assert drawn[1].note == "▁Mann: probability 0.25; written; rank 2 of all tokens"


def test_where_nothing_is_written_the_bars_do_not_say_so() -> None:
    html = body(lambda: next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST), key="key", is_next=False))
    assert "probability of a token here" in html
    assert "written" not in html
    drawn = bar_rows(html)
    assert [row.text for row in drawn] == ["0.500", "0.250 ◀ measured", "0.125", "0.125"]
    assert "measured; rank 2 of all tokens" in drawn[1].note


def test_an_unlikely_written_token_has_a_bar_of_its_own() -> None:
    drawn = next_rows(Step("▁Katze", 0.01, 40, LIKELIEST))
    assert [row.name for row in drawn] == ["▁Hund", "▁Mann", "▁a", "▁Katze", "all others"]
    assert [row.value for row in drawn] == pytest.approx([0.5, 0.25, 0.125, 0.01, 0.115])
    assert "rank 41 of all tokens" in drawn[3].note


def test_a_written_token_that_is_shown_as_typed_is_found_by_its_rank() -> None:
    drawn = next_rows(Step("☃", 0.25, 1, LIKELIEST))
    assert [("written" in row.text) for row in drawn] == [False, True, False, False]


def test_others_are_never_negative() -> None:
    assert next_rows(Step("a", 0.6, 0, (Candidate("a", 0.6), Candidate("b", 0.4 + 1e-7))))[-1].value == 0


def test_changes_leave_the_middle_of_a_scale_that_is_symmetric_about_zero() -> None:
    changes = [-0.7, 0.35, -0.0, 1.4]
    html = body(lambda: effects(list("abcd"), changes, "change", key="key"))
    ends = [("25.00", "25.00"), ("50.00", "12.50"), ("50.00", "50.00")]
    assert places(html) == [f"left:{left}%;width:{width}%" for left, width in ends]
    drawn = bar_rows(html)
    assert [row.value for row in drawn] == changes
    assert [row.text for row in drawn] == ["-0.70", "+0.35", "+0.00", "+1.40"]
    assert [row.look for row in drawn] == ["falls", "rises", "rises", "rises"]
    assert "<span>-1.40</span><span>0</span><span>+1.40</span>" in html
    assert "<a" not in html


def test_next_to_nothing_looks_like_next_to_nothing_and_what_is_no_number_has_no_bar() -> None:
    html = body(lambda: effects(["a", "b", "c"], [0.005, nan, -inf], "change", key="key"))
    assert places(html) == ["left:50.00%;width:0.50%", "left:0.00%;width:50.00%"]


def test_a_click_on_another_step_sets_that_step_alone() -> None:
    html = body(lambda: effects(["a", "b", "c"], [0.1, 0.2, 0.3], "change", key="key", step=1))
    assert re.findall('data-sets="(.*?)"><th scope="row"><bdi>(.)', html) == [
        ("step=0", "a"), ("step=2", "c"),
    ]  # fmt: skip
    assert len(re.findall('<tr class="rises strong"[^>]*aria-current="true"><th scope="row"><bdi>b<', html)) == 1


@pytest.mark.parametrize("text", [*TEXTS, *HOSTILE, '" onclick="x', "' onload='x"])
def test_every_text_is_shown_as_text(text: str) -> None:
    def draw(text: str) -> str:
        row = Bar(text, 0.5, text, text, mark=text)
        return body(lambda: bars([row], text, key="key", heading=text or "-", legend=[("", text)]))

    html, harmless = draw(text), draw("a")
    assert re.findall("<(/?[a-z]+)", html) == re.findall("<(/?[a-z]+)", harmless)
    assert re.findall(' [a-z-]+="', html) == re.findall(' [a-z-]+="', harmless)


def test_a_second_value_is_a_diamond_or_a_line_and_the_legend_says_which() -> None:
    row = Bar("a", 0.25, "0.250", point=0.75)
    diamond = body(lambda: bars([row], "t", key="key", legend=[("", "head"), ("point", "mean")]))
    line = body(lambda: bars([row], "t", key="key", legend=[("line", "mean")]))
    assert places(diamond, "u") == places(line, "u") == ["left:75.00%"]
    assert 'class="bars"' in diamond
    assert 'class="bars lined"' in line
    assert '<span class="point"><i></i><bdi>mean</bdi></span>' in diamond


@pytest.mark.parametrize("language", LANGUAGES)
def test_marks_are_in_the_language_of_the_page(language: str) -> None:
    def draw() -> None:
        with speaking(language):
            next_tokens(Step("b", 0.25, 1, (Candidate("a", 0.5), Candidate("b", 0.25))), key="key")

    html = body(draw)
    assert ("written" in html) == (language == "en")
    assert bool(re.search("[\u4e00-\u9fff]", html)) == (language == "zh")


def test_colours_are_those_of_figures_and_what_falls_is_blue() -> None:
    css = (Path(__file__).parents[3] / "ui/shared/styles.css").read_text(encoding="utf-8")
    found = {name: pair for name, *pair in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", css)}
    assert found == {
        "bar": [LIGHT.accent, DARK.accent],
        "second": [LIGHT.second, DARK.second],
        "faint": [LIGHT.faint, DARK.faint],
        "chosen": [LIGHT.chosen, DARK.chosen],
        "falls": [LIGHT.diverging[0], DARK.diverging[0]],
        "rises": [LIGHT.diverging[-1], DARK.diverging[-1]],
    }
    for name in ("falls", "rises"):
        for colour in found[name]:
            red, _, blue = bytes.fromhex(colour.removeprefix("#"))
            assert (blue > red) == (name == "falls")

"""Bars as the page gets them: places on the scale, marks, colours, and texts that are shown as text."""

import json
import re
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from unittest.mock import patch

import pytest

from heedmap.messages import LANGUAGES, speaking
from heedmap.plots.theme import DARK, LIGHT
from heedmap.text.beams import Candidate, Step
from tests.browser.hostile import TEXTS
from tests.pages.opening import bar_rows
from tests.plots.examples import HOSTILE
from ui.shared.bars import Bar, bars, effects, next_tokens, signed

LIKELIEST = (Candidate("▁Hund", 0.5), Candidate("▁Mann", 0.25), Candidate("▁a", 0.125))


def body(draw: Callable[[], None]) -> str:
    """What a page is sent of these bars."""
    with patch("ui.shared.bars.st.html") as sent:
        draw()
    (html,) = sent.call_args.args
    assert isinstance(html, str)
    return html


def places(html: str, tag: str = "i") -> list[str]:
    return re.findall(f'<{tag} style="(.*?)"', html)


@pytest.mark.parametrize(
    ("step", "names", "values", "texts"),
    [
        (Step("▁Mann", 0.25, 1, LIKELIEST), "▁Hund ▁Mann ▁a", [0.5, 0.25, 0.125, 0.125], ["0.250 ◀ written", "rank 2"]),
        (
            Step("▁Katze", 0.01, 40, LIKELIEST),
            "▁Hund ▁Mann ▁a ▁Katze",
            [0.5, 0.25, 0.125, 0.01, 0.115],
            ["", "rank 41"],
        ),
        (Step("☃", 0.25, 1, LIKELIEST), "▁Hund ▁Mann ▁a", [0.5, 0.25, 0.125, 0.125], ["0.250 ◀ written", "rank 2"]),
        (Step("a", 0.6, 0, (Candidate("a", 0.6), Candidate("b", 0.4 + 1e-7))), "a b", [0.6, 0.4, 0.0], ["", "rank 1"]),
    ],
)
def test_bars_are_the_likeliest_tokens_the_written_one_marked_and_all_others(
    step: Step, names: str, values: list[float], texts: list[str]
) -> None:
    """By its rank, also where it is shown as it was typed; others are never negative."""
    drawn = bar_rows(body(lambda: next_tokens(step, key="key")))
    assert [row.name for row in drawn] == [*names.replace("▁", "").split(), "all others"]
    assert drawn[0].note.startswith(names.split(maxsplit=1)[0]), "the mark of a space is in what is said on hover"
    assert [row.value for row in drawn] == pytest.approx(values, abs=1e-6)
    (written,) = (row for row in drawn if "written" in row.text)
    assert written.look == "second strong"
    assert texts[0] in written.text
    assert f"written; {texts[1]} of all tokens" in written.note
    assert drawn[-1].look == "faint"
    assert drawn[-1].note.startswith("all other tokens together: probability ")


def test_the_scale_of_probabilities_is_fixed_and_named() -> None:
    html = body(lambda: next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST), key="key"))
    assert places(html) == [f"left:0.00%;width:{width}%" for width in ("50.00", "25.00", "12.50", "12.50")]
    assert "<caption>probability of the next token</caption>" in html
    assert "<span>0</span><span>0.5</span><span>1</span>" in html
    read = body(lambda: next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST), key="key", is_next=False))
    assert "probability of a token here" in read
    assert "written" not in read
    assert "0.250 ◀ measured" in [row.text for row in bar_rows(read)]


def test_changes_leave_the_middle_of_a_scale_that_is_symmetric_about_zero() -> None:
    changes = [-0.7, 0.35, -0.0, 1.4]
    html = body(lambda: effects(list("abcd"), changes, "change", key="key", step=9, sets="at"))
    ends = [("25.00", "25.00"), ("50.00", "12.50"), ("50.00", "50.00")]
    assert places(html) == [f"left:{left}%;width:{width}%" for left, width in ends]
    drawn = bar_rows(html)
    assert [row.value for row in drawn] == changes
    assert [row.text for row in drawn] == ["-0.70", "+0.35", "none", "+1.40"]
    assert [row.look for row in drawn] == ["falls", "rises", "rises", "rises"]
    assert "<span>-1.40</span><span>0</span><span>+1.40</span>" in html
    assert "<a" not in html


def test_a_change_that_two_places_do_not_show_is_none() -> None:
    assert [signed(one) for one in (0.0049, -0.0049, 0.0051, -0.0051)] == ["none", "none", "+0.01", "-0.01"]


def test_next_to_nothing_looks_like_it_what_is_no_number_has_no_bar_and_a_click_sets_another_step() -> None:
    html = body(lambda: effects(["a", "b", "c"], [0.005, nan, -inf], "change", key="key", step=1, sets="at"))
    assert places(html) == ["left:50.00%;width:0.50%", "left:0.00%;width:50.00%"]
    html = body(lambda: effects(["a", "b", "c"], [0.1, 0.2, 0.3], "change", key="key", step=1, sets="at"))
    assert re.findall('data-sets="(.*?)"><th scope="row"><bdi>(.)', html) == [("at=1", "a"), ("at=3", "c")]
    assert len(re.findall('<tr class="rises strong"[^>]*aria-current="true"><th scope="row"><bdi>b<', html)) == 1


@pytest.mark.parametrize("text", [*TEXTS, *HOSTILE, '" onclick="x', "' onload='x"])
def test_every_text_is_shown_as_text(text: str) -> None:
    def draw(text: str) -> str:
        row = Bar(text, 0.5, text, text, mark=text)
        return body(lambda: bars([row], text, key="key", legend=[("", text)]))

    html, harmless = draw(text), draw("a")
    assert re.findall("<(/?[a-z]+)", html) == re.findall("<(/?[a-z]+)", harmless)
    assert re.findall(' [a-z-]+="', html) == re.findall(' [a-z-]+="', harmless)


def test_a_second_value_is_a_line_that_the_legend_names() -> None:
    html = body(lambda: bars([Bar("a", 0.25, "0.250", point=0.75)], "t", key="key", legend=[("line", "mean")]))
    assert places(html, "u") == ["left:75.00%"]
    assert '<span class="line"><i></i><bdi>mean</bdi></span>' in html


@pytest.mark.parametrize("language", LANGUAGES)
def test_marks_are_in_the_language_of_the_page(language: str) -> None:
    with speaking(language):
        html = body(lambda: next_tokens(Step("b", 0.25, 1, (Candidate("a", 0.5), Candidate("b", 0.25))), key="key"))
    assert ("written" in html) == (language == "en")
    assert bool(re.search("[\u4e00-\u9fff]", html)) == (language == "zh")


def test_colours_are_those_of_figures_and_what_falls_is_blue() -> None:
    top = Path(__file__).parents[3]
    css = (top / "ui/shared/styles.css").read_text(encoding="utf-8")
    scales = json.loads((top / "transformer/plots/canvas/shared/scales.json").read_text())["diverging"].values()
    found = {name: pair for name, *pair in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", css)}
    assert found == {
        "bar": [LIGHT.accent, DARK.accent],
        "second": [LIGHT.second, DARK.second],
        "faint": [LIGHT.faint, DARK.faint],
        "falls": [f"#{bytes(stops[0]).hex()}" for stops in scales],
        "rises": [f"#{bytes(stops[-1]).hex()}" for stops in scales],
    }
    for name in ("falls", "rises"):
        for colour in found[name]:
            red, _, blue = bytes.fromhex(colour.removeprefix("#"))
            assert (blue > red) == (name == "falls")

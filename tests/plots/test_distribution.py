"""One output step in bars: probabilities that sum to 1, and the weights of one query."""

from dataclasses import replace

import numpy as np
import pytest

from tests.plots.examples import HOSTILE, picture
from transformer.errors import RecordError
from transformer.plots.axes import Axis
from transformer.plots.bars import agreement_bars, effect_bars
from transformer.plots.curves import Line, growth, histories
from transformer.plots.distribution import attention_of_step, next_tokens
from transformer.plots.heads import offset_profile, tree_of_heads
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity
from transformer.text.steps import Candidate, Step

LIKELIEST = (Candidate("▁Hund", 0.5), Candidate("▁Mann", 0.25), Candidate("▁a", 0.125))


def test_bars_are_the_likeliest_tokens_and_all_others_and_sum_to_one() -> None:
    bars = next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST)).data[0]
    assert tuple(bars.x) == (0.5, 0.25, 0.125, 0.125)
    assert "all other tokens together" in bars.hovertext[3]


def test_the_scale_of_probabilities_is_fixed_and_named() -> None:
    layout = next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST)).layout
    assert tuple(layout.xaxis.range) == pytest.approx((0, 1), abs=0.05)
    assert layout.xaxis.title.text == "probability of the next token"
    assert layout.yaxis.range[0] > layout.yaxis.range[1], "the likeliest is on top"


@pytest.mark.parametrize("dark", [False, True])
def test_what_falls_is_blue_and_what_rises_is_orange(dark: bool) -> None:
    changes = (-0.7, 0.3, -0.1, 1.9)
    bars = effect_bars(["a", "b", "c", "d"], changes, None, dark=dark).data[0]
    assert tuple(bars.x) == changes
    for change, colour in zip(changes, bars.marker.color, strict=True):
        red, _, blue = bytes.fromhex(colour.removeprefix("#"))
        assert (blue > red) == (change < 0)


def test_where_nothing_is_written_the_bars_do_not_say_so() -> None:
    figure = next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST), is_next=False)
    assert figure.layout.xaxis.title.text == "probability of a token here"
    assert [("measured" in text) for text in figure.data[0].text] == [False, True, False, False]
    assert "measured; rank 2 of all tokens" in figure.data[0].hovertext[1]
    assert "written" not in str(figure.to_dict())


def test_the_written_token_is_marked_by_more_than_its_colour() -> None:
    figure = next_tokens(Step("▁Mann", 0.25, 1, LIKELIEST))
    assert figure.layout.yaxis.ticktext == ("▁Hund", "<b>▁Mann</b>", "▁a", "all others")
    assert [("written" in text) for text in figure.data[0].text] == [False, True, False, False]
    assert figure.data[0].marker.color[1] not in (figure.data[0].marker.color[0], figure.data[0].marker.color[3])
    assert "rank 2 of all tokens" in figure.data[0].hovertext[1]


def test_an_unlikely_written_token_has_a_bar_of_its_own() -> None:
    figure = next_tokens(Step("▁Katze", 0.01, 40, LIKELIEST))
    assert figure.layout.yaxis.ticktext == ("▁Hund", "▁Mann", "▁a", "<b>▁Katze</b>", "all others")
    assert tuple(figure.data[0].x) == pytest.approx((0.5, 0.25, 0.125, 0.01, 0.115))
    assert "rank 41 of all tokens" in figure.data[0].hovertext[3]


def test_a_written_token_that_is_shown_as_typed_is_found_by_its_rank() -> None:
    figure = next_tokens(Step("☃", 0.25, 1, LIKELIEST))
    assert [("written" in text) for text in figure.data[0].text] == [False, True, False, False]


def test_others_are_never_negative() -> None:
    rounding = (Candidate("a", 0.6), Candidate("b", 0.4 + 1e-7))
    assert next_tokens(Step("a", 0.6, 0, rounding)).data[0].x[-1] == 0


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_token_is_drawn_as_it_is(text: str) -> None:
    figure = next_tokens(Step(text, 0.5, 0, (Candidate(text, 0.5),)))
    for drawn in (figure.layout.yaxis.ticktext[0], figure.data[0].hovertext[0]):
        assert "<" not in drawn.replace("<b>", "", 1).replace("</b>", "", 1).replace("<br>", "")


def pictures(causal: bool = False) -> tuple[Picture, Picture]:
    head = picture(5, 7, causal=causal)
    return head, replace(head, head="mean of 3 heads", values=(head.values + 0.1) / 1.7)


def test_the_bars_of_a_step_are_the_row_of_the_head_and_diamonds_that_of_the_mean() -> None:
    head, mean = pictures()
    figure = attention_of_step(head, mean, 3)
    np.testing.assert_array_equal(figure.data[0].y, head.values[3])
    np.testing.assert_array_equal(figure.data[1].y, mean.values[3])
    assert [one.name for one in figure.data] == ["head 2", "mean of 3 heads"]
    assert figure.layout.title.subtitle.text == "query: \u2068▁q3\u2069"
    assert figure.layout.xaxis.ticktext == tuple(f"▁k{i}" for i in range(7))
    assert tuple(figure.layout.yaxis.range) == pytest.approx((0, 1), abs=0.05)


def test_the_mean_itself_has_no_diamonds() -> None:
    _, mean = pictures()
    assert [one.name for one in attention_of_step(mean, mean, 0).data] == ["mean of 3 heads"]


def test_keys_that_a_step_may_not_see_are_hatched_and_have_no_diamond() -> None:
    figure = attention_of_step(*pictures(causal=True), 2)
    masked = figure.data[2]
    assert (masked.name, masked.marker.pattern.shape, list(masked.x)) == ("masked", "/", [3, 4, 5, 6])
    assert list(figure.data[1].x) == [0, 1, 2]
    assert "masked: this query may not see this key" in masked.hovertemplate


def test_a_weight_that_is_no_number_is_crossed() -> None:
    head, mean = pictures()
    head.values[1, 4] = np.nan
    crosses = attention_of_step(head, mean, 1).data[-1]
    assert (crosses.name, list(crosses.x)) == ("not a finite number", [4])


def test_what_does_not_fit_is_refused() -> None:
    head, mean = pictures()
    with pytest.raises(RecordError, match=r"step=5 is not in decoder.1.cross: choose 0 to 4"):
        attention_of_step(head, mean, 5)
    with pytest.raises(RecordError, match=r"shape \(4, 7\), the picture \(5, 7\): take both from one site"):
        attention_of_step(head, picture(4, 7), 0)
    with pytest.raises(RecordError, match="ask for a picture without scores=True"):
        attention_of_step(picture(5, 7, quantity=Quantity.SCORE), mean, 0)


@pytest.mark.parametrize("dark", [False, True])
def test_figures_hold_what_they_are_given(dark: bool) -> None:
    share, spread, chance = np.array([0.1, 0.7, 0.2]), np.array([0.01, np.nan, 0.02]), np.array([0.3, 0.4, 0.3])
    figure = offset_profile(
        [-1, 0, 1], share, spread, chance, names=("a", "b"), axis="offset", quantity="weight", dark=dark
    )
    assert list(figure.data[0].x) == [-1, 0, 1]
    assert list(figure.data[0].y) == share.tolist()
    assert list(figure.data[0].error_y.array) == [0.01, 0.0, 0.02]
    assert list(figure.data[1].y) == chance.tolist()
    lines = histories(["50", "100"], {"one": np.array([0.1, 0.2]), "two": np.array([0.3, 0.4])}, axis="x", quantity="y")
    assert [(line.name, list(line.y)) for line in lines.data] == [("one", [0.1, 0.2]), ("two", [0.3, 0.4])]


def test_leaves_of_the_tree_have_the_colours_of_their_groups() -> None:
    tree = np.array([[0.0, 2.0, 0.5, 2.0], [1.0, 3.0, 0.9, 3.0]])
    groups = np.array([0, 1, 0])
    figure = tree_of_heads(tree, ["a", "b", "c"], ["does a", "b", "c"], groups, 0.6, axis="distance")
    leaves = figure.data[-1]
    shown = dict(zip(figure.layout.yaxis.ticktext, leaves.marker.color, strict=True))
    assert shown["a"] == shown["c"] != shown["b"]
    assert [("a", "b", "c")[i] for i in leaves.customdata] == list(figure.layout.yaxis.ticktext)
    assert leaves.hovertext[list(leaves.customdata).index(0)] == "does a"
    assert sorted(max(line.x) for line in figure.data[:-1]) == [0.5, 0.9]


WORDS = Axis("target", ("Zwei", "Hunde", "</s>"), (0, 1, 2), (False, False, True))


@pytest.mark.parametrize("dark", [False, True])
def test_lines_hold_their_values_and_a_sentence_is_marked(dark: bool) -> None:
    lines = [Line("one", [2, 4, 8], [3.0, 12.0, 48.0]), Line("<b>two</b>", [2, 4], [5.0, 10.0])]
    figure = growth(lines, "multiply-adds", length=7, length_name="your sentence: 7", dark=dark)
    assert [(trace.x, trace.y) for trace in figure.data] == [((2, 4, 8), (3.0, 12.0, 48.0)), ((2, 4), (5.0, 10.0))]
    assert figure.data[1].name == "&lt;b&gt;two&lt;/b&gt;"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    mark = figure.layout.shapes[0]
    assert mark.x0 == mark.x1 == 7
    note = figure.layout.annotations[0]
    assert (note.text, note.x) == ("your sentence: 7", pytest.approx(np.log10(7)))
    low, high = figure.layout.xaxis.range
    assert low < np.log10(2) < note.x < np.log10(8) < high < 1
    assert figure.data[0].line.color != figure.data[1].line.color


def test_without_a_sentence_nothing_is_marked() -> None:
    figure = growth([Line("one", [2], [3.0])], "seconds")
    assert figure.layout.shapes == ()
    assert figure.data[0].mode == "lines"


def test_a_bar_is_a_words_agreement_and_the_end_mark_is_set_apart() -> None:
    values = np.array([0.25, np.nan, 1.0])
    figure = agreement_bars(WORDS, values, 0.25, ["a", "<i>", "c"], quantity="agreement", mean_name="mean")
    bars = figure.data[0]
    np.testing.assert_array_equal(bars.y, values)
    assert bars.marker.color[0] == bars.marker.color[1] != bars.marker.color[2]
    assert "&lt;i&gt;" in bars.hovertext[1]
    assert figure.layout.shapes[0].y0 == 0.25
    assert list(figure.layout.xaxis.ticktext) == ["Zwei", "Hunde", "&lt;/s&gt;"]


def test_no_mean_has_no_line() -> None:
    figure = agreement_bars(WORDS, np.full(3, np.nan), np.nan, ["", "", ""], quantity="agreement", mean_name="mean")
    assert figure.layout.shapes == ()

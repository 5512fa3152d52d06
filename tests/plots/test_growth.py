"""Figures of the Align page: what is drawn is what was given."""

import numpy as np
import pytest

from transformer.plots.axes import Axis
from transformer.plots.bars import agreement_bars
from transformer.plots.curves import Line, growth

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

"""Charts of heads and of curves hold the numbers that they are given."""

import numpy as np
import pytest

from transformer.plots.curves import curves
from transformer.plots.heads import offset_profile, tree_of_heads


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
    lines = curves({"one": np.array([0.1, 0.2]), "two": np.array([0.3, 0.4])}, "x", "y", x=["50", "100"])
    assert [(line.name, list(line.y)) for line in lines.data] == [("one", [0.1, 0.2]), ("two", [0.3, 0.4])]
    assert [list(line.x) for line in lines.data] == [["50", "100"]] * 2
    assert lines.layout.xaxis.type == "category", "50 and 100 are names, apart as all others are"


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


@pytest.mark.parametrize("dark", [False, True])
def test_lines_hold_their_values_and_a_sentence_is_marked(dark: bool) -> None:
    lines = {"one": [3.0, 12.0, 48.0], "<b>two</b>": [5.0, 10.0]}
    figure = curves(
        lines, "tokens", "multiply-adds", x=[2, 4, 8], log_x=True, log_y=True, mark=7.0, mark_name="your sentence: 7",
        dashed=True, dark=dark,
    )  # fmt: skip
    found = [(list(trace.x), list(trace.y)) for trace in figure.data]
    assert found == [([2, 4, 8], [3.0, 12.0, 48.0]), ([2, 4], [5.0, 10.0])]
    assert figure.data[1].name == "&lt;b&gt;two&lt;/b&gt;"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    mark = figure.layout.shapes[0]
    assert mark.x0 == mark.x1 == 7
    note = figure.layout.annotations[0]
    assert (note.text, note.x) == ("your sentence: 7", pytest.approx(np.log10(7)))
    assert figure.data[0].line.color != figure.data[1].line.color
    assert figure.data[0].line.dash != figure.data[1].line.dash


def test_without_a_sentence_nothing_is_marked() -> None:
    figure = curves({"one": [3.0]}, "tokens", "seconds", x=[2])
    assert figure.layout.shapes == ()
    assert figure.data[0].mode == "lines"

"""Figures of heads hold the numbers that they are given."""

import numpy as np
import pytest

from transformer.plots.curves import histories
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

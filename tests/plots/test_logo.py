"""Sequence logos: what is drawn is what was given."""

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer.errors import RecordError
from transformer.plots.logo import logo


def _extent(figure: go.Figure, position: int) -> float:
    """How high the outlines at a position reach."""
    numbers = [re.findall(r"[ML]([-\d.]+),([-\d.]+)", shape.path) for shape in figure.layout.shapes]
    return max(float(y) for path in numbers for x, y in path if abs(float(x) - position) < 0.5)


def test_letters_of_a_logo_are_as_tall_as_their_information():
    heights = np.array([[0.1, 1.9], [0.3, 0], [0, 0], [0.2, 0]])
    figure = logo("ACGT", heights, ["1", "2"], dark=True)
    assert len(figure.layout.shapes) == 4
    assert _extent(figure, 0) == pytest.approx(0.6, abs=1e-3)
    assert _extent(figure, 1) == pytest.approx(1.9, abs=1e-3)
    assert figure.layout.yaxis.range == (0, 2)
    assert figure.data[0].text[0] == "0.60 bits: C 0.30, T 0.20, A 0.10"


def test_the_titles_of_a_logo_fit_a_narrow_screen_and_have_room_above_it():
    title = "EI: windows of 11 that encoder.0.self, head 0 attends to most (60 windows)"
    figure = logo("ACGT", np.zeros((4, 1)), ["1"], title=title)
    lines = figure.layout.title.text.split("<br>")
    assert " ".join(lines) == title
    assert max(map(len, lines)) <= 46
    assert figure.layout.margin.t == 44 + 18 * (len(lines) - 1)
    assert max(map(len, figure.layout.xaxis.title.text.split("<br>"))) <= 44


def test_letters_without_an_outline_bear_their_name():
    figure = logo("ACDE", np.array([[0.0], [0.0], [1.0], [0.0]]), ["1"])
    assert [note.text for note in figure.layout.annotations] == ["D"]


def test_heights_must_fit():
    with pytest.raises(RecordError, match="4 letters at 3 positions"):
        logo("ACGT", np.zeros((4, 2)), ["1", "2", "3"])

"""Figures of sequences: what is drawn is what was given."""

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer.errors import RecordError
from transformer.messages import speaking
from transformer.plots.logo import logo
from transformer.plots.sequence_tracks import NAMED_LETTERS, Span, Tracks, sequence_tracks

TEXT = "ACGTN"


def _tracks(**changes) -> Tracks:
    generator = np.random.default_rng(0)
    change = generator.normal(size=(4, 5))
    for i, letter in enumerate(TEXT[:4]):
        change["ACGT".index(letter), i] = 0
    given = dict(
        text=TEXT, widths=(3, 5), attention=generator.random((2, 5)), label="EI", letters="ACGT", change=change,
        spans=(Span(1, 3, "donor GT"),),
    )  # fmt: skip
    return Tracks(**(given | changes))


@pytest.mark.parametrize("dark", [False, True])
def test_every_track_is_drawn_as_given(dark):
    tracks = _tracks()
    figure = sequence_tracks(tracks, dark=dark)
    first, second, heat, given = figure.data
    np.testing.assert_array_equal([first.y, second.y], tracks.attention)
    drawn = np.array(heat.z, dtype=float)
    letters = np.array([[letter == new for letter in TEXT] for new in "ACGT"])
    np.testing.assert_array_equal(drawn[~letters], tracks.change[~letters])
    assert np.isnan(drawn[letters]).all()
    assert heat.zmax == -heat.zmin == np.abs(tracks.change).max()
    assert (heat.showscale, heat.colorbar.title.text) == (None, "nats")
    np.testing.assert_allclose(heat.colorbar.tickvals, [heat.zmin, 0, heat.zmax])
    assert heat.colorbar.y == pytest.approx(sum(figure.layout.yaxis2.domain) / 2)
    assert (given.showlegend, figure.layout.xaxis.title.text) == (False, "letter (• the letter given)")
    assert list(zip(given.x, given.y, strict=True)) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert any(note.text == "donor GT" for note in figure.layout.annotations)
    assert figure.layout.xaxis.ticktext[2] == "G"


def test_attention_alone_is_a_figure():
    figure = sequence_tracks(_tracks(change=None))
    assert [trace.type for trace in figure.data] == ["bar", "bar"]


def test_long_sequences_are_numbered():
    n = NAMED_LETTERS + 1
    figure = sequence_tracks(Tracks("A" * n, (3,), np.ones((1, n)), "EI"))
    assert figure.layout.xaxis.ticktext == ("1", "50", "100")
    assert figure.data[0].customdata[120] == "A 121"


def test_names_of_spans_that_touch_stand_apart():
    figure = sequence_tracks(_tracks(spans=(Span(2, 4, "donor"), Span(0, 2, "acceptor"))))
    notes = {note.text: note for note in figure.layout.annotations}
    assert (notes["donor"].xanchor, notes["donor"].x) == ("left", 1.5)
    assert (notes["acceptor"].xanchor, notes["acceptor"].x) == ("right", 1.5)


def test_a_span_is_boxed_in_every_track_and_leaves_the_titles_between_them_free():
    figure = sequence_tracks(_tracks())
    boxes = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert [(box.x0, box.x1, box.y0, box.y1) for box in boxes] == [(0.5, 2.5, 0, 1)] * 2
    assert [box.yref for box in boxes] == ["y domain", "y2 domain"]
    assert figure.layout.legend.y > sequence_tracks(_tracks(spans=())).layout.legend.y  # above the names of spans


def test_tracks_speak_the_language_of_their_context():
    with speaking("zh"):
        figure = sequence_tracks(_tracks())
    assert "突变\uff1aEI 对数几率的变化\uff0cnat" in {note.text for note in figure.layout.annotations}
    assert figure.data[0].name == "宽 3 的窗口"
    assert figure.layout.xaxis.title.text == "字母 (• 原来的字母)"


def test_a_track_of_another_length_is_refused():
    with pytest.raises(RecordError, match="4 positions for 5 letters"):
        sequence_tracks(_tracks(attention=np.ones((2, 4)), change=None))


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

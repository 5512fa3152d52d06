"""The Plotly heatmap has the record's own numbers, on a scale that it names; masked, missing and zero differ."""

import json
import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from tests.plots.examples import HOSTILE, picture
from transformer.plots.axes import Axis
from transformer.plots.heatmap import heatmap
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity

MASKED = "masked: this query may not see this key"


def bar(figure: go.Figure) -> str:
    return str(figure.data[0].colorbar.title.text).replace("<br>", " ")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("relative", [False, True])
def test_the_array_that_is_drawn_is_the_pictures_own_and_masked_cells_have_no_colour(
    dtype: type, relative: bool
) -> None:
    drawn = picture(causal=True, dtype=dtype)
    z = heatmap(drawn, relative=relative, dark=True).data[0].z
    assert z.dtype == drawn.values.dtype
    np.testing.assert_array_equal(z, np.where(drawn.visible, drawn.values, np.nan))


def test_queries_go_down_from_the_first_and_keys_across() -> None:
    layout = heatmap(picture(5, 7, texts=("the", "man", "the"))).layout
    assert (layout.yaxis.autorange, layout.xaxis.side) == ("reversed", "top")
    assert layout.yaxis.title.text == "query: target (German)"
    assert layout.xaxis.title.text == "key: source (English)"
    assert [text.strip("\u2068\u2069") for text in layout.yaxis.ticktext] == ["the (1)", "man", "the (2)"]


def test_the_scale_of_weights_is_fixed_from_0_to_1() -> None:
    figure = heatmap(picture())
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 1)
    assert bar(figure) == "attention weight (probability)"
    assert figure.data[0].colorscale[0][1] == "#440154"


def test_a_relative_scale_begins_at_0_ends_at_the_largest_number_that_is_seen_and_says_so() -> None:
    drawn = picture(3, 3, causal=True)
    drawn.values[0, 2], drawn.values[2, 0] = 9, np.nan
    largest = float(np.nanmax(np.tril(drawn.values)))
    figure = heatmap(drawn, relative=True)
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, pytest.approx(largest))
    assert f"relative: the scale ends at the largest weight here, {largest:.3g}" in bar(figure)
    nothing = heatmap(replace(picture(2, 2), values=np.zeros((2, 2))), relative=True)
    assert (nothing.data[0].zmin, nothing.data[0].zmax) == (0, 1)
    assert "no weight here is above 0" in bar(nothing)


def test_scores_have_a_scale_centred_at_0_that_names_its_range() -> None:
    drawn = picture(quantity=Quantity.SCORE)
    figure = heatmap(drawn)
    assert figure.data[0].zmin == -figure.data[0].zmax == pytest.approx(-float(np.abs(drawn.values).max()))
    assert f"from {drawn.values.min():.3g} to {drawn.values.max():.3g} here" in bar(figure)
    assert figure.data[0].colorscale[0][1] != "#440154"
    zero = heatmap(replace(picture(2, 2, quantity=Quantity.SCORE), values=np.zeros((2, 2)))).data[0]
    assert (zero.zmin, zero.zmax) == (-1, 1)


def test_hover_gives_the_exact_number_or_says_why_there_is_none() -> None:
    drawn = picture(3, 5, causal=True)
    drawn.values[1, 1], drawn.values[0, 4] = np.nan, np.nan
    cells = heatmap(drawn).data[0]
    assert cells.hovertemplate == "query: %{y}<br>key: %{x}<br>%{text}<extra></extra>"
    assert cells.hoverongaps
    for query, key in np.ndindex(3, 5):
        text = str(cells.text[query][key])
        if key > query:
            assert text == MASKED
        elif (query, key) == (1, 1):
            assert text == "not a finite number (nan)"
        else:
            assert float(text.removeprefix("weight ")) == pytest.approx(drawn.values[query, key], rel=1e-5)


def test_a_picture_without_tokens_says_so() -> None:
    none = Axis.of_tokens("source", [])
    empty = Picture("encoder.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), none, none)
    assert [note.text for note in heatmap(empty).layout.annotations] == ["No tokens are left to show."]


def test_notes_and_changes_stand_in_the_title() -> None:
    changes = ("decoder.3.cross (heads 1, 3) off (mean)", "encoder.0.self (head 1, key 4) knocked out")
    title = heatmap(replace(picture(notes=("rows no longer sum to 1", "a <b>")), changes=changes)).layout.title
    assert title.text.endswith("2 changes"), "both named are too long for one line"
    said = title.subtitle.text.replace("<br>", " ")
    assert said == "; ".join([*changes, "rows no longer sum to 1", "a &lt;b&gt;"])
    one = heatmap(replace(picture(), changes=("encoder.0.self off (mean)",))).layout.title
    assert one.text.endswith("changed: encoder.0.self off (mean)")


def strings(thing: object) -> list[str]:
    if isinstance(thing, dict):
        return [text for value in thing.values() for text in strings(value)]
    if isinstance(thing, list):
        return [text for value in thing for text in strings(value)]
    return [thing] if isinstance(thing, str) else []


def test_no_token_becomes_markup() -> None:
    drawn = picture(texts=HOSTILE, notes=("<script>",))
    axis = Axis("<script>", *(getattr(drawn.keys, name) for name in ("texts", "words", "special")))
    drawn = replace(drawn, site="<script>", keys=axis, queries=axis)
    for text in strings(json.loads(heatmap(drawn).to_json())):
        assert "<" not in re.sub("<br>|<extra></extra>", "", text), text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("quantity", Quantity)
def test_no_colour_is_one_that_a_pages_theme_replaces(dark: bool, quantity: Quantity) -> None:
    """Streamlit replaces the colours #000001 to #000040 wherever they stand in a figure."""
    assert not re.search(r"#0000[0-4][0-9]", heatmap(picture(5, 5, True, quantity=quantity), dark=dark).to_json())

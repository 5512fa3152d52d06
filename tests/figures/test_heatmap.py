"""The heatmap draws the record's own numbers, on a scale that it names, and tells masked from missing from zero."""

import json
import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.io import to_json

from tests.figures.examples import HOSTILE, picture
from transformer.errors import RecordError
from transformer.figures import labels, overlays
from transformer.figures.heatmap import CLICKABLE_CELLS, alt_text, heatmap, heatmap_on_page
from transformer.pictures.axes import Axis
from transformer.pictures.picture import Picture
from transformer.pictures.quantity import Quantity

MASKED = "masked: this query may not see this key"


def trace(figure: go.Figure, name: str) -> go.Figure:
    (found,) = [one for one in figure.data if one.name == name]
    return found


def names(figure: go.Figure) -> list[str]:
    return [one.name for one in figure.data if one.name]


def hover_texts(drawn: Picture) -> np.ndarray:
    return np.array(trace(heatmap(drawn), "cells").text).reshape(drawn.values.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("relative", [False, True])
def test_the_array_that_is_drawn_is_the_pictures_own(dtype: type, relative: bool) -> None:
    drawn = picture(causal=True, dtype=dtype)
    z = heatmap(drawn, relative=relative, selected=(2, 1), dark=True).data[0].z
    assert z.dtype == drawn.values.dtype
    np.testing.assert_array_equal(z, drawn.values)


def test_queries_go_down_from_the_first_and_keys_across() -> None:
    layout = heatmap(picture(5, 7)).layout
    assert tuple(layout.yaxis2.range) == (4.5, -0.5)
    assert tuple(layout.xaxis2.range) == (-0.5, 6.5)
    assert layout.xaxis2.side == "top"
    assert "query: \u2068target (German)\u2069" in layout.yaxis2.title.text
    assert "key: \u2068source (English)\u2069" in layout.xaxis2.title.text
    assert layout.yaxis2.ticktext == tuple(f"▁q{i}" for i in range(5))
    assert layout.xaxis2.ticktext == tuple(f"▁k{i}" for i in range(7))


def test_repeated_tokens_stay_apart() -> None:
    layout = heatmap(picture(texts=("the", "man", "the"))).layout
    assert layout.xaxis2.tickvals == (0, 1, 2)
    assert layout.xaxis2.ticktext == ("the", "man", "the")
    assert [text.strip("\u2068\u2069") for text in layout.xaxis.ticktext] == ["the (1)", "man", "the (2)"]


def test_cells_are_square_where_there_is_room() -> None:
    layout = heatmap(picture(11, 13)).layout
    across = (layout.width - layout.margin.l - layout.margin.r) / 13
    down = (layout.height - layout.margin.t - layout.margin.b) / 11
    assert across == pytest.approx(down, rel=0.02)


def test_a_usual_sentence_fits_a_small_window_and_a_long_one_is_bounded() -> None:
    heights = {n: heatmap(picture(n, n)).layout for n in (3, 15, 18, 40)}
    rows = {n: one.height - one.margin.t - one.margin.b for n, one in heights.items()}
    assert rows == {3: 144, 15: 450, 18: 540, 40: 600}
    assert heights[15].height < 720


def test_the_scale_of_weights_is_fixed_from_0_to_1() -> None:
    cells = heatmap(picture()).data[0]
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert cells.colorbar.title.text == "attention weight (probability)"
    assert cells.colorscale[0][1] == "#440154"


def test_a_relative_scale_says_so_and_leaves_the_numbers_alone() -> None:
    drawn = picture()
    cells = heatmap(drawn, relative=True).data[0]
    assert drawn.values.min() > 0
    assert (cells.zmin, cells.zmax) == (0, pytest.approx(float(drawn.values.max())))
    largest = float(drawn.values.max())
    assert f"relative: the scale ends at the largest weight here, {largest:.3g}" in cells.colorbar.title.text.replace(
        "<br>", " "
    )
    assert cells.colorbar.ticktext == tuple(f"{share * largest:.3g}" for share in (0, 0.25, 0.5, 0.75, 1))
    assert cells.colorbar.tickvals[-1] == pytest.approx(cells.zmax)


def test_a_relative_scale_ignores_what_is_masked_or_not_finite() -> None:
    drawn = picture(3, 3, causal=True)
    drawn.values[0, 2], drawn.values[2, 0] = 9, np.nan
    assert heatmap(drawn, relative=True).data[0].zmax == pytest.approx(float(np.nanmax(np.tril(drawn.values))))


def test_a_relative_scale_of_nothing_says_so() -> None:
    drawn = replace(picture(2, 2), values=np.zeros((2, 2)))
    cells = heatmap(drawn, relative=True).data[0]
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert "no weight here is above 0" in cells.colorbar.title.text.replace("<br>", " ")


def test_scores_have_a_scale_centred_at_0_that_names_its_range() -> None:
    drawn = picture(quantity=Quantity.SCORE)
    cells = heatmap(drawn).data[0]
    assert cells.zmin == -cells.zmax
    assert cells.zmax == pytest.approx(float(np.abs(drawn.values).max()))
    assert f"from {drawn.values.min():.3g} to {drawn.values.max():.3g} here" in cells.colorbar.title.text.replace(
        "<br>", " "
    )
    assert cells.colorscale[0][1] != "#440154"


def test_scores_of_zero_have_a_scale() -> None:
    cells = heatmap(replace(picture(2, 2, quantity=Quantity.SCORE), values=np.zeros((2, 2)))).data[0]
    assert (cells.zmin, cells.zmax) == (-1, 1)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_masked_cells_are_covered_exactly(n_queries: int, n_keys: int, seed: int) -> None:
    visible = np.random.default_rng(seed).random((n_queries, n_keys)) < 0.5
    figure = heatmap(replace(picture(n_queries, n_keys), visible=visible))
    covered = np.zeros_like(visible)
    for bars in [one for one in figure.data if isinstance(one, go.Bar)]:
        for key, base, length in zip(bars.x, bars.base, bars.y, strict=True):
            covered[round(base + 0.5) : round(base + 0.5 + length), key] = True
    np.testing.assert_array_equal(covered, ~visible)


def test_runs_join_what_is_hidden_in_a_column() -> None:
    hidden = np.array([[1, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    assert [part.tolist() for part in overlays.runs(hidden)] == [[0, 0, 1], [0, 3, 2], [2, 1, 2]]


def test_masked_is_named_and_hatched_and_is_not_zero() -> None:
    figure = heatmap(picture(5, 5, causal=True))
    bars = trace(figure, MASKED)
    assert bars.showlegend
    assert bars.marker.pattern.shape == "/"
    assert bars.marker.color not in {color for _, color in figure.data[0].colorscale}
    assert MASKED not in names(heatmap(picture()))


def test_what_is_not_finite_is_crossed_and_named() -> None:
    drawn = picture(3, 5, causal=True)
    drawn.values[1, 1], drawn.values[2, 0], drawn.values[0, 4] = np.nan, np.inf, np.nan
    crosses = trace(heatmap(drawn), "not a finite number")
    assert sorted(zip(crosses.y, crosses.x, strict=True)) == [(1, 1), (2, 0)]
    assert crosses.showlegend
    assert hover_texts(drawn)[1, 1] == "not a finite number (nan)"
    assert hover_texts(drawn)[0, 4] == MASKED


def test_hover_gives_the_exact_weight_of_both_tokens() -> None:
    drawn = picture(3, 5, causal=True)
    cells = trace(heatmap(drawn), "cells")
    assert cells.hovertemplate == "query: %{y}<br>key: %{x}<br>%{text}<extra></extra>"
    texts = hover_texts(drawn)
    for query, key in np.ndindex(3, 5):
        if key <= query:
            assert float(str(texts[query, key]).removeprefix("weight ")) == pytest.approx(
                drawn.values[query, key], rel=1e-5
            )
        else:
            assert texts[query, key] == "masked: this query may not see this key"


def test_hover_says_what_every_number_is_once_where_all_cells_are_numbers() -> None:
    drawn = picture(3, 5)
    cells = trace(heatmap(drawn), "cells")
    assert cells.hovertemplate == "query: %{y}<br>key: %{x}<br>weight %{text}<extra></extra>"
    assert list(cells.text) == [f"{value:.6g}" for value in drawn.values.ravel()]


def test_hover_on_a_masked_score_says_both() -> None:
    drawn = picture(3, 3, causal=True, quantity=Quantity.SCORE)
    text = hover_texts(drawn)[0, 2]
    assert text == f"masked: this query may not see this key<br>score {drawn.values[0, 2]:.6g}"


def test_a_click_target_on_every_cell_knows_its_pair() -> None:
    cells = trace(heatmap(picture(5, 7)), "cells")
    assert [tuple(pair) for pair in cells.customdata] == list(np.ndindex(5, 7))
    assert list(zip(cells.y, cells.x, strict=True)) == list(np.ndindex(5, 7))
    assert cells.marker.opacity == cells.selected.marker.opacity == cells.unselected.marker.opacity == 0
    assert heatmap(picture()).layout.hoverdistance == -1


def test_a_large_map_has_no_click_targets_but_all_hover_texts() -> None:
    figure = heatmap(picture(101, 101, causal=True))
    assert CLICKABLE_CELLS < 101 * 101
    assert "cells" not in names(figure)
    assert "%{z:.6~g}" in figure.data[0].hovertemplate
    masked = trace(figure, "masked")
    assert MASKED in masked.hovertemplate
    np.testing.assert_array_equal(np.isnan(masked.z), np.tri(101, dtype=bool))
    assert len(figure.layout.xaxis.ticktext) == 101
    assert len(figure.layout.xaxis2.ticktext) < 60


def test_the_selected_pair_is_outlined_with_its_row_and_column() -> None:
    figure = heatmap(picture(5, 7), selected=(3, 4))
    boxes = {(s.x0, s.x1, s.y0, s.y1) for s in figure.layout.shapes}
    assert boxes == {(3.5, 4.5, 2.5, 3.5), (-0.5, 6.5, 2.5, 3.5), (3.5, 4.5, -0.5, 4.5)}
    assert figure.layout.xaxis2.ticktext[4] == "<b>▁k4</b>"
    assert figure.layout.yaxis2.ticktext[3] == "<b>▁q3</b>"
    assert not heatmap(picture()).layout.shapes


@pytest.mark.parametrize("selected", [(5, 0), (0, 7), (-1, 0)])
def test_a_pair_that_is_not_there_is_refused(selected: tuple[int, int]) -> None:
    with pytest.raises(RecordError, match=r"is not in a map of 5 queries and 7 keys: choose a cell"):
        heatmap(picture(5, 7), selected=selected)


def test_a_picture_without_tokens_says_so() -> None:
    none = Axis.of_tokens("source", [])
    empty = Picture("encoder.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), dtype=bool), none, none)
    assert [note.text for note in heatmap(empty).layout.annotations] == ["No tokens are left to show."]
    assert "0 queries down" in alt_text(empty)


def test_notes_stand_under_the_title() -> None:
    title = heatmap(picture(notes=("rows no longer sum to 1", "a <b>"))).layout.title
    assert title.text == "decoder.1.cross · head 2"
    assert title.subtitle.text == "rows no longer sum to 1; a &lt;b&gt;"


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
    ours = re.compile(r"</?b>|<br>|<extra></extra>")
    for text in strings(json.loads(heatmap(drawn, selected=(1, 1)).to_json())):
        left = ours.sub("", text)
        assert "<" not in left, text
        assert not ours.search(text) or "bold" not in text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("quantity", Quantity)
def test_no_colour_is_one_that_the_pages_theme_replaces(dark: bool, quantity: Quantity) -> None:
    """Streamlit replaces the colours #000001 to #000040 wherever they stand in a figure."""
    text = heatmap(picture(5, 5, causal=True, quantity=quantity), selected=(1, 1), dark=dark).to_json()
    assert not re.search(r"#0000[0-4][0-9]", text)


def test_light_and_dark_differ_in_paper_and_masked_but_not_in_weights() -> None:
    light, dark = (heatmap(picture(5, 5, causal=True), dark=dark) for dark in (False, True))
    assert light.layout.template.layout.paper_bgcolor != dark.layout.template.layout.paper_bgcolor
    assert trace(light, MASKED).marker.color != trace(dark, MASKED).marker.color
    assert light.data[0].colorscale == dark.data[0].colorscale


def test_the_picture_in_a_sentence() -> None:
    drawn = picture(3, 5, causal=True)
    assert alt_text(drawn) == (
        "Heatmap of decoder.1.cross · head 2: 3 queries down, 5 keys across. "
        "The largest attention weight (probability) is 1.000, from query “▁q0” to key “▁k0”."
    )


def test_the_title_of_a_changed_run_names_its_changes_in_lines_that_fit() -> None:
    changes = ("decoder.3.cross (heads 1, 3) off (mean)", "encoder.0.self (head 1, key 4) knocked out")
    plain = heatmap(replace(picture(), changes=()))
    changed = heatmap(replace(picture(), changes=changes))
    lines = changed.layout.title.text.split("<br>")
    assert len(lines) > 1
    assert all(10 * len(line) < changed.layout.width for line in lines)
    assert all(change in " ".join(lines) for change in changes)
    assert changed.layout.margin.t - plain.layout.margin.t >= 22 * (len(lines) - 1)
    more = heatmap(replace(picture(), changes=changes * 3))
    assert more.layout.title.text.replace("<br>", " ").endswith("3 more")
    long = heatmap(replace(picture(3, 5), head="integrated gradients (of embeddings), not converged: 7 of 11 tokens"))
    lines = long.layout.title.text.split("<br>")
    assert " ".join(lines).endswith("(of embeddings), not converged: 7 of 11 tokens")
    assert all(10 * len(line) < long.layout.width for line in lines), "no letter of it is cut"


def test_a_long_note_is_wrapped_and_a_title_leaves_room_for_the_buttons() -> None:
    long = ("pieces are merged to words: summed over keys, averaged over queries", "special tokens are hidden <b>")
    few, many = (heatmap(picture(notes=notes)).layout for notes in (("short",), long))
    lines = many.title.subtitle.text.split("<br>")
    assert len(lines) > 1
    assert " ".join(lines) == f"{long[0]}; special tokens are hidden &lt;b&gt;"
    assert all(len(line) * 6 < many.width for line in lines)
    assert many.margin.t - few.margin.t == 16 * (len(lines) - 1)
    assert many.title.pad.t > 28  # this picture is narrow: Plotly's buttons would lie over its title
    chinese = labels.wrapped("词片已合并成词对键求和对查询取平均", 100.0)
    assert chinese.replace("<br>", "") == "词片已合并成词对键求和对查询取平均"
    assert max(map(len, chinese.split("<br>"))) <= 8
    closing = labels.wrapped("最关注的宽的窗口（六十个）", 12 * 12 * 1.1)  # noqa: RUF001
    assert closing.split("<br>") == ["最关注的宽的窗口（六十", "个）"]  # noqa: RUF001


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "drawn",
    [
        picture(5, 7),
        picture(11, 11, causal=True, notes=("rows no longer sum to 1", "a <b>")),
        picture(5, 5, causal=True, quantity=Quantity.SCORE),
        replace(picture(3, 2), values=np.array([[0.25, np.nan], [np.inf, 0.5], [0.0, 1.0]])),
        replace(picture(2, 2), values=np.zeros((0, 0)), visible=np.zeros((0, 0), bool)),
        picture(101, 103, dtype=np.float32),
    ],
    ids=["plain", "masked", "scores", "not finite", "empty", "large"],
)
def test_what_a_page_draws_is_what_plotly_would_have_written(drawn: Picture, dark: bool) -> None:
    selected = (2, 1) if min(drawn.values.shape) > 1 else None
    for relative in (False, True):
        options = dict(relative=relative, selected=selected, dark=dark)
        page, checked = heatmap_on_page(drawn, **options), heatmap(drawn, **options)
        assert json.loads(to_json(page.to_dict(), validate=False)) == json.loads(checked.to_json())


def test_titles_of_axes_and_of_the_scale_are_broken_where_a_narrow_screen_ends() -> None:
    """Nothing of them is lost, the right-to-left isolates included, and the figure grows by the lines."""
    short, long = picture(), picture()
    keys = replace(long.keys, name="source (English), then token read so far (German)")
    long = replace(long, keys=keys)
    figure, usual = heatmap(long, relative=True), heatmap(short, relative=True)
    title = figure.layout.xaxis2.title.text
    assert title.replace("<br>", " ") == "key: \u2068source (English), then token read so far (German)\u2069"
    assert max(map(len, title.split("<br>"))) * 0.55 * 13 <= 400 - figure.layout.margin.l
    lines = title.count("<br>") - usual.layout.xaxis2.title.text.count("<br>")
    assert lines > 0
    assert figure.layout.height - usual.layout.height == figure.layout.margin.t - usual.layout.margin.t == 17 * lines
    assert max(map(len, figure.data[0].colorbar.title.text.split("<br>"))) <= 40

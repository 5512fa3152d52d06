"""What leaves the page: CSV that reads back exactly, and a figure as a page that needs no network."""

import csv as csv_format
import io
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plots.examples import HOSTILE, picture
from transformer.plots.axes import Axis
from transformer.plots.export import PLOT_CONFIG, csv, plot_config, table_csv
from transformer.plots.picture import Picture
from transformer.plots.quantity import Quantity

FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "\uff1d1", "'quoted", "''")


def read(text: str) -> tuple[list[str], list[str], np.ndarray]:
    """Labels of queries and of keys, and values, as `csv` says that they are to be read."""
    rows = list(csv_format.reader(io.StringIO(text, newline="")))
    values = [[float(cell) if cell else np.nan for cell in row[1:]] for row in rows[1:]]
    plain = [label.removeprefix("'") for label in rows[0][1:]], [row[0].removeprefix("'") for row in rows[1:]]
    return plain[1], plain[0], np.array(values).reshape(len(rows) - 1, len(rows[0]) - 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_reads_back_exactly_and_masked_cells_are_empty(dtype: type) -> None:
    drawn = picture(5, 7, causal=True, dtype=dtype)
    queries, keys, values = read(csv(drawn))
    assert tuple(queries) == drawn.queries.labels
    assert tuple(keys) == drawn.keys.labels
    np.testing.assert_array_equal(values.astype(dtype), np.where(drawn.visible, drawn.values, np.nan))


def test_pandas_reads_it() -> None:
    drawn = picture(5, 7, causal=True)
    table = pd.read_csv(io.StringIO(csv(drawn)), index_col=0)
    said = "query: target (German) | key: source (English) | decoder.1.cross · head 2 | attention weight (probability)"
    assert table.index.name == said
    assert list(table.columns) == list(drawn.keys.labels)
    assert table.loc["▁q3", "▁k2"] == pytest.approx(float(drawn.values[3, 2]))
    np.testing.assert_array_equal(table.isna(), ~drawn.visible)


@given(st.lists(st.sampled_from((*HOSTILE, *FORMULAS, 'a"b', "a,b", "▁a")), min_size=1, max_size=7))
def test_any_labels_read_back(texts: list[str]) -> None:
    drawn = picture(texts=tuple(texts))
    queries, keys, _ = read(csv(drawn))
    assert tuple(queries) == drawn.queries.labels
    assert tuple(keys) == drawn.keys.labels


def test_no_cell_of_text_can_be_taken_for_a_formula() -> None:
    drawn = picture(texts=FORMULAS)
    drawn = replace(drawn, queries=Axis.of_tokens("=name", FORMULAS))
    rows = list(csv_format.reader(io.StringIO(csv(drawn), newline="")))
    for cell in [*rows[0], *(row[0] for row in rows)]:
        assert cell[0] not in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def test_a_table_says_what_was_done_to_its_numbers_and_of_what_it_is() -> None:
    drawn = picture(2, 3, quantity=Quantity.SCORE, notes=("special tokens are hidden",))
    corner = next(csv_format.reader(io.StringIO(csv(drawn, ["A man\n rides.", "a-checkpoint"]), newline="")))[0]
    assert corner.split(" | ")[3:] == [
        "score (scaled dot product, before the mask)", "special tokens are hidden", "A man rides.", "a-checkpoint",
    ]  # fmt: skip


def test_a_table_of_texts_and_numbers_reads_back_and_runs_nothing() -> None:
    rows = [
        [text, value] for text, value in zip(FORMULAS, [0.1, -3, None, float("nan"), 1e-300, 2.5, 7, 0.0], strict=True)
    ]
    found = list(csv_format.reader(io.StringIO(table_csv(["=word", "n"], rows), newline="")))
    assert found[0] == ["'=word", "n"]
    assert [row[0].removeprefix("'") for row in found[1:]] == list(FORMULAS)
    assert not any(row[0].startswith(tuple("=+-@\t\uff1d")) for row in found)
    assert [row[1] for row in found[1:]] == ["0.1", "-3", "", "", "1e-300", "2.5", "7", "0.0"]


def test_what_is_not_finite_is_written_as_it_is() -> None:
    drawn = replace(picture(2, 2), values=np.array([[np.nan, 1.0], [-np.inf, 0.0]]))
    assert csv(drawn).splitlines()[1:] == ["▁q0,nan,1.0", "▁q1,-inf,0.0"]


def test_an_empty_picture_has_a_header_only() -> None:
    none = Axis.of_tokens("source", [])
    (line,) = csv(Picture("a.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), bool), none, none)).splitlines()
    assert line == "query: source | key: source | a.0.self · head 0 | attention weight (probability)"


def test_no_figure_offers_to_upload_itself() -> None:
    assert "sendChartToCloud" in PLOT_CONFIG["modeBarButtonsToRemove"]
    assert PLOT_CONFIG["displaylogo"] is False


@pytest.mark.parametrize("image", ["png", "svg"])
def test_the_camera_saves_what_it_is_told_to(image: Literal["png", "svg"]) -> None:
    options = plot_config("decoder.1.cross", image)["toImageButtonOptions"]
    assert options == {"format": image, "filename": "decoder.1.cross", "scale": 2}

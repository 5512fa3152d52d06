"""What leaves the page: CSV that reads back exactly, and a figure as a page that needs no network."""

import csv as csv_format
import io
import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.figures.examples import HOSTILE, picture
from transformer.figures.export import PLOT_CONFIG, csv, html, plot_config
from transformer.figures.heatmap import heatmap
from transformer.pictures.axes import Axis
from transformer.pictures.picture import Picture

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
    assert table.index.name == "query: target (German)"
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


def test_what_is_not_finite_is_written_as_it_is() -> None:
    drawn = replace(picture(2, 2), values=np.array([[np.nan, 1.0], [-np.inf, 0.0]]))
    assert csv(drawn).splitlines()[1:] == ["▁q0,nan,1.0", "▁q1,-inf,0.0"]


def test_an_empty_picture_has_a_header_only() -> None:
    none = Axis.of_tokens("source", [])
    assert csv(Picture("a.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), bool), none, none)) == "query: source\n"


def test_the_page_holds_plotly_and_asks_for_nothing_else() -> None:
    page = html(heatmap(picture(texts=HOSTILE), dark=True))
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert len(page) > 3_000_000, "plotly.js is in it"
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=", page)
    assert "<title>decoder.1.cross · head 2</title>" in page
    assert "background: #10171e" in page


def test_a_title_cannot_leave_its_tag() -> None:
    figure = heatmap(replace(picture(), site="</title><script>alert(1)</script>"))
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; · head 2</title>" in html(figure)


def test_no_figure_offers_to_upload_itself() -> None:
    page = html(heatmap(picture()))
    assert '"modeBarButtonsToRemove": ["sendChartToCloud"' in page
    assert '"displaylogo": false' in page
    assert "sendChartToCloud" in PLOT_CONFIG["modeBarButtonsToRemove"]
    assert PLOT_CONFIG["displaylogo"] is False


@pytest.mark.parametrize("image", ["png", "svg"])
def test_the_camera_saves_what_it_is_told_to(image: Literal["png", "svg"]) -> None:
    options = plot_config("decoder.1.cross", image)["toImageButtonOptions"]
    assert options == {"format": image, "filename": "decoder.1.cross", "scale": 2}

"""What leaves the page Translate: the map in the form that is on screen, all maps in one ZIP, names that say what."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.attention.test_notebook import message
from tests.pages.opening import fine, opened, sent
from transformer import DecodingOptions
from transformer.lessons.expressions.board import Matrix
from transformer.lessons.expressions.operations import Given
from transformer.plots.picture import Picture
from ui.lessons.shared import matrix_csv
from ui.shared.files import frame_csv
from ui.store import runs

NAME = "multi30k-en-de"
SENTENCE = "Two dogs are playing in the snow."
HERE = {"text": SENTENCE, "beam": "2", "longest": "15", "kind": "decoder.cross", "layer": "1", "head": "2"}

Files = dict[str, tuple[str, Callable[[], Any]]]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """The files of the page by their endings: each one's name, and what makes it."""
    found: Files = {}

    def button(_: str, data: Callable[[], Any], file_name: str, *__: object, **___: object) -> bool:
        found[file_name.rpartition(".")[2]] = file_name, data
        return False

    monkeypatch.setattr("streamlit.download_button", button)
    return found


def table(text: str) -> tuple[str, np.ndarray]:
    """The first cell and the numbers of a table; NaN where a cell is empty."""
    header, *rows = csv.reader(io.StringIO(text))
    return header[0], np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in rows])


def assert_holds(numbers: np.ndarray, picture: Picture) -> None:
    """Bit for bit, at the precision of the picture."""
    expected = np.where(picture.visible, picture.values, np.nan)
    np.testing.assert_array_equal(numbers.astype(expected.dtype), expected)


@pytest.mark.parametrize(
    ("form", "said", "name"),
    [
        ({}, "pieces are merged to words", ""),
        ({"words": "false"}, "attention weight (probability) | Sentence", ""),
        ({"special": "false"}, "special tokens are hidden", ""),
        ({"scores": "true"}, "score (scaled dot product, before the mask) | scores are of pieces", "_scores"),
        ({"relative": "true"}, "colours relative to the largest weight", ""),
    ],
)
def test_a_table_is_the_map_on_screen_and_says_so(files: Files, form: dict[str, str], said: str, name: str) -> None:
    fine(opened("translate", **HERE, **form, view="downloads"))
    record = runs.translation(NAME, SENTENCE, DecodingOptions(beam=2, max_length=15), None).record
    picture = record["decoder.1.cross"].picture(
        2, words="words" not in form, special="special" not in form, scores="scores" in form
    )
    found, make = files["csv"]
    assert found == f"Two-dogs-are-playing-in_{NAME}_decoder.1.cross_head-2{name}.csv"
    corner, numbers = table(make())
    assert corner.startswith("query: ")
    assert f"Sentence: {SENTENCE} | Checkpoint: {NAME}" in corner
    assert said in corner
    assert_holds(numbers, picture)


@pytest.mark.parametrize("form", [{}, {"words": "false"}, {"special": "false"}])
def test_a_page_holds_all_heads_as_they_are_on_screen_and_begins_with_the_one_shown(
    files: Files, form: dict[str, str]
) -> None:
    fine(opened("translate", **HERE, **form, view="downloads"))
    record = runs.translation(NAME, SENTENCE, DecodingOptions(beam=2, max_length=15), None).record
    name, make = files["html"]
    assert name == f"Two-dogs-are-playing-in_{NAME}_all-maps.html"
    text = make()
    assert len(text) < 1_000_000
    header, arrays = message(text)
    assert header["facts"] == [f"Model: {NAME}", f"Text: {SENTENCE}"]
    usual, kinds = header["record"]["usual"], header["record"]["kinds"]
    assert (kinds[usual["kind"]]["name"], usual["layer"], usual["head"]) == ("decoder.cross", 1, 2)
    for number, kind in enumerate(kinds):
        for layer, site in enumerate(kind["sites"]):
            pictures = record[site].pictures("words" not in form, "special" not in form)[:-1]
            expected = [np.where(one.visible, one.values, -np.inf) for one in pictures]
            shape = len(kind["sites"]), *np.shape(expected)
            np.testing.assert_array_equal(arrays[f"weights_{number}"].reshape(shape)[layer], np.float32(expected))


def test_one_zip_holds_every_head_of_every_site_and_says_what_each_is(files: Files) -> None:
    fine(opened("translate", **HERE, special="false", view="downloads"))
    record = runs.translation(NAME, SENTENCE, DecodingOptions(beam=2, max_length=15), None).record
    name, make = files["zip"]
    assert name == f"Two-dogs-are-playing-in_{NAME}_all-maps.zip"
    with zipfile.ZipFile(io.BytesIO(make())) as archive:
        tables = {entry: archive.read(entry).decode() for entry in archive.namelist()}
    contents = [row[0] for row in csv.reader(io.StringIO(tables.pop("contents.csv")))]
    assert set(tables) == {f"{site}_head-{head}.csv" for site, one in record.items() for head in range(one.n_heads)}
    assert set(tables) < set(contents)
    assert f"Sentence: {SENTENCE}" in contents
    for site, head in (("encoder.0.self", 0), ("decoder.3.self", 1), ("decoder.2.cross", 3)):
        picture = record[site].picture(head, words=True, special=False)
        assert_holds(table(tables[f"{site}_head-{head}.csv"])[1], picture)


def test_a_hostile_sentence_is_text_in_every_file(files: Files) -> None:
    page = opened("translate", **{**HERE, "text": "=cmd|'/C calc'!A0 ../../x <b>"}, view="downloads")
    assert not page.exception
    names = [name for name, _ in files.values()]
    assert not [name for name in names if re.search(r"[^\w.-]|\.\.|^[-.]", name)]
    for row in csv.reader(io.StringIO(files["csv"][1]())):
        assert not row[0].startswith(("=", "+", "-", "@"))
    text = files["html"][1]()
    assert "<b>" not in text
    assert message(text)[0]["facts"][1].endswith("../../x <b>")


def test_no_table_of_a_page_runs_what_somebody_named() -> None:
    table = pd.DataFrame({"id": ["=1+1", "@x", "-seq", "fine"], "probability": [0.25, -1.5, float("nan"), 1.0]})
    rows = list(csv.reader(io.StringIO(frame_csv(table))))
    assert rows == [["id", "probability"], ["'=1+1", "0.25"], ["'@x", "-1.5"], ["'-seq", ""], ["fine", "1.0"]]
    matrix = Matrix("X", "X", "input", np.array([[0.5, -1.0]]), ("=1+1",), ("+a", "b"), Given())
    assert list(csv.reader(io.StringIO(matrix_csv(matrix)))) == [["", "'+a", "b"], ["'=1+1", "0.5", "-1.0"]]


def test_saved_pictures_say_site_layer_kind_and_sentence() -> None:
    lines, _ = sent(fine(opened("translate", **HERE, view="head_view")), "head-view")
    cross = lines["sides"]["decoder.cross"]
    assert cross["file_names"][1] == f"Two-dogs-are-playing-in_{NAME}_decoder.1.cross_lines"
    cells, _ = sent(fine(opened("translate", **HERE, view="heatmap")), "heatmap")
    assert (
        cells["sites"]["decoder.1.cross"]["file_names"][1] == f"Two-dogs-are-playing-in_{NAME}_decoder.1.cross_head-1"
    )
    assert cross["abouts"][1]["title"] == "Cross attention, layer 1 (decoder.1.cross)"
    assert cross["abouts"][1]["lines"][:2] == [f"Sentence: {SENTENCE}", f"Checkpoint: {NAME}"]
    assert any("merged to words" in line for line in cross["abouts"][1]["lines"])
    grid, _ = sent(fine(opened("translate", **HERE, lang="zh")), "all-heads")
    assert grid["grids"]["decoder.cross"]["file_name"] == f"Two-dogs-are-playing-in_{NAME}_all-heads_decoder.cross"
    assert grid["grids"]["decoder.cross"]["about"]["lines"][0] == f"句子\uff1a{SENTENCE}"

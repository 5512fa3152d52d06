"""What leaves a page: the map in the form that is on screen, all maps in one ZIP, pictures that say what they are."""

import csv
import io
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from heedmap import DecodingOptions, Record
from heedmap.lessons.board import Matrix
from heedmap.plots.canvas import blob
from heedmap.plots.picture import Picture
from tests.attention.test_notebook import message
from tests.pages.opening import Files, fine, matrices, opened, sent
from ui.lessons.shared import matrix_csv
from ui.shared.files import frame_csv
from ui.store import runs

NAME = "multi30k-en-de"
SENTENCE = "Two dogs are playing in the snow."
HERE = {"text": SENTENCE, "beam": "2", "longest": "15", "kind": "decoder.cross", "layer": "1", "head": "2"}


def table(text: str) -> tuple[str, np.ndarray]:
    """The first cell and the numbers of a table; NaN where a cell is empty."""
    header, *rows = csv.reader(io.StringIO(text))
    return header[0], np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in rows])


def run_shown() -> Record:
    return runs.translation(NAME, SENTENCE, DecodingOptions(beam=2, max_length=15), None).record


def assert_holds(numbers: np.ndarray, picture: Picture) -> None:
    """Bit for bit, at the precision of the picture."""
    expected = np.where(picture.visible, picture.values, np.nan)
    np.testing.assert_array_equal(numbers.astype(expected.dtype), expected)


@pytest.mark.parametrize(
    ("form", "said", "suffix"),
    [
        ({}, "attention weight (probability) | Sentence", ""),
        ({"words": "false"}, "attention weight (probability) | Sentence", ""),
        ({"special": "false"}, "special tokens are hidden", ""),
        ({"scores": "true"}, "score (scaled dot product, before the mask) | scores are of pieces", "_scores"),
    ],
)
def test_files_are_the_maps_as_they_are_on_screen_and_say_so(
    files: Files, form: dict[str, str], said: str, suffix: str
) -> None:
    """The table of the head that is shown; a page of all heads that begins with it; all heads of all sites in a ZIP."""
    fine(opened("translate", **HERE, **form, view="downloads"))
    record, stem = run_shown(), f"Two-dogs-are-playing-in_{NAME}"
    words, special, scores = "words" not in form, "special" not in form, "scores" in form

    found, make = files["csv"]
    assert found == f"{stem}_decoder.1.cross_head-2{suffix}.csv"
    corner, numbers = table(make())
    assert corner.startswith("query: ")
    assert f"Sentence: {SENTENCE} | Checkpoint: {NAME}" in corner
    assert said in corner
    assert_holds(numbers, record["decoder.1.cross"].picture(2, words=words, special=special, scores=scores))

    found, make = files["html"]
    assert found == f"{stem}_all-maps.html"
    text = make()
    assert len(text) < 1_000_000
    header, arrays = message(text)
    assert header["facts"] == [f"Model: {NAME}", f"Text: {SENTENCE}"]
    usual, kinds = header["record"]["usual"], header["record"]["kinds"]
    assert (kinds[usual["kind"]]["name"], usual["layer"], usual["head"]) == ("decoder.cross", 1, 2)
    for number, kind in enumerate(kinds):
        for layer, site in enumerate(kind["sites"]):
            expected = [
                np.where(one.visible, one.values, -np.inf) for one in record[site].pictures(words, special)[:-1]
            ]
            shape = len(kind["sites"]), *np.shape(expected)
            np.testing.assert_array_equal(arrays[f"weights_{number}"].reshape(shape)[layer], np.float32(expected))

    found, make = files["zip"]
    assert found == f"{stem}_all-maps{suffix}.zip"
    with zipfile.ZipFile(io.BytesIO(make())) as archive:
        tables = {entry: archive.read(entry).decode() for entry in archive.namelist()}
    contents = [row[0] for row in csv.reader(io.StringIO(tables.pop("contents.csv")))]
    assert set(tables) == {f"{site}_head-{head}.csv" for site, one in record.items() for head in range(one.n_heads)}
    assert set(tables) < set(contents)
    assert f"Sentence: {SENTENCE}" in contents
    for site, head in (("encoder.0.self", 0), ("decoder.3.self", 1), ("decoder.2.cross", 3)):
        picture = record[site].picture(head, words=words, special=special, scores=scores)
        assert_holds(table(tables[f"{site}_head-{head}.csv"])[1], picture)


def test_a_hostile_sentence_is_text_in_every_file(files: Files) -> None:
    opened("translate", **{**HERE, "text": "=cmd|'/C calc'!A0 ../../x <b>"}, view="downloads")
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
    matrix = Matrix("X", "X", "input", np.array([[0.5, -1.0]]), ("=1+1",), ("+a", "b"))
    assert list(csv.reader(io.StringIO(matrix_csv(matrix)))) == [["", "'+a", "b"], ["'=1+1", "0.5", "-1.0"]]


def test_saved_pictures_say_site_layer_kind_and_sentence() -> None:
    lines, _ = sent(fine(opened("translate", **HERE, view="head_view")), "head-view")
    cross = lines["sides"]["decoder.cross"]
    assert cross["file_names"][1][0] == f"Two-dogs-are-playing-in_{NAME}_decoder.1.cross_lines"
    cells, _ = sent(fine(opened("translate", **HERE, view="heatmap")), "heatmap")
    assert (
        cells["sites"]["decoder.1.cross"]["file_names"][1] == f"Two-dogs-are-playing-in_{NAME}_decoder.1.cross_head-1"
    )
    assert cross["abouts"][1]["title"] == "Cross attention, layer 1 (decoder.1.cross)"
    assert cross["abouts"][1]["lines"][:2] == [f"Sentence: {SENTENCE}", f"Checkpoint: {NAME}"]
    assert not any("merged to words" in line for line in cross["abouts"][1]["lines"]), "each word is one piece"
    grid, _ = sent(fine(opened("translate", **HERE, lang="zh")), "all-heads")
    assert grid["grids"]["decoder.cross"]["file_name"] == f"Two-dogs-are-playing-in_{NAME}_all-heads_decoder.cross"
    assert grid["grids"]["decoder.cross"]["about"]["lines"][0] == f"句子\uff1a{SENTENCE}"


STATES = {
    "attention_steps?stage=project": ("Q, K, V, Head 0", "Q_0 = X W^Q_0"),
    "attention_steps?stage=softmax": ("the cat sat on", "Σ_k e^(S''_0[i,k])"),
    "attention_steps?screen=why&topic=mean": ("Why?", "1 / 2 Σ_h A_h"),
    "inside_layer?made=letters": ("Letters", ""),
    "masks?mask=padding": ("Masks: Build", "M_(ij) = e_j"),
    "masks?mask=both": ("Masks: Build", "M_(ij) = T_(ij) ∧ e_j"),
    "masks?screen=scores": ("Scores and weights", "A = softmax(QKᵀ / √d_k + log M)"),
    "masks?screen=break&how=shift": ("Break it", "shifted by one"),
    "masks?screen=break&how=axes": ("Break it", "axes mixed up"),
    "masks?screen=module": ("nn.MultiheadAttention", "batch_first=True"),
    "positions?screen=rotation&steps=3": ("Rotation", "R t_p = t_(p+k)"),
    "positions?screen=later&how=alibi": ("On attention", "- m |i - j|"),
    "positions?screen=later&how=rotary": ("On attention", "q_iᵀ R_(j-i) k_j / √d"),
    "inside_layer?stage=norm": ("Inside a layer: Norm", "N[i,j] = C[i,j] / δ[i]"),
}


@pytest.mark.parametrize("address", STATES)
def test_a_saved_picture_names_its_screen_its_choice_and_its_formula(address: str) -> None:
    page, _, query = address.partition("?")
    at = fine(opened(page, **dict(one.split("=") for one in query.split("&"))))
    bodies = (part.proto.bytes for part in at.get("bidi_component"))
    about = blob.unpack(next(one for one in bodies if b'"matrices"' in one))[0]["about"]
    said = "\n".join([about["title"], *about["lines"], *about["formulas"]])
    for part in STATES[address]:
        assert part in said, said
    assert not set(said) & set("\\{}")


def test_the_lesson_on_masks_writes_the_notation_of_all_lessons() -> None:
    symbols = {"before": "S'", "after": "S''", "weights": "A", "real": "e", "triangle": "T", "result": "M"}
    shown = matrices(fine(opened("masks", screen="scores")))[0] | matrices(fine(opened("masks", mask="both")))[0]
    assert {name: one["symbol"] for name, one in shown.items()} == symbols
    assert [name for name, one in shown.items() if one["mask"]] == ["real", "triangle", "result"]

"""What leaves the page: CSV that reads back exactly, archives, and names of files that are safe on every system."""

import csv as csv_format
import io
import re
import unicodedata
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.messages import revealed, speaking
from heedmap.plots.axes import Axis
from heedmap.plots.export import PLOT_CONFIG, archive, csv, file_name, file_names, plot_config, table_csv
from heedmap.plots.picture import Picture, Quantity
from tests.plots.examples import HOSTILE, picture

FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "\uff1d1", "'quoted", "''")


def read(text: str) -> list[list[str]]:
    return list(csv_format.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.lists(st.sampled_from((*HOSTILE, *FORMULAS, 'a"b', "a,b", "\u202eevil", "\u200b=")), min_size=1, max_size=7))
def test_any_labels_and_every_number_read_back_masked_cells_are_empty_and_no_text_is_a_formula(
    dtype: type, texts: list[str]
) -> None:
    drawn = picture(causal=True, texts=tuple(texts), dtype=dtype)
    drawn = replace(drawn, queries=Axis.of_tokens("=name", texts))
    (corner, *keys), *rows = read(csv(drawn))
    names = [row[0] for row in rows]
    signs = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    assert not [cell for cell in (corner, *keys, *names) if cell.startswith(signs)]
    assert [key.removeprefix("'") for key in keys] == [*map(revealed, drawn.keys.labels)]
    assert [name.removeprefix("'") for name in names] == [*map(revealed, drawn.queries.labels)]
    found = np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in rows])
    np.testing.assert_array_equal(found.astype(dtype), np.where(drawn.visible, drawn.values, np.nan))


def test_pandas_reads_it() -> None:
    drawn = picture(5, 7, causal=True)
    table = pd.read_csv(io.StringIO(csv(drawn)), index_col=0)
    said = "query: target (German) | key: source (English) | decoder.1.cross · head 2 | attention weight (probability)"
    assert table.index.name == said
    assert table.loc["▁q3", "▁k2"] == pytest.approx(float(drawn.values[3, 2]))
    np.testing.assert_array_equal(table.isna(), ~drawn.visible)


def test_a_table_says_what_was_done_to_its_numbers_and_of_what_it_is() -> None:
    drawn = picture(2, 3, quantity=Quantity.SCORE, notes=("special tokens are hidden",))
    corner = read(csv(drawn, ["A man\n rides.", "a-checkpoint"]))[0][0]
    assert corner.split(" | ")[3:] == [
        "score (scaled dot product, before the mask)", "special tokens are hidden", "A man rides.", "a-checkpoint",
    ]  # fmt: skip


def test_a_table_of_texts_and_numbers_reads_back_and_runs_nothing() -> None:
    rows = [list(row) for row in zip(FORMULAS, [0.1, -3, None, float("nan"), 1e-300, 2.5, 7, 0.0], strict=True)]
    found = read(table_csv(["=word", "n"], rows))
    assert found[0] == ["'=word", "n"]
    assert [row[0].removeprefix("'") for row in found[1:]] == list(FORMULAS)
    assert not any(row[0].startswith(tuple("=+-@\t\uff1d")) for row in found)
    assert [row[1] for row in found[1:]] == ["0.1", "-3", "", "", "1e-300", "2.5", "7", "0.0"]


def test_what_is_not_finite_is_written_as_it_is_and_an_empty_picture_has_a_header_only() -> None:
    drawn = replace(picture(2, 2), values=np.array([[np.nan, 1.0], [-np.inf, 0.0]]))
    assert csv(drawn).splitlines()[1:] == ["▁q0,nan,1.0", "▁q1,-inf,0.0"]
    none = Axis.of_tokens("source", [])
    (line,) = csv(Picture("a.0.self", "head 0", np.zeros((0, 0)), np.zeros((0, 0), bool), none, none)).splitlines()
    assert line == "query: source | key: source | a.0.self · head 0 | attention weight (probability)"


@pytest.mark.parametrize("image", ["png", "svg"])
def test_the_camera_saves_what_it_is_told_to_and_nothing_is_uploaded(image: Literal["png", "svg"]) -> None:
    assert "sendChartToCloud" in PLOT_CONFIG["modeBarButtonsToRemove"]
    assert PLOT_CONFIG["displaylogo"] is False
    options = plot_config("decoder.1.cross", image)["toImageButtonOptions"]
    assert options == {"format": image, "filename": "decoder.1.cross", "scale": 2}


ABOUT = ["A man rides.", "=checkpoint"]


def opened(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.testzip() is None
        return {name: found.read(name).decode() for name in found.namelist()}


def test_every_map_is_in_it_as_by_itself_and_the_list_says_what_each_is() -> None:
    masked, scores = picture(5, 7, causal=True), picture(3, 2, quantity=Quantity.SCORE, notes=("first", "second"))
    files = opened(archive({"a": masked, "b": scores}, {"words": ("agreement", "x\n")}, ABOUT))
    assert set(files) == {"a.csv", "b.csv", "words.csv", "contents.csv"}
    assert files["a.csv"] == csv(masked, ABOUT)
    assert files["b.csv"] == csv(scores, ABOUT)
    assert files["words.csv"] == "x\n"
    header, *rows = read(files["contents.csv"])
    a, b = (dict(zip(header, row, strict=True)) for row in rows[:2])
    assert (a["file"], a["map"], a["rows"], a["columns"]) == (
        "a.csv", "decoder.1.cross · head 2", "5: target (German)", "7: source (English)",
    )  # fmt: skip
    seen = masked.values[masked.visible]
    assert (float(a["lowest"]), float(a["highest"])) == (float(seen.min()), float(seen.max()))
    assert (a["masked cells (empty)"], b["masked cells (empty)"]) == (str(35 - masked.visible.sum()), "0")
    assert (b["numbers"], b["notes"]) == ("score (scaled dot product, before the mask)", "first; second")
    assert rows[2:] == [["words.csv", "agreement"], ["A man rides."], ["'=checkpoint"]]


def test_the_same_maps_make_the_same_bytes_and_speak_the_readers_language() -> None:
    assert archive({"a": picture()}) == archive({"a": picture()})
    with speaking("zh"):
        files = opened(archive({"a": picture()}))
    assert files["contents.csv"].startswith("文件,图,行,列,")


@pytest.mark.parametrize(
    ("text", "parts", "name"),
    [
        (
            "A man in a blue shirt is riding a bicycle.",
            ("multi30k-en-de", "decoder.2.cross", "head 1"),
            "A-man-in-a-blue_multi30k-en-de_decoder.2.cross_head-1",
        ),
        ("", ("huggingface/bert@0001", "mean of 4 heads"), "huggingface-bert-0001_mean-of-4-heads"),
        ("../../etc/passwd", ("..", "x"), "etc-passwd_x"),
        ("--rf .hidden", (), "rf-hidden"),
        ("=cmd|' /C calc'!A0", ('a\\b:c*d?<e>"|\0\n',), "cmd-C-calc-A0_a-b-c-d-e"),
        ("一个男人在街上", ("模型",), "一个男人在街上_模型"),
        ("Cafe\u0301 \u202egnp.exe", (), "Café-gnp-exe"),
        ("NUL", (), "_NUL"),
        ("con", ("",), "_con"),
        ("\ud800", ("...",), "heedmap"),
    ],
)
def test_a_name_says_what_is_in_the_file(text: str, parts: tuple[str, ...], name: str) -> None:
    assert file_name(*parts, text=text) == name


@given(st.text(), st.lists(st.text(), max_size=4))
def test_no_text_makes_a_name_that_is_unsafe_or_long(text: str, parts: list[str]) -> None:
    name = file_name(*parts, text=text)
    assert name
    assert len(name.encode()) <= 181
    assert name[0] not in "-.", name
    assert name[-1] not in "-. "
    assert ".." not in name
    assert {unicodedata.category(letter)[0] for letter in re.sub(r"[-_.]", "", name)} <= set("LMN")
    assert Path(name).name == name


PATHS = ("../../../tmp/x", "/abs", "C:\\Windows\\x", "a/../../b", "..\\..\\evil", "CON.x", "a..b", ".hidden", "x" * 300)


@given(st.lists(st.one_of(st.text(), st.sampled_from((*PATHS, "a.mask", "contents", "A")))), st.sets(st.text()))
def test_names_of_an_archive_are_no_paths_and_all_different(names: list[str], taken: set[str]) -> None:
    found = file_names(names, taken)
    assert len({name.casefold() for name in (*found, *taken)}) == len(found) + len({one.casefold() for one in taken})
    for name in found:
        assert re.fullmatch(r"[^\W.-][^/\\:\0]*", name)
        assert not {".", "..", ""} & set(name.split("."))
        assert name.partition(".")[0].lower() not in {"con", "nul"}
    assert file_names(["encoder.0.self_head-3", "model.layers.0_x"]) == ["encoder.0.self_head-3", "model.layers.0_x"]


def test_a_zip_of_hostile_names_holds_every_map_and_no_path() -> None:
    made = zipfile.ZipFile(io.BytesIO(archive(dict.fromkeys((*PATHS, "contents"), picture()), {"/b": ("", "x")})))
    listed = [row[0] for row in read(made.read("contents.csv").decode())[1:]]
    assert sorted([*listed, "contents.csv"]) == sorted(set(made.namelist()))
    assert len(listed) == len(PATHS) + 2
    assert not any(re.search(r"[/\\:]|^\.|\.\.", name) for name in made.namelist())


def test_nothing_else_writes_archives_or_names_downloads() -> None:
    """What a file is called that leaves goes through one function; a snapshot's files have names of our own."""
    own = {
        "savez|ZipInfo": {"transformer/plots/export.py"},
        "writestr": {"transformer/plots/export.py", "transformer/training/snapshots.py"},
        "download_button": {"ui/shared/files.py"},
    }
    root = Path(__file__).resolve().parents[2]
    files = [file for room in ("transformer", "ui", "pages") for file in (root / room).rglob("*.py")]
    for what, where in own.items():
        found = {str(file.relative_to(root)) for file in files if re.search(what, file.read_text(encoding="utf-8"))}
        assert found == where


def test_long_words_and_parts_are_cut_between_characters(tmp_path: Path) -> None:
    name = file_name("界" * 300, text="é" * 300)
    assert name.startswith("é" * 24 + "_界")
    (tmp_path / f"{name}.csv").touch()
    assert file_name(f"{'a' * 179}.b") == "a" * 179, "no dot at the end"

"""A pass from files to tables: the same bytes however it was computed, and a sentence for whatever cannot be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from heedmap.atlas.corpus import Corpus
from heedmap.atlas.run import RUN, make_atlas
from heedmap.errors import AtlasError, InputError
from tests.toy import sentences, write_checkpoint, write_sides

N_LINES, A_CHUNK = 53, 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random translator, a corpus of `N_LINES` pairs, and its atlas as one process makes it."""
    place = tmp_path_factory.mktemp("atlas")
    torch.manual_seed(0)
    write_checkpoint(place / "toy")
    write_sides(place, sentences(N_LINES, seed=5), "a.en", "a.de")
    made(place, place / "serial")
    return place


def made(folder: Path, out: Path, **changes: Any) -> dict[str, Any]:
    corpus = Corpus(folder / "a.en", folder / "a.de")
    return make_atlas(**(dict(folder=folder / "toy", corpus=corpus, out=out, chunk=A_CHUNK) | changes))


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_a_second_pass_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    made(folder, tmp_path / "again")
    assert files(tmp_path / "again") == files(folder / "serial")


def test_how_lines_are_cut_into_chunks_changes_no_measure(folder: Path, tmp_path: Path) -> None:
    """Chan's merge: the same numbers to rounding, and the same examples."""
    made(folder, tmp_path / "whole", chunk=1_000)
    one, other = (pd.read_parquet(place / "heads.parquet") for place in (folder / "serial", tmp_path / "whole"))
    numbers = one.select_dtypes("number").columns
    assert np.allclose(one[numbers], other[numbers], rtol=1e-5, atol=1e-6, equal_nan=True)
    assert one["rows"].equals(other["rows"])
    first, second = (pd.read_parquet(place / "examples.parquet") for place in (folder / "serial", tmp_path / "whole"))
    drawn = [table[table["kind"] == "ordinary"][["line", "source"]].reset_index() for table in (first, second)]
    assert drawn[0].equals(drawn[1])


def test_the_tables_are_what_is_said_of_them(folder: Path) -> None:
    tables = (pd.read_parquet(folder / "serial" / f"{name}.parquet") for name in ("heads", "pairs", "examples"))
    heads, pairs, examples = tables
    assert list(zip(heads["site"], heads["head"], strict=True)) == [
        (site, head) for site in ("encoder.0.self", "decoder.0.self", "decoder.0.cross") for head in (0, 1)
    ]
    assert (heads["sentences"] == N_LINES).all()
    assert np.allclose(heads["effective_keys"], np.exp(heads["entropy"]))
    assert {"previous_chance", "special_spread", "rare", "diagonality", "offsets", "argmax"} <= set(heads.columns)
    assert heads["previous"].isna().tolist() == [False] * 4 + [True] * 2
    assert (heads["special"] - heads["start"] - heads["end"]).abs().max() < 1e-6
    assert len(pairs) == 3
    assert np.allclose(pairs["distance"] ** 2, pairs["divergence"])
    for _, shown in examples.groupby(["site", "head"], sort=False):
        best = shown[shown["kind"] == "best"]
        assert len(best) == 10
        assert best["score"].is_monotonic_decreasing
        assert (shown["kind"] == "ordinary").sum() == 5
    lines = (folder / "a.en").read_text(encoding="utf-8").splitlines()
    assert [lines[line - 1] for line in examples["line"]] == examples["source"].tolist()
    about = json.loads((folder / "serial" / RUN).read_text())
    tokens = about["counts"].pop("tokens")
    assert tokens > 0
    assert about["counts"] == {"lines": N_LINES, "sentences": N_LINES, "skipped": 0}
    assert set(about["versions"]) == {"Python", "torch", "numpy", "pyarrow"}


def test_without_references_the_model_writes(folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("heedmap.atlas.subjects.TOP", 3)
    made(folder, tmp_path / "own", corpus=Corpus(folder / "a.en"))
    heads = pd.read_parquet(tmp_path / "own" / "heads.parquet")
    assert heads["rare"].notna().tolist() == [True] * 2 + [False] * 2 + [True] * 2  # no counts of what is written


def test_examples_may_come_from_another_text_which_is_not_measured(folder: Path, tmp_path: Path) -> None:
    ours = "the dog and the cat sleeps.\nthe man and the cat and the bird eats.\n" * 4
    (tmp_path / "ours.en").write_text(ours, encoding="utf-8")
    made(folder, tmp_path / "out", examples=Corpus(tmp_path / "ours.en"))
    one, other = (pd.read_parquet(place / "heads.parquet") for place in (folder / "serial", tmp_path / "out"))
    pd.testing.assert_frame_equal(one.drop(columns="shown_by"), other.drop(columns="shown_by"))
    sources = set(pd.read_parquet(tmp_path / "out" / "examples.parquet")["source"])
    assert sources == {"the dog and the cat sleeps.", "the man and the cat and the bird eats."}


def test_broken_lines_are_counted_and_named_and_the_rest_is_measured(folder: Path, tmp_path: Path) -> None:
    good, other = ((folder / name).read_bytes().splitlines() for name in ("a.en", "a.de"))
    good[2], good[11], good[12], good[20] = b"\xff\xfe", b"", b"x" * 1_000_000, b"the dog " * 40
    (tmp_path / "a.en").write_bytes(b"\n".join(good))
    (tmp_path / "a.de").write_bytes(b"\r\n".join(other))
    about = made(folder, tmp_path / "out", corpus=Corpus(tmp_path / "a.en", tmp_path / "a.de"))
    assert about["counts"]["sentences"] == N_LINES - 4
    assert about["skipped"] == {
        "atlas_line_bytes": 1, "atlas_line_empty": 1, "atlas_line_long": 1, "atlas_line_tokens": 1,
    }  # fmt: skip
    assert [one["line"] for one in about["skipped_lines"]] == [3, 12, 13, 21]
    assert "not UTF-8" in about["skipped_lines"][0]["reason"]


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        (b"", b"", "holds nothing to read"),
        (b"the dog runs.\n" * 3, b"der Hund rennt.\n" * 2, "has 3 lines, .* has 2"),
        (b"the dog runs.\n", b"der Hund rennt.\n" * 4, "has 1 lines, .* has 4"),
        (b"\xff\n\xfe\n", b"a\nb\n", "none of the 2 lines"),
        ("狗在跑步。\n".encode() * 9, b"der Hund.\n" * 9, "unknown to the checkpoint"),
        (b"a" * 1_000_000, b"der Hund.", "none of the 1 lines"),
    ],
)
def test_a_bad_corpus_is_one_sentence(folder: Path, tmp_path: Path, source: bytes, target: bytes, says: str) -> None:
    (tmp_path / "b.en").write_bytes(source)
    (tmp_path / "b.de").write_bytes(target)
    with pytest.raises(InputError, match=says):
        made(folder, tmp_path / "out", corpus=Corpus(tmp_path / "b.en", tmp_path / "b.de"))
    assert not (tmp_path / "out").exists()
    for out in (tmp_path, tmp_path / "b.en"):
        with pytest.raises(AtlasError, match="new or empty folder"):
            made(folder, out)


def test_memory_holds_a_chunk_and_not_the_corpus(folder: Path, tmp_path: Path) -> None:
    """Chunks are asked for one at a time, and a long line is not held whole."""
    corpus = Corpus(folder / "a.en", folder / "a.de")
    taken = corpus.chunks(A_CHUNK)
    assert [len(next(taken).lines) for _ in range(2)] == [A_CHUNK, A_CHUNK]
    (tmp_path / "long").write_bytes(b"x" * 5_000_000 + b"\nshort\n")
    longest, short = (line for line, _ in Corpus(tmp_path / "long").lines())
    assert (len(longest), short) == (10_001, b"short")

"""`atlas` on the command line: a folder of tables, and one sentence for what cannot be."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.toy import sentences, write_checkpoint
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.explain.attribution.gold import gold_alignments
from transformer.runs.measures.alignment_error import alignment_errors

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("atlas")
    torch.manual_seed(0)
    write_checkpoint(place / "toy")
    both = sentences(11, seed=3)
    for name, side in (("a.en", 0), ("a.de", 1)):
        (place / name).write_text("".join(pair[side] + "\n" for pair in both), encoding="utf-8")
    return place


def test_an_atlas_of_a_text_with_its_references(folder: Path, capsys) -> None:
    texts = ["--source", folder / "a.en", "--target", folder / "a.de"]
    assert main([str(part) for part in ("atlas", folder / "toy", *texts, "--out", folder / "out", "--quiet")]) == 0
    out, err = capsys.readouterr()
    assert "10 sentences" in out
    assert "note: left out: 1; the first is line 8: the line has 33 tokens" in err
    assert "surprise the checkpoint" in err  # its weights are random
    assert {path.name for path in (folder / "out").iterdir()} == {
        "heads.parquet", "words.parquet", "pairs.parquet", "examples.parquet", "run.json", "parts",
    }  # fmt: skip
    about = json.loads((folder / "out" / "run.json").read_text())
    assert about["checkpoint"] == "toy"
    assert str(folder) not in (folder / "out" / "run.json").read_text()


def test_lines_that_are_left_out_are_told(folder: Path, capsys, tmp_path: Path) -> None:
    (tmp_path / "b.en").write_bytes(b"the dog runs.\n\xff\n\nthe cat sleeps.\n")
    assert (
        main([str(p) for p in ("atlas", folder / "toy", "--source", tmp_path / "b.en", "--out", tmp_path / "out")]) == 0
    )
    assert "note: left out: 2; the first is line 2: the line is not UTF-8" in capsys.readouterr().err


def test_an_atlas_of_fasta_counts_sequences(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checkpoint = ROOT / "checkpoints" / "core-promoters"
    for count, noun in ((1, "1 sequence\n"), (3, "3 sequences\n")):
        fasta = "".join(f">{i}\n{'ACGTTGA' * 10}\n" for i in range(count))
        (tmp_path / "a.fa").write_text(fasta, encoding="utf-8")
        out = str(tmp_path / str(count))
        sequences = str(tmp_path / "a.fa")
        assert main(["atlas", str(checkpoint), "--sequences", sequences, "--out", out, "--quiet"]) == 0
        assert capsys.readouterr().out == f"{out}: {noun}"


def test_with_links_each_head_of_cross_attention_has_its_alignment_errors(folder: Path, tmp_path: Path, capsys) -> None:
    """They are those of the command `alignment`; broken links are told before the corpus is run."""
    links = tmp_path / "links"
    links.mkdir()
    pairs = ("the dog runs.", "der Hund läuft.", "0-0 1-1 2?2 3-3"), ("the cat eats.", "der Katze isst.", "0-1 3-3")
    for name, column in (("sentences.en", 0), ("sentences.de", 1), ("links.txt", 2)):
        (links / name).write_text("".join(pair[column] + "\n" for pair in pairs), encoding="utf-8")
    command = ["atlas", str(folder / "toy"), "--source", str(folder / "a.en"), "--quiet", "--links", str(links)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    heads = pd.read_parquet(tmp_path / "out" / "heads.parquet")
    cross = heads["group"] == "decoder.cross"
    known = alignment_errors(load(folder / "toy"), gold_alignments(links), only={"weights"})
    for row in ("written", "read"):
        rates = [known[f"weights.0.{head}"][row].error_rate for head in (0, 1)]
        assert heads.loc[cross, f"error_{row}"].tolist() == rates
        assert heads.loc[~cross, f"error_{row}"].isna().all()
    assert known["weights.0.0"] != known["weights.0.1"]
    assert main([*command[:-2], "--out", str(tmp_path / "out")]) == 2
    assert "(links_sha256 differ)" in capsys.readouterr().err
    (links / "links.txt").write_text("0-0\n\n")
    assert main([*command, "--out", str(tmp_path / "other")]) == 2
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("toy", "--source", "none.en"), "cannot be read"),
        (("toy", "--sequences", "a.en"), "reads text: give it by --source"),
        (("nothing", "--source", "a.en"), "nothing"),
        (("toy@000050", "--source", "a.en"), "000050"),
    ],
)
def test_what_cannot_be_is_one_sentence(folder: Path, tmp_path: Path, capsys, arguments, says: str) -> None:
    name, option, file = arguments
    parts = ("atlas", folder / name, option, folder / file, "--out", tmp_path / "out")
    assert main([str(part) for part in parts]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert says in err
    assert err.count("\n") == 1

"""`atlas`, `measure alignment`, `inspect` and `convert` on the command line; one sentence for what cannot be."""

import errno
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests import toy
from tests.checkpoint.references import REFERENCE, model, reference_file
from tests.toy import sentences, write_checkpoint
from transformer import __main__ as command_line
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.errors import CheckpointError
from transformer.explain.attribution.gold import gold_alignments
from transformer.runs.measures.alignment_error import AlignmentErrors, alignment_errors, shipped
from transformer.runs.translate import translate

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


PAIRS = (
    ("the dog runs.", "der Hund läuft.", "0-0 1-1 2-2 3-3"),
    ("the cat eats.", "der Katze isst.", "0-0 1-1 2?2 3-3"),
)


def test_counts_are_of_the_largest_weight_of_each_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    folder, links = toy.write_checkpoint(tmp_path / "toy"), tmp_path / "links"
    links.mkdir()
    for name, column in (("sentences.en", 0), ("sentences.de", 1), ("links.txt", 2)):
        (links / name).write_text("".join(pair[column] + "\n" for pair in PAIRS), encoding="utf-8")
    out = tmp_path / "alignment_error.json"
    command = ["measure", "alignment", str(folder), "--links", str(links), "--out", str(out), "--quiet"]
    assert command_line.main(command) == 0
    whole = json.loads(out.read_text(encoding="utf-8"))
    assert whole["sentences"] == 2
    counts = whole["methods"]["weights.0.1"]
    found = sure = good = 0
    checkpoint = load(folder)
    for source, target, _ in PAIRS:
        picture = translate(checkpoint, source, forced=target).record["decoder.0.cross"].picture(1, words=True)
        assert picture.queries.texts[:3] == tuple(target[:-1].split())
        for row, weights in enumerate(picture.values[:-1]):
            best = int(np.argmax(weights))
            found += best < 4
            good += best == row and not (source.startswith("the cat") and row == 2)
    sure = 7
    assert counts["written"] == {
        "found": found, "sure": sure, "possible": 8, "found_sure": good,
        "found_possible": counts["written"]["found_possible"],
    }  # fmt: skip
    assert shipped(checkpoint) is None
    (folder / "alignment_error.json").write_text(out.read_text(encoding="utf-8"), encoding="utf-8")
    every = alignment_errors(checkpoint, gold_alignments(links))
    assert shipped(checkpoint) == AlignmentErrors(2, every)
    heads = {name: counts for name, counts in every.items() if name.split(".")[0] == "weights"}
    assert alignment_errors(checkpoint, gold_alignments(links), only={"weights"}) == heads
    (folder / "alignment_error.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="what `measure alignment` writes"):
        shipped(checkpoint)
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == set(whole["methods"])
    assert {"norms", "norms.0", "norms.0.1", "contributions.0", "rollout", "deletion"} <= set(whole["methods"])


def _run(*arguments: object) -> int:
    return command_line.main([str(argument) for argument in arguments])


def test_inspect_says_what_a_file_is_what_is_asked_and_what_it_holds(capsys):
    assert _run("inspect", reference_file("annotated"), "--answer", "n_heads=3") == 0
    out = capsys.readouterr().out
    assert "is The Annotated Transformer (100% of the names and shapes match)" in out
    assert "n_heads: How many attention heads does each layer have? One of 1, 2, 3, 4, 6, 8, 12, 24." in out
    assert "n_heads=8 is assumed" not in out
    assert "linears" in out


def test_inspect_of_a_file_that_fits_nothing_ends_with_1(tmp_path, capsys):
    torch.save({"conv.weight": torch.ones(2, 3)}, tmp_path / "net.pt")
    assert _run("inspect", tmp_path / "net.pt") == 1
    assert "no known layout" in capsys.readouterr().out


def test_inspect_of_a_refused_file_is_one_sentence(tmp_path, capsys):
    torch.save(torch.nn.Linear(2, 3), tmp_path / "net.pt")
    assert _run("inspect", tmp_path / "net.pt") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: net.pt is refused: it asks to import 'torch.nn.modules.linear.Linear'")
    assert captured.err.count("\n") == 1


def test_convert_writes_a_folder_that_needs_no_answers(tmp_path, capsys):
    options = (
        "--answer",
        "n_heads=4",
        "--answer",
        "activation=gelu",
        "--answer",
        "norm_first=true",
        "--answer",
        "scale_embedding=true",
    )
    assert _run("convert", reference_file("torch-prenorm"), tmp_path / "out", *options) == 0
    captured = capsys.readouterr()
    assert "note: positions='sinusoidal' is assumed" in captured.err
    config = model(tmp_path / "out").config
    assert (config.n_heads, config.activation, config.norm_first) == (4, "gelu", True)
    assert _run("inspect", tmp_path / "out") == 0
    assert "model.safetensors" in capsys.readouterr().out
    assert _run("convert", REFERENCE / "rnn-tutorial-1", tmp_path / "out") == 2


@pytest.mark.parametrize("answer", ["n_heads", "=3", "n_heads="])
def test_an_answer_needs_a_name_and_a_value(answer, capsys):
    with pytest.raises(SystemExit):
        _run("inspect", reference_file("annotated"), "--answer", answer)
    assert "is no NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "eps"), [("1e-6", 1e-6), (".5E-3", 0.0005)])
def test_an_answer_may_be_a_real_number(text, eps, tmp_path):
    options = ("--answer", "n_heads=3", "--answer", f"norm_eps={text}")
    assert _run("convert", reference_file("annotated"), tmp_path / "out", *options) == 0
    assert model(tmp_path / "out").config.norm_eps == eps


@pytest.mark.parametrize("text", ["1e", "nan", "1_0.5", "\u0663.\u0665", "1e9999"])
def test_what_only_looks_like_a_number_stays_a_word(text, capsys):
    assert _run("inspect", reference_file("annotated"), "--answer", f"norm_eps={text}") == 2
    assert f"norm_eps={text!r} does not fit" in capsys.readouterr().err


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_cannot_be_written_whole_is_not_left_half(was_there, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    if was_there:
        out.mkdir()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    with monkeypatch.context() as patched:
        patched.setattr("transformer.checkpoint.ours.folder.save_file", full)
        assert _run("convert", reference_file("kmer"), out, "--answer", "n_heads=4") == 2
    assert "No space left" in capsys.readouterr().err
    assert out.exists() == was_there
    assert not was_there or not list(out.iterdir())
    assert _run("convert", reference_file("kmer"), out, "--answer", "n_heads=4") == 0

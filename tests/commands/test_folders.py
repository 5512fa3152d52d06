"""`atlas`, `measure faithfulness`, `inspect` and `convert` on the command line; one sentence for what cannot be."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from heedmap.checkpoint import load
from heedmap.explain.attribution.deletion import written_words
from heedmap.runs.attribution import trusted
from heedmap.runs.measures import faithfulness
from heedmap.runs.translate import translate
from tests import toy
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.references import REFERENCE, model, reference_file
from tests.commands.conftest import Run

ROOT = Path(__file__).parents[2]
ANNOTATED = reference_file("annotated")


def test_an_atlas_of_a_text_with_its_references(run: Run, folder: Path, tmp_path: Path) -> None:
    texts = ["--source", folder.parent / "a.en", "--target", folder.parent / "a.de"]
    done = run("atlas", folder, *texts, "--out", tmp_path / "out", "--quiet")
    assert done.status == 0
    assert b"10 sentences" in done.out
    assert "note: left out: 1; the first is line 8: the line has 33 tokens" in done.err
    assert "surprise the checkpoint" in done.err  # its weights are random
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "heads.parquet", "words.parquet", "pairs.parquet", "examples.parquet", "run.json",
    }  # fmt: skip
    about = (tmp_path / "out" / "run.json").read_text()
    assert json.loads(about)["checkpoint"] == "toy"
    assert str(tmp_path) not in about
    assert str(folder) not in about
    again = run("atlas", folder, *texts, "--out", tmp_path / "out", "--quiet")
    assert (again.status, "holds files" in again.err) == (2, True)


def test_an_atlas_of_fasta_counts_sequences(run: Run, tmp_path: Path) -> None:
    for count, noun in ((1, "1 sequence\n"), (3, "3 sequences\n")):
        fasta, out = tmp_path / "a.fa", tmp_path / str(count)
        fasta.write_text("".join(f">{i}\n{'ACGTTGA' * 10}\n" for i in range(count)), encoding="utf-8")
        checkpoint = ROOT / "checkpoints" / "core-promoters"
        done = run("atlas", checkpoint, "--sequences", fasta, "--out", out, "--quiet")
        assert done.out.decode() == f"{out}: {noun}"


def test_inspect_says_what_a_file_is_what_is_asked_and_what_it_holds(run: Run, tmp_path: Path) -> None:
    done = run("inspect", ANNOTATED, "--answer", "n_heads=3")
    out = done.out.decode()
    assert done.status == 0
    assert "is The Annotated Transformer (100% of the names and shapes match)" in out
    assert "n_heads: How many attention heads does each layer have? One of 1, 2, 3, 4, 6, 8, 12, 24." in out
    assert "n_heads=8 is assumed" not in out
    assert "linears" in out
    torch.save({"conv.weight": torch.ones(2, 3)}, tmp_path / "net.pt")
    done = run("inspect", tmp_path / "net.pt")
    assert (done.status, b"no known layout" in done.out) == (1, True)
    torch.save(torch.nn.Linear(2, 3), tmp_path / "net.pt")
    done = run("inspect", tmp_path / "net.pt")
    assert done.status == 2
    assert done.err.startswith("error: net.pt is refused: it asks to import 'torch.nn.modules.linear.Linear'")
    assert done.err.count("\n") == 1


def test_convert_writes_a_folder_that_needs_no_answers(run: Run, tmp_path: Path) -> None:
    answers = ("n_heads=4", "activation=gelu", "norm_first=true", "scale_embedding=true")
    options = [part for answer in answers for part in ("--answer", answer)]
    done = run("convert", reference_file("torch-prenorm"), tmp_path / "out", *options)
    assert (done.status, "note: positions='sinusoidal' is assumed" in done.err) == (0, True)
    config = model(tmp_path / "out").config
    assert (config.block.attention.n_heads, config.block.activation, config.block.norm_first) == (4, "gelu", True)
    assert b"model.safetensors" in run("inspect", tmp_path / "out").out
    assert run("convert", REFERENCE / "rnn-tutorial-1", tmp_path / "out").status == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *((("inspect", ANNOTATED, "--answer", answer), "is no NAME=VALUE") for answer in ("n_heads", "=3", "n_heads=")),
        (("inspect", "/"), "'/' has no name: give a file or a folder below it"),
    ],
)
def test_an_answer_needs_a_name_and_a_value_and_a_path_a_name(run: Run, arguments, says, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(*arguments)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "eps"),
    [("1e-6", 1e-6), (".5E-3", 0.0005), *((one, None) for one in ("1e", "nan", "1_0.5", "\u0663.\u0665", "1e9999"))],
)
def test_an_answer_may_be_a_real_number_and_what_only_looks_like_one_stays_a_word(
    run: Run, text, eps, tmp_path
) -> None:
    done = run("convert", ANNOTATED, tmp_path / "out", "--answer", "n_heads=3", "--answer", f"norm_eps={text}")
    if eps is None:
        assert (done.status, f"norm_eps={text!r} does not fit" in done.err) == (2, True)
    else:
        assert model(tmp_path / "out").config.block.norm_eps == eps


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_cannot_be_written_whole_is_not_left_half(run: Run, was_there, tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    if was_there:
        out.mkdir()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    with monkeypatch.context() as patched:
        patched.setattr("heedmap.checkpoint.ours.folder.save_file", full)
        done = run("convert", reference_file("kmer"), out, "--answer", "n_heads=4")
    assert (done.status, "No space left" in done.err) == (2, True)
    assert out.exists() == was_there
    assert not was_there or not list(out.iterdir())
    assert run("convert", reference_file("kmer"), out, "--answer", "n_heads=4").status == 0


def test_a_hugging_face_folder_is_named_and_there_is_nothing_to_convert(run: Run, tmp_path: Path) -> None:
    found = write_folder(tmp_path / "marian", "marian")
    out = run("inspect", found).out.decode()
    assert "marian is a Hugging Face folder: marian, encoder-decoder (100% of the names and shapes match)" in out
    assert "q_proj" in out
    done = run("convert", found, tmp_path / "out")
    assert (done.status, "marian is a Hugging Face folder, which is read as it is" in done.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_a_sentence() -> None:
    line = f"{sys.executable} -m heedmap inspect {ANNOTATED} > /dev/full"
    found = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert "error: the output: No space left on device" in found.stderr
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr
    assert found.returncode == 2


@pytest.mark.parametrize("path", [".", "./", "sub/.."])
def test_a_folder_without_a_name_of_its_own_is_named(run: Run, path: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "holder" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "holder")
    done = run("inspect", path)
    assert done.status == 2
    assert done.err.startswith("error: holder holds no single file of weights")


LINES = ("the dog runs.", "", "the man and the cat sleeps.", "the bird eats.")


def test_the_summary_is_the_mean_over_written_words_and_lies_beside_the_weights(run: Run, folder, tmp_path) -> None:
    targets = ("der Hund läuft.", "leer", "der Mann und die Katze schläft.", "der Vogel isst.")
    toy.write_sides(tmp_path, zip(LINES, targets, strict=True), "text.en", "text.de")
    checkpoint, out = load(folder), folder / faithfulness.FILE.name
    assert faithfulness.shipped(checkpoint) is None
    files = ("--source", tmp_path / "text.en", "--target", tmp_path / "text.de")
    said = run("measure", "faithfulness", folder, "--quiet", *files)
    kept = list[np.ndarray]()
    for line, forced in zip(LINES, targets, strict=True):
        if line:
            translation = translate(checkpoint, line, forced=forced)
            words = written_words(translation.scored_sequence(checkpoint))
            kept += [*trusted(checkpoint, translation, words)["rollout"].comprehensiveness]
    whole = faithfulness.shipped(checkpoint)
    out.unlink()
    assert (whole.own_target, whole.data, whole.sentences, whole.words) == (False, "text.en", 3, len(kept))
    np.testing.assert_allclose(whole.fares["rollout"].comprehensiveness, np.mean(kept, 0), atol=1e-4)
    assert (whole.reference, whole.fares["deletion"].share) == ("deletion", 1.0)
    run("measure", "faithfulness", folder, "--quiet", *files, "--every", "3", "--name", "a", "toy")
    some = faithfulness.shipped(checkpoint)
    out.unlink()
    assert (some.data, some.words, {*some.fares}) == ("a toy", len(kept[::3]), {*whole.fares})
    np.testing.assert_allclose(some.fares["rollout"].comprehensiveness, np.mean(kept[::3], 0), atol=1e-4)
    assert whole.fares["norms"].area == pytest.approx(np.mean(whole.fares["norms"].comprehensiveness), abs=1e-4)
    assert np.isnan(whole.fares["random"].spearman)
    assert "1 of 4 lines could not be run" in said.err
    assert said.out.decode() == f"{out}\n"

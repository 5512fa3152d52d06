"""The command line: a line out for each line in, one sentence for each mistake, and training end to end."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
import torch

from tests import toy
from tests.record_files.samples import Samples
from transformer import __main__ as command_line
from transformer.__main__ import main
from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import load_snapshot
from transformer.commands import train
from transformer.commands.translation import notes
from transformer.nn.recurrent import Recurrent
from transformer.nn.search import DecodingOptions
from transformer.runs.corpus import TranslatedLine, translate_lines
from transformer.training.options import TranslationOptions
from transformer.training.run import Run as Training
from transformer.training.translation import Translation

ROOT = Path(__file__).resolve().parents[2]


class Outcome(SimpleNamespace):
    """Exit status, stdout in bytes, stderr as text."""

    status: int
    out: bytes
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def runner(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
        stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdout", stdout)
        status = command_line.main([str(argument) for argument in arguments])
        return Outcome(status=status, out=stdout.buffer.getvalue(), err=capsys.readouterr().err)

    return runner


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return toy.write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "toy")


def test_translate_gives_one_line_for_each_line(run: Run, folder: Path) -> None:
    lines = [
        "the dog runs.",
        "",
        "  \t ",
        "the bird and the cat sleeps.",
        "a\u2028b\x0bc",
        "the dog runs.",
        "\u00fc \U0001f600",
    ]
    done = run("translate", folder, "--max-length", "20", stdin="\r\n".join(lines).encode())
    assert done.status == 0
    model, words, _ = load(folder).translator()
    expected = [line.text for line in translate_lines(model, words, lines, DecodingOptions(max_length=20))]
    assert done.out.decode() == "".join(text + "\n" for text in expected)
    assert done.out.count(b"\n") == len(lines)
    assert expected[1] == expected[2] == ""
    assert "7/7" in done.err


@pytest.mark.parametrize(("stdin", "lines"), [(b"", 0), (b"\n", 1), (b"the dog", 1), (b"\n\n\n", 3)])
def test_translate_counts_lines_as_wc_does(run: Run, folder: Path, stdin: bytes, lines: int) -> None:
    done = run("translate", folder, "--quiet", "--beam", "1", "--max-length", "5", stdin=stdin)
    assert (done.status, done.out.count(b"\n")) == (0, lines)
    assert "0%" not in done.err


def test_a_translation_never_holds_a_line_feed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.text.text.TextTokenizer.decode", lambda self, ids: "two\nlines")
    assert run("translate", folder, "--quiet", "--max-length", "3", stdin=b"the dog").out == b"two lines\n"


def test_options_reach_the_decoder(run: Run, folder: Path) -> None:
    seen = {}
    for beam, penalty in ((1, 1.0), (4, 0.0), (4, 4.0)):
        options = ("--beam", str(beam), "--length-penalty", str(penalty), "--max-length", "9", "--threads", "1")
        seen[beam, penalty] = run("translate", folder, *options, "--quiet", stdin=b"the dog runs.\n").out
        model, words, _ = load(folder).translator()
        expected = translate_lines(model, words, ["the dog runs."], DecodingOptions(beam, penalty, 9))
        assert seen[beam, penalty].decode() == expected[0].text + "\n"


def test_notes_name_the_lines_that_were_cut(run: Run, folder: Path) -> None:
    done = run("translate", folder, "--quiet", "--beam", "1", "--max-length", "1", stdin=b"\nthe dog\n\n\nthe cat")
    assert done.err == "note: lines 2, 5 are cut at 1 tokens: raise --max-length, or split such lines\n"
    assert notes([TranslatedLine(unread=4)], 100) == [
        "line 1 is longer than the checkpoint reads: the rest was left out, split such lines"
    ]
    (cut,) = notes([TranslatedLine(finished=False, tokens=100)] * 7, 100)
    assert cut == "lines 1, 2, 3, 4, 5 and 2 more are cut at 100 tokens: raise --max-length, or split such lines"
    (short,) = notes([TranslatedLine(finished=False, tokens=10)], 100)  # what the checkpoint's positions end at
    assert short == "line 1 is cut at 10 tokens: the checkpoint writes no more, split such lines"
    assert notes([TranslatedLine()], 100) == []


def test_evaluate_scores_as_sacrebleu_does(run: Run, folder: Path, tmp_path: Path) -> None:
    both = toy.sentences(9, seed=2)
    source, reference = tmp_path / "text.en", tmp_path / "text.de"
    source.write_text("".join(s + "\n" for s, _ in both), encoding="utf-8")
    reference.write_text("".join(t + "\n" for _, t in both), encoding="utf-8")
    options = ("--beam", "2", "--max-length", "12", "--quiet")
    done = run("evaluate", folder, "--source", source, "--reference", reference, "--json", *options)
    assert done.status == 0
    found = json.loads(done.out)
    translated = run("translate", folder, *options, stdin=source.read_bytes()).out.decode().splitlines()
    expected = sacrebleu.corpus_bleu(translated, [[t for _, t in both]]).score
    assert found["bleu"] == pytest.approx(expected)
    assert "tok:13a" in found["signature"]
    assert (found["beam"], found["length_penalty"], found["max_length"], found["sentences"]) == (2, 1.0, 12, 9)
    line = run("evaluate", folder, "--source", source, "--reference", reference, *options).out.decode()
    assert line.startswith(f"BLEU {expected:.2f} (9 sentences, ")
    assert found["signature"] in line


def test_mistakes_end_with_one_sentence_and_status_2(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "none").write_text("")
    for arguments, stdin, message in (
        (("translate", tmp_path / "missing"), b"", "missing"),
        (("translate", folder, "--beam", "0"), b"", "beam=0 is out of range: choose 1"),
        (("translate", folder, "--max-length", "0"), b"", "max_length=0 is out of range"),
        (("translate", folder, "--threads", "0"), b"", "threads=0 is too few: choose at least 1"),
        (("translate", folder), b"gut\nGr\xfc\xdfe\n", "line 2 of the input is not UTF-8 (byte 0xfc)"),
        (("evaluate", folder, "--source", tmp_path / "two", "--reference", tmp_path / "one"), b"", "has 2 lines and"),
        (("evaluate", folder, "--source", tmp_path / "none", "--reference", tmp_path / "none"), b"", "is empty"),
        (("evaluate", folder, "--source", tmp_path / "no", "--reference", tmp_path / "one"), b"", "cannot be read"),
        (("train", "translation", "--data", tmp_path, "--out", tmp_path / "x", "--work", tmp_path / "w"), b"",
         "train.en cannot be read"),
        (("train", "translation", "--data", tmp_path, "--out", tmp_path / "x", "--dropout", "1"), b"",
         "dropout=1.0 makes no run"),
    ):  # fmt: skip
        done = run(*arguments, stdin=stdin)
        assert done.status == 2, arguments
        assert done.err.startswith("error: "), arguments
        assert message in done.err
        assert done.err.count("\n") == 1
        assert done.out == b""


def test_a_wrong_argument_ends_with_status_2(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("fly",), ("translate",), ("train", "translation")):
        with pytest.raises(SystemExit) as ended:
            run(*arguments)
        assert ended.value.code == 2
    assert "usage: python -m transformer" in capsys.readouterr().err


def test_an_interrupt_is_quiet(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("transformer.runs.corpus.decode", interrupted)
    done = run("translate", folder, "--quiet", stdin=b"the dog")
    assert (done.status, done.out, done.err) == (130, b"", "")


def test_a_reader_that_goes_away_is_no_mistake(folder: Path) -> None:
    """As in `... | head -1`."""
    command = [sys.executable, "-m", "transformer", "translate", str(folder), "--quiet", "--max-length", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(b"the dog\n" * 3, timeout=120)
    assert process.returncode == 141
    assert errors == b""


def test_train_writes_a_checkpoint_that_says_how_it_was_made(run: Run, tmp_path: Path) -> None:
    data = toy.write_corpus(tmp_path / "toy")
    out, work = tmp_path / "checkpoints" / "tiny", tmp_path / "run"
    wanted = toy.training_options(data, work, updates=110, save_every=20, validate_every=40, subword_dropout=0.05)
    arguments = [part for name, value in wanted.changed().items() for part in (train._flag(name), str(value))]
    base = ("train", "translation", "--data", data, "--out", out, "--work", work, *arguments)

    stopped = run(*base, "--stop-after", "70")
    assert stopped.status == 0
    assert "stopped after update 70 of 110: the same command goes on" in stopped.err
    assert not out.exists()

    done = run(*base)
    assert done.status == 0
    checkpoint = load(out)
    assert checkpoint.languages == ("English", "German")
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.model", "examples.json", "CARD.md", "history",
    }  # fmt: skip
    assert all(not parameter.isnan().any() for parameter in checkpoint.model.parameters())

    index = json.loads((out / "history" / "index.json").read_text())
    assert [(entry["update"], entry["file"]) for entry in index] == [
        (50, "000050.safetensors"),
        (100, "000100.safetensors"),
    ]
    assert all(set(entry) == {"file", "update", "epoch", "seconds", "bleu_greedy", "loss"} for entry in index)
    assert index[0]["loss"] > index[1]["loss"]
    early = load_snapshot(checkpoint, out / "history" / "000050.safetensors")
    pairs = zip(early.model.parameters(), checkpoint.model.parameters(), strict=True)
    assert not any(torch.equal(before, after) for before, after in pairs)

    card = (out / "CARD.md").read_text(encoding="utf-8")
    assert "61 training pairs and 7 validation pairs (en to de)" in card
    assert "updates 80, 100, 110, in half precision" in card
    assert "--subword-dropout 0.05" in card
    assert str(tmp_path) not in card
    assert "tok:13a" in card
    for beam, penalty in ((1, 1.0), (5, 1.0), (5, 0.0)):
        options = ("--beam", str(beam), "--length-penalty", str(penalty), "--json", "--quiet")
        scored = run("evaluate", out, "--source", data / "val.en", "--reference", data / "val.de", *options)
        name = "greedy" if beam == 1 else f"beam {beam}, length penalty {penalty:g}"
        assert f"| {name} | {json.loads(scored.out)['bleu']:.2f} |" in card


def test_train_goes_on_from_a_checkpoint(run: Run, tmp_path: Path) -> None:
    """Before its first update the second run is the first one; its checkpoint keeps that one's history and card."""
    data, first, second = toy.write_corpus(tmp_path / "toy"), tmp_path / "first", tmp_path / "second"
    sizes = toy.training_options(data, tmp_path / "run", updates=51, save_every=20, validate_every=40)
    arguments = [part for name, value in sizes.changed().items() for part in (train._flag(name), str(value))]
    base = ("train", "translation", "--data", data, *arguments)
    assert run(*base, "--out", first, "--work", tmp_path / "run").status == 0

    onward = (*base, "--start", first, "--out", second, "--work", tmp_path / "more", "--seed", "2", "--updates", "3")
    begun = Training(replace(sizes, start=first, work=tmp_path / "look", seed=2), Translation).task.model
    pairs = zip(begun.parameters(), load(first).model.parameters(), strict=True)
    assert all(torch.equal(here, there) for here, there in pairs)
    assert run(*onward, "--stop-after", "1").status == 0
    assert run(*onward).status == 0

    assert (second / "tokenizer.model").read_bytes() == (first / "tokenizer.model").read_bytes()
    names = sorted(path.name for path in (second / "history").iterdir())
    assert names == ["000050.safetensors", "index.json"]
    assert all((second / "history" / name).read_bytes() == (first / "history" / name).read_bytes() for name in names)
    card = (second / "CARD.md").read_text(encoding="utf-8")
    told = (first / "CARD.md").read_text(encoding="utf-8")
    assert "--start path/to/first" in card
    assert "The tokenizer is that of `first`;" in card
    assert "## The training that this one went on from\n\n### How it was made" in card
    assert told.partition("## Curve\n")[2].partition("\n## ")[0].strip() in card

    (first / "CARD.md").unlink()
    refused = run(*base, "--start", first, "--out", tmp_path / "third", "--work", tmp_path / "third-run")
    assert refused.status == 2
    assert "first has no readable CARD.md" in refused.err


def test_train_makes_recurrent_checkpoints(run: Run, tmp_path: Path) -> None:
    attention = "additive"  # the other one is trained in tests/training
    data, taken, out = toy.write_corpus(tmp_path / "toy"), tmp_path / "other", tmp_path / "tiny"
    toy.write_checkpoint(taken)
    sizes = toy.training_options(data, tmp_path, updates=4, d_embedding=5, max_tokens=28)
    arguments = [part for name, value in sizes.changed().items() for part in (train._flag(name), str(value))]
    options = ("--architecture", f"rnn-{attention}", "--tokenizer", taken / "tokenizer.model", "--no-history")
    assert run("train", "translation", "--data", data, "--out", out, "--work", tmp_path / "run", *arguments,
               *options, "--fast-products").status == 0  # fmt: skip
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.model", "examples.json", "CARD.md",
    }  # fmt: skip
    assert (out / "tokenizer.model").read_bytes() == (taken / "tokenizer.model").read_bytes()
    checkpoint = load(out)
    assert isinstance(checkpoint.model, Recurrent)
    assert checkpoint.model.config.attention == attention
    card = (out / "CARD.md").read_text(encoding="utf-8")
    assert f"A recurrent encoder-decoder with {attention} attention" in card
    assert f"{checkpoint.n_parameters:,} parameters" in card
    assert "The tokenizer is that of `other`;" in card
    assert "--tokenizer checkpoints/other/tokenizer.model" in card
    assert "--no-history" in card
    assert "--fast-products" in card
    assert "`history/`" not in card
    scored = run("evaluate", out, "--source", data / "val.en", "--reference", data / "val.de", "--json", "--quiet")
    assert f"| beam 5, length penalty 1 | {json.loads(scored.out)['bleu']:.2f} |" in card


def test_the_command_on_the_card_is_the_command_that_was_given(tmp_path: Path) -> None:
    options = toy.training_options(tmp_path / "corpus", tmp_path, seed=3, history=False, fast_products=True)
    words = train.command("translation", options, Path("anywhere/tiny")).replace("\\\n", " ").split()
    assert words[:3] == ["python", "-m", "transformer"]
    parsed = command_line.parser().parse_args(words[3:])
    assert parsed.out == Path("checkpoints/tiny")
    assert parsed.data.name == "corpus"
    for name, value in options.deciding().items():
        assert getattr(parsed, name) == value


def test_every_training_option_has_a_flag_with_its_default(tmp_path: Path) -> None:
    parsed = command_line.parser().parse_args(["train", "translation", "--data", "d", "--out", "o"])
    usual = TranslationOptions(data=tmp_path, work=tmp_path)
    for name, value in usual.deciding().items():
        assert getattr(parsed, name) == value


def test_every_head_of_a_record_file_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = replace(Samples(2, torch.float64).record(), text="a \x1b[2Jb")
    path = tmp_path / "run.heedmap"
    record.save(path)
    assert main(["record", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["model: a model 猫", "text: a \\x1b[2Jb"]
    assert sum(line.split()[:1] == ["encoder.1.self"] for line in lines) == 6
    assert main(["record", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    table = record.measures()
    assert [(row["site"], row["head"]) for row in rows] == list(zip(table["site"], table["head"], strict=True))
    assert rows[3]["entropy"] == pytest.approx(table["entropy"][3], abs=1e-9)


def test_a_file_that_is_no_record_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.heedmap"
    path.write_bytes(b"nothing")
    assert main(["record", str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: x.heedmap is refused: it is no file that record.save wrote")

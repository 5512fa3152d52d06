"""The command line: a line out for each line in, and one sentence for each mistake."""

import gzip
import io
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
import torch

import heedmap
from heedmap import __main__ as command_line
from heedmap import distribution
from heedmap.checkpoint import load
from heedmap.commands import dashboard
from heedmap.commands.translation import notes
from heedmap.nn.search import DecodingOptions
from heedmap.runs.corpus import TranslatedLine, translate_lines
from tests import toy
from tests.checkpoint.references import reference_file
from tests.commands.conftest import Run
from tests.record_files.samples import Samples
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
CLASSIFIER, ANNOTATED = ROOT / "checkpoints" / "splice-junctions", reference_file("annotated")


def test_translate_gives_one_line_for_each_line(run: Run, folder: Path) -> None:
    lines = ["the dog runs.", "", "  \t ", "the bird and the cat sleeps.", "a\u2028b\x0bc", "\u00fc \U0001f600"]
    done = run("translate", folder, "--max-length", "20", stdin="\r\n".join(lines).encode())
    assert done.status == 0
    model, words, _ = load(folder).translator()
    expected = [line.text for line in translate_lines(model, words, lines, DecodingOptions(max_length=20))]
    assert done.out.decode() == "".join(text + "\n" for text in expected)
    assert done.out.count(b"\n") == len(lines)
    for stdin, count in ((b"", 0), (b"\n", 1), (b"the dog", 1)):
        assert run("translate", folder, "--quiet", "--beam", "1", stdin=stdin).out.count(b"\n") == count
    assert expected[1] == expected[2] == ""
    assert "6/6" in done.err


def test_a_translation_never_holds_a_line_feed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedmap.text.tokenizers.TextTokenizer.decode", lambda self, ids: "two\nlines")
    assert run("translate", folder, "--quiet", "--max-length", "3", stdin=b"the dog").out == b"two lines\n"


def test_options_reach_the_decoder(run: Run, folder: Path) -> None:
    model, words, _ = load(folder).translator()
    for beam, penalty in ((1, 1.0), (4, 0.0), (4, 4.0)):
        options = ("--beam", beam, "--length-penalty", penalty, "--max-length", "9", "--threads", "1")
        found = run("translate", folder, *options, "--quiet", stdin=b"the dog runs.\n").out
        expected = translate_lines(model, words, ["the dog runs."], DecodingOptions(beam, penalty, 9))
        assert found.decode() == expected[0].text + "\n"


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


def test_evaluate_says_what_is_missing_before_it_translates(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setattr("heedmap.commands.translation._translated", None)
    done = run("evaluate", folder, "--source", folder.parent / "a.en", "--reference", folder.parent / "a.de")
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith("error: this needs sacrebleu, which is not installed: run pip install sacrebleu")


def test_the_version_is_that_of_this_code_and_usage_says_how_it_was_called(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert heedmap.__version__ == version
    for called, said in (("/bin/heedmap", "heedmap"), ("transformer/__main__.py", "python -m heedmap")):
        monkeypatch.setattr(sys, "argv", [called])
        assert command_line.parser().format_usage().startswith(f"usage: {said} [-h]")
    with pytest.raises(SystemExit, match="0"):
        command_line.main(["--version"])
    assert capsys.readouterr().out == f"heedmap {version}\n"
    monkeypatch.setattr(distribution, "_LIBRARY", Path("/no/checkout/library"))
    monkeypatch.setattr("heedmap.distribution.metadata.version", {"heedmap": "1.2.3"}.__getitem__)
    assert distribution.version() == "1.2.3"


def test_a_server_is_started_for_what_is_there_alone_and_its_page_is_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever name it is called; no browser is opened where none is wanted."""
    started = list[list[str]]()

    def start(command: list[str], **_: object) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(poll=lambda: None, wait=lambda: 0, terminate=lambda: None)

    monkeypatch.setattr("heedmap.commands.dashboard.subprocess.Popen", start)
    monkeypatch.setattr("heedmap.commands.dashboard.signal.signal", lambda *_: None)
    monkeypatch.setattr(dashboard, "urlopen", lambda *_, **__: io.BytesIO())
    monkeypatch.setattr(dashboard, "Thread", lambda target, args, **_: SimpleNamespace(start=lambda: target(*args)))
    monkeypatch.setattr("heedmap.commands.dashboard.webbrowser.open", None)
    for name in ("s.txt", "make.py", "a run.heedmap"):
        (tmp_path / name).touch()
    for command, name in (("serve", "s.txt"), ("serve", "no.py:make"), ("open", "s.txt"), ("open", "no.heedmap")):
        done = run(command, tmp_path / name)
        assert (done.status, started, name.partition(":")[0] in done.err) == (2, [], True)
    monkeypatch.setenv("STREAMLIT_SERVER_PORT", "8777")
    places = {"a run.heedmap": "?model=mine/a+run.heedmap", "make.py:f": "?model=live", ".": ""}
    for name, place in places.items():
        done = run("serve" if ":" in name else "open", tmp_path / name, "--no-browser")
        assert (done.status, done.out.decode()) == (0, f"http://localhost:8777/your_model{place}\n")
        assert started.pop()[6:8] == ["--server.port", "8777"]


def test_evaluate_scores_as_sacrebleu_does(run: Run, folder: Path, tmp_path: Path) -> None:
    both, source, reference = toy.sentences(9, seed=2), tmp_path / "text.en", tmp_path / "text.de"
    toy.write_sides(tmp_path, both, source.name, reference.name)
    options = ("--beam", "2", "--max-length", "12", "--quiet")
    translated = run("translate", folder, *options, stdin=source.read_bytes()).out.decode().splitlines()
    expected = sacrebleu.corpus_bleu(translated, [[t for _, t in both]]).score
    done = run("evaluate", folder, "--source", source, "--reference", reference, *options)
    assert done.status == 0
    line = done.out.decode()
    assert line.startswith(f"BLEU {expected:.2f} (9 sentences, ")
    assert "tok:13a" in line


def test_mistakes_end_with_one_sentence_and_status_2(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "none").write_text("")
    (tmp_path / "blank").write_text("\n \n")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b">one\nACGT\n")[:-9])
    out = ("--out", tmp_path / "out")
    for arguments, stdin, message in (
        (("translate", tmp_path / "missing"), b"", "missing"),
        (("translate", folder, "--beam", "0"), b"", "beam=0 is out of range: choose 1"),
        (("translate", folder, "--max-length", "0"), b"", "max_length=0 is out of range"),
        (("translate", folder, "--threads", "0"), b"", "threads=0 is too few: choose at least 1"),
        (("translate", folder), b"gut\nGr\xfc\xdfe\n", "line 2 of the input is not UTF-8 (byte 0xfc)"),
        (("evaluate", folder, "--source", tmp_path / "two", "--reference", tmp_path / "one"), b"", "has 2 lines and"),
        (("evaluate", folder, "--source", tmp_path / "none", "--reference", tmp_path / "none"), b"", "is empty"),
        (("evaluate", folder, "--source", tmp_path / "no", "--reference", tmp_path / "one"), b"", "cannot be read"),
        (("inspect", tmp_path / "run.heedmap"), b"", "is a record: heedmap record FILE lists its heads"),
        (("check", folder, tmp_path / "one"), b"", "holds no expected arrays: give an .npz or .safetensors"),
        (("record", tmp_path / "one"), b"", "one is refused: it is no file that record.save wrote"),
        (("atlas", folder, "--source", tmp_path / "no", *out), b"", "cannot be read"),
        (("atlas", folder, "--sequences", tmp_path / "one", *out), b"", "reads text: give it by --source"),
        (("atlas", folder.with_name("nothing"), "--source", tmp_path / "one", *out), b"", "nothing"),
        (("atlas", folder.with_name("toy@000050"), "--source", tmp_path / "one", *out), b"", "000050"),
        (("measure", "faithfulness", folder, "--source", tmp_path / "blank", "--quiet"), b"", "none of 2 lines could"),
        (("measure", "faithfulness", folder, "--source", tmp_path / "one", "--every", "0"), b"", "--every 0 is"),
        (("classify", tmp_path, "-"), b"", "error: "),
        (("classify", CLASSIFIER, tmp_path / "no.fa"), b"", "cannot be read"),
        (("classify", CLASSIFIER, tmp_path / "broken.gz"), b"", "gzip file is broken"),
        (("scan", CLASSIFIER, "-", "--threshold", "1.5"), b"", "threshold=1.5: choose a probability above 0"),
        (("convert", ANNOTATED, "/proc/x", "--answer", "n_heads=3"), b"", "error: /proc/x"),
        (("convert", ANNOTATED, "/dev/null/x", "--answer", "n_heads=3"), b"", "error: /dev/null"),
    ):  # fmt: skip
        done = run(*arguments, stdin=stdin)
        assert done.status == 2, arguments
        assert done.err.startswith("error: "), arguments
        assert message in done.err
        assert done.err.count("\n") == 1
        assert done.out == b""


def test_an_interrupt_is_quiet(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("heedmap.runs.corpus.decode", interrupted)
    done = run("translate", folder, "--quiet", stdin=b"the dog")
    assert (done.status, done.out, done.err) == (130, b"", "")


def test_a_reader_that_goes_away_is_no_mistake(folder: Path) -> None:
    """As in `... | head -1`."""
    command = [sys.executable, "-m", "heedmap", "translate", str(folder), "--quiet", "--max-length", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(b"the dog\n" * 3, timeout=PATIENCE)
    assert process.returncode == 141
    assert errors == b""


def test_every_head_of_a_record_file_is_listed(run: Run, tmp_path: Path) -> None:
    record = replace(Samples(2, torch.float64).record(), text="a \x1b[2Jb")
    path = tmp_path / "run.heedmap"
    record.save(path)
    lines = run("record", path, encoding="utf-8").out.decode().splitlines()
    assert lines[:2] == ["model: a model 猫", "text: a \\x1b[2Jb"]
    assert sum(line.split()[:1] == ["encoder.1.self"] for line in lines) == 6
    table = record.measures()
    for line, (_, row) in zip(lines[-len(table) :], table.iterrows(), strict=True):
        assert line.split()[0] == row["site"]
        assert {str(row["head"]), f"{row['entropy']:.3f}"} <= set(line.split())

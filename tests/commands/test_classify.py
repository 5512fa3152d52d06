"""`classify` on the command line: a row for each record, whatever it holds."""

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.classifiers import sequence_checkpoint
from transformer import __main__ as command_line
from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import save_folder
from transformer.runs.sequences.classify import classify

FASTA = b">one EI\nACGTTGCANG\nTACC\n>two\nacguacgua\n>bad\nAC-GTAC\n>short\nACG\n"


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[list[str]], str]]:
    """Run a command line in this process: its status, the table it wrote, and what it said on stderr."""

    def runner(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, list[list[str]], str]:
        stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "stdout", stdout)
        status = command_line.main(["classify", *map(str, arguments)])
        lines = stdout.buffer.getvalue().decode("utf-8").splitlines()
        return status, [line.split("\t") for line in lines], capsys.readouterr().err

    return runner


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task)
    return tmp_path / "small"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_row_for_each_record(run, folder, tmp_path, pack):
    file = tmp_path / "some.fa"
    file.write_bytes(pack(FASTA))
    status, (head, one, two, bad, short), err = run(folder, file)
    assert status == 1
    assert head == ["id", "predicted", "EI", "IE", "N"]
    expected = classify(load(folder), "ACGTTGCANGTACC")
    assert one[:2] == ["one", expected.classes[expected.predicted]]
    assert [float(cell) for cell in one[2:]] == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert two[0] == "two"
    assert sum(float(cell) for cell in two[2:]) == pytest.approx(1, abs=1e-5)
    assert bad == ["bad", "", "", "", ""]
    assert short == ["short", "", "", "", ""]
    assert "note: bad: letter 3 is '-'" in err
    assert "note: short: the sequence has 3 letters" in err


def test_stdin_is_read_and_all_is_well(run, folder):
    status, rows, err = run(folder, "-", stdin=">ä\nACGTACGT\n".encode())
    assert (status, len(rows), rows[1][0]) == (0, 2, "ä")
    assert "note" not in err


@pytest.mark.parametrize(("file", "says"), [("missing.fa", "cannot be read"), ("broken.gz", "gzip file is broken")])
def test_a_file_that_cannot_be_read_is_one_sentence(run, folder, tmp_path, file, says):
    (tmp_path / "broken.gz").write_bytes(gzip.compress(FASTA)[:-9])
    status, _, err = run(folder, tmp_path / file)
    assert status == 2
    assert says in err


def test_a_checkpoint_that_does_not_classify_is_refused(run, tmp_path):
    status, rows, err = run(tmp_path, "-")
    assert (status, rows) == (2, [])
    assert err.startswith("error: ")

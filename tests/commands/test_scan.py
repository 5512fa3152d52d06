"""Sequences from the command line: windows are classified, and long ones scanned."""

import csv
import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from Bio import Align

from tests.classifiers import sequence_checkpoint
from transformer import __main__ as command_line
from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import save_folder
from transformer.runs.sequences import held_out
from transformer.runs.sequences.classify import classify
from transformer.sequences.alphabet import DNA

GENERATOR = np.random.default_rng(8)
TEXT = "".join(GENERATOR.choice(list("ACGT"), 47))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task)
    return tmp_path / "small"


def test_hits_and_tracks_of_every_record(folder, tmp_path, capsys) -> None:
    file, tracks = tmp_path / "some.fa", tmp_path / "tracks"
    file.write_text(f">one first\n{TEXT}\n>short\nACGT\n>odd\nAC!GT\n>two\n{TEXT.lower()}\n")
    arguments = ["scan", folder, file, "--threshold", 0.3]
    arguments += ["--tracks", tracks, "--all"]
    assert command_line.main(list(map(str, arguments))) == 1
    out, err = capsys.readouterr()
    assert "note: short: the sequence has 4 letters, and a window needs 23" in err
    assert "note: odd: letter 3 is '!'" in err
    checkpoint = load(folder)
    hits = [line.split("\t") for line in out.splitlines()]
    assert {cells[0] for cells in hits} == {"one", "two"}
    assert [cells[1:] for cells in hits if cells[0] == "one"] == [cells[1:] for cells in hits if cells[0] == "two"]
    for _, start, end, label, score, strand in hits:
        first = int(start) - {"EI+": 11, "EI-": 10}.get(label + strand, 0)  # where the window of a site begins
        part = TEXT[first : first + 23]
        assert int(end) - int(start) == (2 if label == "EI" else 23)
        run = classify(checkpoint, part if strand == "+" else DNA.reverse_complement(part))
        assert int(score) == int(1000 * run.probabilities[run.classes.index(label)]) >= 300
    lines = (tracks / "EI-other-strand.bedgraph").read_text().splitlines()
    assert lines[0] == 'track type=bedGraph name="EI -"'
    first = lines[1].split("\t")
    expected = classify(checkpoint, DNA.reverse_complement(TEXT[:23])).probabilities[0]
    assert first[:3] == ["one", "11", "12"]
    assert float(first[3]) == pytest.approx(expected, rel=1e-4)
    assert [path.name for path in sorted(tracks.iterdir())] == [
        *(f"{name}-{strand}-strand.bedgraph" for name in ("EI", "IE", "N") for strand in ("given", "other")),
        "chrom.sizes",
    ]


def test_tracks_are_what_a_converter_to_bigwig_takes(folder, tmp_path) -> None:
    """Sorted, without an overlap, none past the end that chrom.sizes says; read by Biopython, to which it is BED."""
    file, tracks = tmp_path / "some.fa", tmp_path / "tracks"
    file.write_text(f">one first\n{TEXT}\n>two\n{TEXT[:41]}\n")
    assert command_line.main(["scan", str(folder), str(file), "--all", "--tracks", str(tracks)]) == 0
    checkpoint = load(folder)
    assert checkpoint.task is not None
    sizes = dict(line.split("\t") for line in (tracks / "chrom.sizes").read_text().splitlines())
    assert sizes == {"one": "47", "two": "41"}
    for path in tracks.glob("*.bedgraph"):
        ends = {"one": 0, "two": 0}
        label, row = path.name.partition("-")[0], int("other" in path.name)
        for one in Align.parse(io.StringIO(path.read_text().partition("\n")[2]), "bed"):
            name, (start, end) = one.target.id, one.coordinates[0]
            assert ends[name] <= start < end <= int(sizes[name])
            ends[name] = end
            window = DNA.read(TEXT[start - 11 : start + 12])
            text = DNA.reverse_complement(window.text) if row else window.text
            expected = classify(checkpoint, text).probabilities[checkpoint.task.classes.index(label)]
            assert float(one.query.id) == pytest.approx(expected, rel=1e-4)
        assert ends == {"one": 36, "two": 30}  # the middle of the last window


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--threshold", "1.5"], "threshold=1.5: choose a probability above 0"),
    ],
)
def test_refusals(folder, tmp_path, capsys, arguments, sentence) -> None:
    file = tmp_path / "some.fa"
    file.write_text(f">one\n{TEXT}\n")
    assert command_line.main(["scan", str(folder), str(file), *arguments]) in {1, 2}
    assert sentence in capsys.readouterr().err


def test_what_held_out_rows_say_is_written_and_told_with_the_hits(folder, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(held_out, "FEWEST_ROWS", 30)
    rows = [(str(i), "".join(GENERATOR.choice(list("ACGT"), 23)), ("EI", "IE", "N")[i % 3]) for i in range(31)]
    table, file = tmp_path / "rows.tsv", tmp_path / "some.fa"
    with table.open("w", newline="") as target:
        csv.writer(target, delimiter="\t").writerows([("id", "sequence", "label"), *rows])
    file.write_text(f">one\n{TEXT}\n")
    assert command_line.main(["measure", "held-out", str(folder), "--table", str(table)]) == 0
    assert "31 rows" in capsys.readouterr().out
    assert command_line.main(["scan", str(folder), str(file), "--format", "gff3", "--threshold", "0.55"]) == 0
    out, err = capsys.readouterr()
    known = held_out.known_held_out(load(folder))
    assert known is not None
    point = known.points["IE"][0]
    assert f"note: IE from 0.5: of 31 held-out rows {point.found:.1%} of this class are found" in err
    assert out.startswith("##gff-version 3\n")
    table.write_text("id\tsequence\nx\tACGT\n")
    assert command_line.main(["measure", "held-out", str(folder), "--table", str(table)]) == 2
    assert "needs the columns id, sequence and label" in capsys.readouterr().err


def test_changes_are_written_as_a_table_and_a_wrong_one_is_named(folder, tmp_path, capsys) -> None:
    file, changes = tmp_path / "some.fa", tmp_path / "some.vcf"
    file.write_text(f">one\n{TEXT}\n")
    changes.write_text(f"#CHROM\tPOS\tID\tREF\tALT\none\t24\t.\t{TEXT[23]}\t{'A' if TEXT[23] != 'A' else 'C'}\n")
    assert command_line.main(["scan", str(folder), str(file), "--variants", str(changes)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines(), delimiter="\t"))
    assert {row["change"].split(" ")[0] for row in rows} == {"24"}
    for row in rows:
        assert float(row["after"]) - float(row["before"]) == pytest.approx(float(row["delta"]), abs=2e-4)
    assert command_line.main(["scan", str(folder), str(file), "--variants", f"24 {TEXT[23]}T>AA"]) in {0, 1}
    assert "the sequence has" in capsys.readouterr().err or TEXT[24] == "T"


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

"""Sequences from the command line: windows are classified, and long ones scanned."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from Bio import Align

from heedmap.checkpoint import load
from heedmap.checkpoint.ours.folder import save_folder
from heedmap.runs.measures import held_out
from heedmap.runs.sequences.classify import classify
from heedmap.sequences.alphabet import DNA
from tests.classifiers import sequence_checkpoint
from tests.commands.conftest import Outcome

GENERATOR = np.random.default_rng(8)
TEXT = "".join(GENERATOR.choice(list("ACGT"), 47))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task)
    return tmp_path / "small"


def test_hits_of_every_record_on_both_strands(run, folder, tmp_path) -> None:
    file = tmp_path / "some.fa"
    file.write_text(f">one first\n{TEXT}\n>short\nACGT\n>odd\nAC!GT\n>two\n{TEXT.lower()}\n")
    done = run("scan", folder, file, "--threshold", "0.3", "--all")
    assert done.status == 1
    assert "note: short: the sequence has 4 letters, and a window needs 23" in done.err
    assert "note: odd: letter 3 is '!'" in done.err
    checkpoint, hits = load(folder), rows_of(done)
    assert {cells[0] for cells in hits} == {"one", "two"}
    assert {cells[5] for cells in hits} == {"+", "-"}
    assert [cells[1:] for cells in hits if cells[0] == "one"] == [cells[1:] for cells in hits if cells[0] == "two"]
    for _, start, end, label, score, strand in hits:
        first = int(start) - {"EI+": 11, "EI-": 10}.get(label + strand, 0)  # where the window of a site begins
        part = TEXT[first : first + 23]
        assert int(end) - int(start) == (2 if label == "EI" else 23)
        said = classify(checkpoint, part if strand == "+" else DNA.reverse_complement(part))
        assert int(score) == int(1000 * said.probabilities[said.classes.index(label)]) >= 300


def test_tracks_hold_the_probability_of_every_window_at_its_middle(run, folder, tmp_path) -> None:
    """Sorted, without an overlap, none past the end; read by Biopython, to which it is BED."""
    file, tracks = tmp_path / "some.fa", tmp_path / "tracks"
    file.write_text(f">one first\n{TEXT}\n>two\n{TEXT[:41]}\n")
    assert run("scan", folder, file, "--all", "--tracks", tracks).status == 0
    checkpoint = load(folder)
    names = [f"{name}-{strand}-strand.bedgraph" for name in ("EI", "IE", "N") for strand in ("given", "other")]
    assert sorted(path.name for path in tracks.iterdir()) == names
    for path in tracks.iterdir():
        ends, (label, strand, _) = {"one": 0, "two": 0}, path.name.split("-")
        for one in Align.parse(io.StringIO(path.read_text().partition("\n")[2]), "bed"):
            name, (start, end) = one.target.id, one.coordinates[0]
            assert ends[name] <= start < end
            ends[name] = end
            window = TEXT[start - 11 : start + 12]
            said = classify(checkpoint, window if strand == "given" else DNA.reverse_complement(window))
            assert float(one.query.id) == pytest.approx(said.probabilities[said.classes.index(label)], rel=1e-4)
        assert ends == {"one": 36, "two": 30}  # the middle of the last window


def test_what_held_out_rows_say_is_written_and_told_with_the_hits(run, folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(held_out, "FEWEST_ROWS", 30)
    rows = [(str(i), "".join(GENERATOR.choice(list("ACGT"), 23)), ("EI", "IE", "N")[i % 3]) for i in range(31)]
    table, file = tmp_path / "rows.tsv", tmp_path / "some.fa"
    with table.open("w", newline="") as target:
        csv.writer(target, delimiter="\t").writerows([("id", "sequence", "label"), *rows])
    file.write_text(f">one\n{TEXT}\n")
    assert run("measure", "held-out", folder, "--table", table).out.decode() == f"{folder / held_out.FILE.name}\n"
    done = run("scan", folder, file, "--threshold", "0.55", "--format", "gff3")
    assert done.out.startswith(b"##gff-version 3\n")
    known = held_out.known_held_out(load(folder))
    point = known.points["IE"][0]
    assert f"of the 10 rows of this class in rows.tsv {point.found:.1%} are found, of the 21" in done.err
    table.write_text("id\tsequence\nx\tACGT\n")
    done = run("measure", "held-out", folder, "--table", table)
    assert (done.status, "needs the columns id, sequence and label" in done.err) == (2, True)


def test_changes_are_written_as_a_table_and_what_of_a_vcf_is_not_used_is_said(run, folder, tmp_path) -> None:
    """Packed, other contigs, records that name no letters, two sequences of one name, and a piece of a longer one."""
    file, changes = tmp_path / "some.fa", tmp_path / "some.vcf.gz"
    file.write_text(f">one\n{TEXT}\n>one\n{TEXT}\n>chr2:101-147(-)\n{DNA.reverse_complement(TEXT)}\n")
    bases = [(i % 47, new) for i, new in enumerate("ACGT" * 2) if new != TEXT[i % 47]]
    lines = [f"one\t{at + 1}\t.\t{TEXT[at]}\t{new}" for at, new in bases]
    lines += [f"one\t7\t.\t{TEXT[6]}\t<DEL>"] * 13 + [f"chr2\t101\t.\t{TEXT[0]}\tG{TEXT[0]}", "9\t5\t.\tA\tC"]
    changes.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = run("scan", folder, file, "--variants", changes)
    rows = list(csv.DictReader(done.out.decode().splitlines(), delimiter="\t"))
    assert {row["change"] for row in rows if row["sequence"] == "one"} == {f"{a + 1} {TEXT[a]}>{b}" for a, b in bases}
    assert {row["change"].partition(" ")[0] for row in rows if row["sequence"] != "one"} == {"47"}
    for row in rows:
        assert float(row["after"]) - float(row["before"]) == pytest.approx(float(row["delta"]), abs=2e-4)
    says = {
        "note: 2 records are called one": 1, "<DEL> names no letters": 2 * 10, "and 3 more": 2,
        "note: chr2:101-147(-): the sequence is chr2:101-147(-) (from 1, both ends within)": 1,
        "2 of 3 names match the sequence (one, chr2:101-147(-), chr2). Not used: 9 (1 line)": 1,
    }  # fmt: skip
    assert (done.status, {text: done.err.count(text) for text in says}) == (1, says)
    done = run("scan", folder, file, "--variants", "chrone 1 . A C")
    assert (done.status, "0 of 1 names match" in done.err, "if it is one" in done.err) == (1, True, True)
    right, wrong = f"24 {TEXT[23]}>{TEXT[23]}{TEXT[23]}", f"24 {TEXT[23]}>{TEXT[23]}"
    long = run("scan", folder, file, "--variants", ", ".join([wrong] * 200 + [right]))
    assert (long.status, right in long.out.decode(), "note: one: line 1" in long.err) == (1, True, True)


FASTA = b">one EI\nACGTTGCANG\nTACC\n>two\nacguacgua\n>bad\nAC-GTAC\n>short\nACG\n"


def rows_of(found: Outcome) -> list[list[str]]:
    return [line.split("\t") for line in found.out.decode("utf-8").splitlines()]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_row_for_each_record(run, folder, tmp_path, pack):
    file = tmp_path / "some.fa"
    file.write_bytes(pack(FASTA))
    done = run("classify", folder, file)
    head, one, two, bad, short = rows_of(done)
    assert done.status == 1
    assert head == ["id", "predicted", "EI", "IE", "N"]
    expected = classify(load(folder), "ACGTTGCANGTACC")
    assert one[:2] == ["one", expected.classes[expected.predicted]]
    assert [float(cell) for cell in one[2:]] == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert two[0] == "two"
    assert sum(float(cell) for cell in two[2:]) == pytest.approx(1, abs=1e-5)
    assert bad == ["bad", "", "", "", ""]
    assert short == ["short", "", "", "", ""]
    assert "note: bad: letter 3 is '-'" in done.err
    assert "note: short: the sequence has 3 letters" in done.err


def test_stdin_is_read_and_all_is_well(run, folder):
    done = run("classify", folder, "-", stdin=">ä\nACGTACGT\n".encode())
    assert (done.status, [row[0] for row in rows_of(done)], "note" in done.err) == (0, ["id", "ä"], False)

"""`motifs` on the command line: every head's best known motif, as the library finds it."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer import __main__ as command_line
from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import save_folder
from transformer.runs.sequence_sets import read_set
from transformer.sequences.fasta import fasta_of
from transformer.sequences.motif_files import read_motifs
from transformer.sequences.motif_matching import KnownMotifs

JASPAR = ">M1\tone\n1 9 0 0 2\n4 0 8 1 2\n1 1 1 9 2\n4 0 1 0 4\n>=M2\n9 1 1\n1 1 0\n0 8 1\n0 0 8\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    small = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", small.model, task=small.task)
    drawn = np.random.default_rng(3).choice(list("ACGT"), (9, 20))
    records = [f">s{i} {'EI' if i % 2 else 'N'}\n{''.join(row)}\n" for i, row in enumerate(drawn)]
    (tmp_path / "set.fa").write_text("".join(records) + ">bad N\nAC!\n")
    (tmp_path / "known.txt").write_text(JASPAR)
    return [str(tmp_path / name) for name in ("small", "set.fa", "known.txt")]


def test_every_head_has_its_best_known_motif(files, capsys) -> None:
    assert command_line.main(["motifs", *files, "--widths", "5"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert "note: bad: letter 3 is '!'" in err
    assert [(row["class"], row["width"]) for row in rows] == [("EI", "5")] * 9 + [("N", "5")] * 9
    found = read_set(load(files[0]), fasta_of(Path(files[1]).read_bytes()))
    known = KnownMotifs(read_motifs(JASPAR))
    for row in (rows[2], rows[16]):
        label = found.classes.index(row["class"])
        motif = found.motif(label, row["site"], int(row["head"]), 5)
        best = known.matches(motif.frequencies)[0]
        assert (row["known"].removeprefix("'"), row["strand"].removeprefix("'")) == (best.known.id, best.strand)
        assert int(row["offset"]) == best.offset - 2  # two flanks stand before the window
        assert [float(row[name]) for name in ("distance", "p", "E")] == pytest.approx(
            [best.distance, best.p_value, 2 * best.p_value]
        )
        assert float(row["q"]) >= float(row["p"])
        assert row["consensus"] == motif.consensus
    assert not any(cell.startswith("=") for row in rows for cell in row.values())


def test_refusals(files, capsys) -> None:
    assert command_line.main(["motifs", *files, "--classes", "exon"]) == 2
    assert "'exon' is no class" in capsys.readouterr().err
    assert command_line.main(["motifs", *files[:2], files[1]]) == 2
    assert "error: line 2 is" in capsys.readouterr().err
    assert command_line.main(["motifs", *files[:2], "no.meme"]) == 2
    assert "no.meme cannot be read" in capsys.readouterr().err

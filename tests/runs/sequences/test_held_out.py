"""What held-out rows say: thresholds counted row by row."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.runs.sequences import held_out
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.held_out import known_held_out, measured
from transformer.sequences.fasta import FastaRecord

CHECKPOINTS = Path(__file__).parents[3] / "checkpoints"


@pytest.fixture(scope="module")
def small() -> Checkpoint:
    return sequence_checkpoint(double=True)


def rows(count: int) -> tuple[list[FastaRecord], list[str]]:
    generator = np.random.default_rng(3)
    texts = ["".join(generator.choice(list("ACGT"), 23, p=generator.dirichlet([2] * 4))) for _ in range(count)]
    labels = list(generator.choice(["EI", "IE", "N"], count))
    return [FastaRecord(str(i), "", text) for i, text in enumerate(texts)], labels


def test_thresholds_are_counted_over_the_rows(small, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(held_out, "FEWEST_ROWS", 41)
    records, labels = rows(41)
    reached = [classify(small, one.sequence).probabilities for one in records]
    # Each class has a threshold that parts the rows.
    middle = tuple(sorted(float(each) + 1e-9 for each in np.median(reached, axis=0)))
    monkeypatch.setattr(held_out, "THRESHOLDS", middle)
    found = measured(small, records, labels)
    for number, name in enumerate(("EI", "IE", "N")):
        for point in found.points[name]:
            own = [p[number] >= point.threshold for p, label in zip(reached, labels, strict=True) if label == name]
            others = [p[number] >= point.threshold for p, label in zip(reached, labels, strict=True) if label != name]
            assert (point.found, point.false) == pytest.approx((np.mean(own), np.mean(others)))
    assert any(
        0 < point.false < 1 and point.false != point.found for points in found.points.values() for point in points
    )
    held_out.write_held_out(tmp_path / "held_out.json", found)
    read = held_out.read_held_out(tmp_path / "held_out.json")
    assert read.rows == 41
    assert [p.threshold for p in read.points["N"]] == pytest.approx(middle, abs=1e-4)


def test_refusals_and_damaged_files(small, tmp_path) -> None:
    records, labels = rows(120)
    with pytest.raises(InputError, match="7 held-out rows are too few"):
        measured(small, records[:7], labels[:7])
    with pytest.raises(InputError, match="'exon' is no class"):
        measured(small, records, ["exon", *labels[1:]])
    for text in ("[]", '{"rows": 1}', "no", json.dumps({"rows": 9, "points": {"N": [[0.5, 2, 0]]}})):
        path = tmp_path / "held_out.json"
        path.write_text(text)
        with pytest.raises(CheckpointError, match="what `measure held-out` writes"):
            held_out.read_held_out(path)


@pytest.mark.parametrize("name", ["splice-junctions", "core-promoters"])
def test_shipped_classifiers_know_theirs(name) -> None:
    checkpoint = load(CHECKPOINTS / name)
    known = known_held_out(checkpoint)
    task = checkpoint.task
    assert known is not None
    assert task is not None
    assert set(known.points) == set(task.classes)

"""Measures of a checkpoint that lie beside its weights: heads, thresholds, what files of them may hold."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import Checkpoint, load, translate
from heedmap.checkpoint.ours.folder import load_snapshot
from heedmap.errors import CheckpointError, InputError
from heedmap.runs.measures import faithfulness, head_agreement, held_out, importance
from heedmap.runs.measures.head_agreement import HeadAgreement, HeadScore
from heedmap.runs.measures.held_out import HeldOut, Point
from heedmap.runs.measures.importance import CorpusInfo, HeadImportance, Importance, Removal
from heedmap.runs.sequences.classify import classify
from heedmap.sequences.fasta import FastaRecord
from heedmap.sites import Site
from tests import toy
from tests.classifiers import sequence_checkpoint

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return load(CHECKPOINTS / "multi30k-en-de")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A translator that looks at its source, in double precision."""
    found = load(toy.write_checkpoint(tmp_path_factory.mktemp("toy") / "toy"))
    return replace(found, model=found.model.double())


def counted_by_hand(checkpoint: Checkpoint, text: str, gap: float) -> tuple[int, dict[tuple[str, int], int]]:
    """Decided rows and hits of each head: every source word is hidden in a run of its own, every sum is a loop."""
    run = translate(checkpoint, text)
    source, target, eos = list(run.source_ids), list(run.target_ids), checkpoint.model.config.eos_id
    sources, targets = ([np.flatnonzero(m) for m in axis.membership] for axis in (run.axes.source, run.axes.written))

    def log_prob(hidden: Sequence[int], positions: np.ndarray) -> float:
        read = torch.tensor([[checkpoint.model.config.bos_id, *target[:-1]]])
        shown = torch.tensor([[i not in hidden for i in range(len(source))]])
        with torch.no_grad():
            rows = checkpoint.model(torch.tensor([source]), read, shown, None).log_softmax(-1)[0]
        return sum(float(rows[i][target[i]]) for i in positions)

    rows, hits = 0, dict[tuple[str, int], int]()
    attention = run.record["decoder.0.cross"]
    for word in (one for one in targets if target[one[0]] != eos):
        losses = [log_prob([], word) - log_prob(removed, word) for removed in sources[:-1]]
        if max(losses) <= gap:
            continue
        rows += 1
        for head in range(attention.n_heads):
            weights = attention.weights(head)
            sums = [sum(weights[i][j] for i in word for j in group) for group in sources]
            hits[attention.site, head] = hits.get((attention.site, head), 0) + (np.argmax(sums) == np.argmax(losses))
    return rows, hits


def test_shares_are_those_of_a_count_by_hand(small: Checkpoint) -> None:
    texts = ["the dog and the bird runs.", "the cat and the man and the dog eats."]
    counts = [counted_by_hand(small, text, 1.0) for text in texts]
    found = head_agreement.head_agreement(small, texts, "two")
    assert (found.data, found.sentences, found.rows) == ("two", 2, sum(rows for rows, _ in counts))
    assert found.rows > 5
    for head in found.heads:
        hits = sum(hits.get((head.site, head.head), 0) for _, hits in counts)
        assert head.agreement == pytest.approx(hits / found.rows, abs=1e-12)
    assert len({head.agreement for head in found.heads}) > 1


SCORE = HeadScore(Site("decoder.0.cross"), 0, 0, agreement=0.1, previous=0.7)


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({}, "follows the word before"), (dict(agreement=0.8), "names the deciding word"),
        (dict(agreement=0.7), "names the deciding word"), (dict(previous=0.5), "follows the word before"),
        (dict(previous=0.49), None), (dict(agreement=np.nan, previous=np.nan), None),
    ],
)  # fmt: skip
def test_a_head_that_stays_a_word_behind_is_told_from_one_that_agrees(changes, role) -> None:
    assert replace(SCORE, **changes).role == role


def test_of_equal_heads_the_first_is_best() -> None:
    other = HeadScore(Site("decoder.1.cross"), 1, 2, 0.3, 0.0)
    found = HeadAgreement("a", 3, 5, 5, (SCORE, other, replace(other, head=3)))
    assert (found.best, found.of("decoder.0.cross", 0), found.of("decoder.0.self", 0)) == (other, SCORE, None)


MEASURES = sorted(CHECKPOINTS.glob("*/heads.json")) + sorted(CHECKPOINTS.glob("*/faithfulness.json"))


@pytest.mark.parametrize("path", MEASURES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_a_page_quotes_of_shipped_weights_was_measured_on_many_sentences_that_are_no_examples(path: Path) -> None:
    files: dict[str, Any] = {"heads": head_agreement.FILE, "faithfulness": faithfulness.FILE}
    found = files[path.stem].read(path)
    assert found.sentences >= 200
    assert found.data == "Multi30k validation"
    assert len(MEASURES) >= 4


def test_the_translator_starts_with_the_head_that_was_measured_best(shipped: Checkpoint) -> None:
    known = head_agreement.known_agreement(shipped)
    best = max(known.heads, key=lambda one: one.agreement)
    assert (known.best, best.agreement > head_agreement.EARNED) == (best, True)
    assert known.of("decoder.0.cross", 2).role == "follows the word before"
    few = head_agreement.head_agreement(shipped)
    assert (few.sentences, few.data) == (len(shipped.examples), "examples.json")
    with pytest.raises(InputError, match="no sentence to measure"):
        head_agreement.head_agreement(shipped, ())


@pytest.mark.parametrize("count", [3, 7, 365, 10_000])
def test_what_was_never_seen_has_a_rate_below_that_at_which_it_is_missed_one_time_in_twenty(count: int) -> None:
    bound = held_out.never_seen_bound(count)
    assert (1 - bound) ** count <= 0.05 < (1 - bound + 1e-4) ** count


def rows(count: int) -> tuple[list[FastaRecord], list[str]]:
    generator = np.random.default_rng(3)
    texts = ["".join(generator.choice(list("ACGT"), 23, p=generator.dirichlet([2] * 4))) for _ in range(count)]
    labels = list(generator.choice(["EI", "IE", "N"], count))
    return [FastaRecord(str(i), "", text) for i, text in enumerate(texts)], labels


def test_thresholds_are_counted_over_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "FEWEST_ROWS", 41)
    classifier, (records, labels) = sequence_checkpoint(double=True), rows(41)
    reached = [classify(classifier, one.sequence).probabilities for one in records]
    # Each class has a threshold that parts the rows.
    middle = tuple(sorted(float(each) + 1e-9 for each in np.median(reached, axis=0)))
    monkeypatch.setattr(held_out, "THRESHOLDS", middle)
    found = held_out.measured(classifier, records, labels, "made up")
    assert found.own == {name: labels.count(name) for name in ("EI", "IE", "N")}
    for number, name in enumerate(("EI", "IE", "N")):
        for point in found.points[name]:
            own = [p[number] >= point.threshold for p, label in zip(reached, labels, strict=True) if label == name]
            others = [p[number] >= point.threshold for p, label in zip(reached, labels, strict=True) if label != name]
            assert (point.found, point.false) == pytest.approx((np.mean(own), np.mean(others)))
    points = [point for each in found.points.values() for point in each]
    assert any(0 < point.false < 1 and point.false != point.found for point in points)
    with pytest.raises(InputError, match="7 held-out rows are too few"):
        held_out.measured(classifier, records[:7], labels[:7], "few")
    with pytest.raises(InputError, match="'exon' is no class"):
        held_out.measured(classifier, records, ["exon", *labels[1:]], "wrong")


@pytest.mark.parametrize("name", ["splice-junctions", "core-promoters"])
def test_shipped_classifiers_know_theirs(name: str) -> None:
    checkpoint = load(CHECKPOINTS / name)
    known = held_out.known_held_out(checkpoint)
    assert set(known.points) == set(checkpoint.task.classes)


HEAD = {"site": "decoder.0.cross", "layer": 0, "head": 0, "agreement": 0.5, "previous": 0.0}
FILES: list[tuple[Any, Any, list[dict[str, Any]]]] = [
    (
        head_agreement.FILE,
        HeadAgreement("a", 7, 13, 11, (SCORE, replace(SCORE, site=Site("pooling"), agreement=1.0))),
        [{"heads": []}, {"heads": [HEAD | {"agreement": 1.5}]}, {"heads": [{"site": "decoder.0.cross"}]}, {"heads": 7},
         {"rule": "deletion"}, {"rows": "many"}],
    ),
    (
        held_out.FILE, HeldOut("a", 41, {"N": 17}, {"N": (Point(0.5, 0.75, 0.25),)}),
        [{"points": {"N": [[0.5, 2, 0]]}}, {"points": 1}, {"own": {"N": 41}}, {"own": {}}],
    ),
    (
        importance.FILE,
        Importance(
            CorpusInfo("a", "b", 3, 1, "", {"final": 1.25}), {"final": (HeadImportance(SCORE.site, 1, 0.5, 0.2, 1.0),)},
            {"final": (Removal("zero", "all", 10, 1, 1.5, 20.0),)},
        ),
        [{"removals": {"final": [{"order": "x"}]}}],
    ),
    (faithfulness.FILE, None, []),
]  # fmt: skip


@pytest.mark.parametrize(("file", "known", "changes"), FILES, ids=[file.kind for file, *_ in FILES])
def test_a_file_of_measurements_is_read_or_refused(file, known, changes, tmp_path: Path, shipped: Checkpoint) -> None:
    path, damaged = tmp_path / file.name, ["{", "[]", '{"rows": 1}', '{"own_target": true, "methods": {}}']
    if known is not None:
        file.write(path, known)
        assert file.read(path) == known
        about = json.loads(path.read_text("utf-8"))
        damaged += [json.dumps({**about, **one}) for one in changes]
    for text in damaged:
        path.write_text(text, "utf-8")
        with pytest.raises(CheckpointError, match=f"python -m heedmap measure {file.kind}"):
            file.read(path)
    snapshot = load_snapshot(shipped, CHECKPOINTS / "multi30k-en-de" / "history" / "000050.safetensors")
    assert file.beside(snapshot) is None  # a moment of the training is not told by the measurement of its end


def test_no_number_is_null_in_a_file(tmp_path: Path) -> None:
    head_agreement.FILE.write(tmp_path / "a", HeadAgreement("a", 1, 0, 0, (replace(SCORE, previous=np.nan),)))
    assert json.loads((tmp_path / "a").read_text())["heads"][0]["previous"] is None
    assert np.isnan(head_agreement.FILE.read(tmp_path / "a").heads[0].previous)

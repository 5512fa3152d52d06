"""Heads of two models: distances by brute force, pairs by trying every one, and what cannot be compared."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from tests.classifiers import sequence_checkpoint
from transformer.atlas.matching import Distances, distances
from transformer.checkpoint import load
from transformer.errors import CheckpointError, InputError
from transformer.runs.translate import translate
from transformer.sites import Site

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PAIRS = (
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("A man.", "Ein alter Mann mit 3 Hunden, die schlafen."),
)


def test_distances_are_those_of_the_records_row_by_row() -> None:
    """Location attention looks past the end of a source, the other one cannot: that weight counts as apart."""
    first, second = (load(CHECKPOINTS / name) for name in ("multi30k-en-de-rnn", "multi30k-en-de-rnn-location"))
    found = distances(first, second, PAIRS)
    assert list(found) == ["decoder.cross"]
    rows = []
    for text, target in PAIRS:
        one, other = (
            translate(each, text, forced=target).record[Site("decoder.cross")].weights(0) for each in (first, second)
        )
        assert other.shape[1] == one.shape[1] + 1
        rows += [jensenshannon(np.append(p, 0.0), q) ** 2 for p, q in zip(one, other, strict=True)]
    assert found["decoder.cross"].values[0, 0] == pytest.approx(np.sqrt(np.mean(rows)), abs=2e-4)


def test_a_checkpoint_is_paired_with_itself_head_by_head() -> None:
    checkpoint = load(CHECKPOINTS / "multi30k-en-de")
    found = distances(checkpoint, checkpoint, PAIRS)
    assert list(found) == ["encoder.self", "decoder.self", "decoder.cross"]
    for one in found.values():
        assert one.pairs() == one.pairs(within=True) == [(i, i) for i in range(16)]
        assert np.diag(one.values).max() < 2e-3
        assert one.values == pytest.approx(one.values.T, abs=1e-4)
        assert one.by_chance() > 0.2
    values = found["encoder.self"].values
    weights = translate(checkpoint, PAIRS[0][0], forced=PAIRS[0][1]).record[Site("encoder.1.self")]
    alone = distances(checkpoint, checkpoint, PAIRS[:1])["encoder.self"].values
    rows = [jensenshannon(p, q) ** 2 for p, q in zip(weights.weights(0), weights.weights(3), strict=True)]
    assert alone[4, 7] == pytest.approx(np.sqrt(np.mean(rows)), abs=1e-4)
    assert values.shape == (16, 16)


@pytest.mark.parametrize("within", [False, True])
def test_pairs_have_the_least_sum_of_all_and_chance_is_the_mean_over_all(within: bool) -> None:
    heads = tuple((Site.of("encoder", layer, "self"), head) for layer, n in ((0, 3), (1, 2)) for head in range(n))
    values = np.random.default_rng(7).random((5, 5))
    table = Distances(heads, heads, values)
    layer = [site for site, _ in heads]
    every = [
        order for order in permutations(range(5))
        if not within or all(layer[i] == layer[j] for i, j in enumerate(order))
    ]  # fmt: skip
    sums = [sum(values[i, j] for i, j in enumerate(order)) for order in every]
    assert sum(values[i, j] for i, j in table.pairs(within)) == pytest.approx(min(sums))
    if not within:
        assert table.by_chance() == pytest.approx(np.mean(sums) / 5)
        assert len(Distances(heads, heads[:2], values[:, :2]).pairs()) == 2
    else:
        assert table.by_chance(within=True) == pytest.approx(np.mean([*values[:3, :3].flat, *values[3:, 3:].flat]))


def test_what_has_no_axes_in_common_is_refused(tmp_path: Path) -> None:
    from tests.toy import write_checkpoint

    write_checkpoint(tmp_path / "toy")
    translator = load(CHECKPOINTS / "multi30k-en-de-rnn")
    with pytest.raises(CheckpointError, match="different tokens"):
        distances(translator, load(tmp_path / "toy"), [("the dog runs.", "der Hund rennt.")])
    with pytest.raises(CheckpointError, match="does not translate"):
        distances(translator, sequence_checkpoint(), PAIRS)
    with pytest.raises(InputError, match="no sentence"):
        distances(translator, translator, [])

"""Queries and keys in one plane: what makes them comparable changes no weight, and the plane is that of a PCA."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from transformer.atlas.vectors import CLASSES, Vectors, comparable, plane, vectors
from transformer.checkpoint import Checkpoint, load
from transformer.errors import AtlasError
from transformer.runs.translate import translate
from transformer.sites import Site

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
PAIRS = (
    ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("A man.", "Ein alter Mann mit 3 Hunden, die schlafen."),
    ("Three women are sitting on a bench in the park and talking, 17 of them.", "Drei Frauen."),
)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load(CHECKPOINTS / "multi30k-en-de")


def test_what_makes_them_comparable_changes_no_weight() -> None:
    chance = np.random.default_rng(5)
    query, key = chance.normal(size=(7, 11)) * 9 + 2, chance.normal(size=(13, 11)) - 1
    queries, keys = comparable(query, key)
    assert softmax(queries @ keys.T / np.sqrt(11), axis=1) == pytest.approx(
        softmax(query @ key.T / np.sqrt(11), axis=1), abs=1e-12
    )
    assert keys.mean(axis=0) == pytest.approx(queries.mean(axis=0))
    factor = queries[0, 0] / query[0, 0]
    lengths = [np.median(np.linalg.norm(side, axis=1)) for side in (query * factor, key / factor)]
    assert lengths[0] == pytest.approx(lengths[1])  # before they get one centre
    assert factor < 0.6


@pytest.mark.parametrize(("site", "head"), [("encoder.2.self", 3), ("decoder.1.self", 0), ("decoder.2.cross", 1)])
def test_a_sentences_vectors_give_its_records_weights_and_carry_its_tokens(checkpoint, site, head) -> None:
    """Sentences of different lengths share a pass: what is padding has no vector."""
    found = vectors(checkpoint, Site(site), head, PAIRS)
    start_q = start_k = 0
    for (source, target), one in zip(PAIRS, found.sentences, strict=True):
        attention = translate(checkpoint, source, forced=target).record[Site(site)]
        known = attention.weights(head)
        assert one.weights == pytest.approx(known, abs=1e-5)
        assert list(one.queries) == list(attention.queries.texts)
        assert list(one.keys) == list(attention.keys.texts)
        q = found.query[start_q : start_q + len(one.queries)]
        k = found.key[start_k : start_k + len(one.keys)]
        scores = q.astype(float) @ k.astype(float).T * found.scale
        scores[known == 0] = -np.inf
        assert softmax(scores, axis=1) == pytest.approx(known, abs=1e-5)
        start_q, start_k = start_q + len(q), start_k + len(k)
    assert (start_q, start_k) == (len(found.query), len(found.key))


def test_what_a_token_is(checkpoint) -> None:
    found = vectors(checkpoint, Site("decoder.0.cross"), 0, PAIRS[1:2])
    said = dict(zip(found.sentences[0].queries, (CLASSES[i] for i in found.query_classes), strict=True))
    assert said[","] == "punctuation"
    assert said["</s>"] == "special"
    assert said["▁3"] == "number"
    assert said["▁Mann"] == "first_piece"
    assert "piece" in said.values()


def test_the_plane_is_that_of_the_largest_variance() -> None:
    chance = np.random.default_rng(3)
    query, key = chance.normal(size=(31, 5)) * (4, 1, 3, 0.5, 0.1), chance.normal(size=(17, 5)) * (4, 1, 3, 0.5, 0.1)
    both = np.concatenate(comparable(query, key))
    both = both - both.mean(axis=0)
    _, singular, axes = np.linalg.svd(both, full_matrices=False)
    classes = np.zeros(31, int), np.zeros(17, int)
    found = plane(Vectors((), query, key, *classes, 1.0))
    places = np.concatenate([found.query, found.key])
    for axis in range(2):
        expected = both @ axes[axis]
        assert np.abs(places[:, axis]) == pytest.approx(np.abs(expected))
        assert found.shares[axis] == pytest.approx(singular[axis] ** 2 / (singular**2).sum())
    assert np.array_equal(places, np.concatenate([plane(Vectors((), query, key, *classes, 1.0)).query, found.key]))


def test_attention_that_multiplies_no_queries_and_keys_is_refused() -> None:
    recurrent = load(CHECKPOINTS / "multi30k-en-de-rnn")
    with pytest.raises(AtlasError, match="otherwise"):
        vectors(recurrent, Site("decoder.cross"), 0, PAIRS)

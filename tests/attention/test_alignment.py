"""Two alignments side by side: one axis, one measure, and the head that agrees best is found."""

from pathlib import Path

import numpy as np
import pytest

from tests.recurrents import ADDITIVE, LOCATION, checkpoints_with_recurrents
from transformer import Axis, Record, Translation, load, translate
from transformer.attention.alignment import (
    Head,
    alignment,
    best_agreeing,
    compared,
    further_apart,
    heads_of,
    on_one_axis,
)
from transformer.attention.measures import agreement
from transformer.errors import RecordError
from transformer.plots.picture import Picture
from transformer.runs.translate import PAST_SOURCE

SENTENCE = "Two dogs are playing in the snow."
TARGET = "Zwei Hunde spielen im Schnee."


def picture(rows: list[list[float]], keys: tuple[str, ...], queries: tuple[str, ...], special: int = 0) -> Picture:
    """A map whose last `special` queries are marks."""
    values = np.array(rows, dtype=float)
    marks = tuple(i >= len(queries) - special for i in range(len(queries)))
    return Picture(
        "decoder.cross", "head 0", values, np.ones(values.shape, dtype=bool),
        Axis("target", queries, tuple(range(len(queries))), marks), Axis.of_tokens("source", keys),
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translation]:
    """Three models that read one target."""
    folder = checkpoints_with_recurrents(tmp_path_factory.mktemp("aligned"))
    names = ("multi30k-en-de", ADDITIVE, LOCATION)
    return {name: translate(load(Path(folder) / name), SENTENCE, forced=TARGET) for name in names}


@pytest.fixture
def record(runs: dict[str, Translation]) -> Record:
    return runs["multi30k-en-de"].record


def test_every_head_and_every_layers_mean_can_stand_for_a_model(runs: dict[str, Translation]) -> None:
    heads = heads_of(runs["multi30k-en-de"].record)
    assert heads[:6] == (Head(0, 0), Head(0, 1), Head(0, 2), Head(0, 3), Head(0, "mean"), Head(1, 0))
    assert len(heads) == 4 * 5
    assert heads_of(runs[ADDITIVE].record) == (Head(0, 0),)


def test_an_alignment_is_the_records_map_in_words(record: Record) -> None:
    found = alignment(record, Head(2, 3))
    expected = record["decoder.2.cross"].picture(3, words=True)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.keys.texts[:3] == ("Two", "dogs", "are")
    assert found.queries.texts[0] == "Zwei"
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0, atol=1e-5)
    with pytest.raises(RecordError, match="layer=4"):
        alignment(record, Head(4, 0))


def test_the_best_agreeing_head_is_the_best_of_all(runs: dict[str, Translation], record: Record) -> None:
    other = alignment(runs[ADDITIVE].record, Head(0, 0))
    best, mean = best_agreeing(record, other)
    means = {
        (layer, head): agreement(
            record[f"decoder.{layer}.cross"].picture(head, words=True).values[:-1], other.values[:-1]
        ).mean()
        for layer in range(4)
        for head in range(4)
    }
    assert mean == pytest.approx(max(means.values()))
    assert means[best.layer, best.head] == pytest.approx(mean)


def test_a_head_agrees_best_with_itself(record: Record) -> None:
    for head in (Head(1, 2), Head(3, 0)):
        best, mean = best_agreeing(record, alignment(record, head))
        assert best == head
        assert mean == pytest.approx(1.0)


def test_mass_past_the_source_has_a_place_in_both_maps(runs: dict[str, Translation]) -> None:
    first, second = (alignment(runs[name].record, Head(0, 0)) for name in (ADDITIVE, LOCATION))
    one, other = on_one_axis(first, second)
    assert one.keys.texts == other.keys.texts
    assert one.keys.texts[-1] == PAST_SOURCE
    assert not one.visible[:, -1].any()
    assert other.visible.all()
    np.testing.assert_array_equal(one.values[:, :-1], first.values)
    np.testing.assert_array_equal(other.values, second.values)
    comparison = compared(first, second)
    np.testing.assert_allclose(comparison.difference.values[:, -1], -second.values[:, -1])
    assert comparison.difference.visible.all()


def test_agreement_counted_by_hand() -> None:
    keys, queries = ("a", "b"), ("x", "y", "z", "</s>")
    first = picture([[1, 0], [1, 0], [0.5, 0.5], [1, 0]], keys, queries, special=1)
    second = picture([[1, 0], [0, 1], [1, 0], [0, 1]], keys, queries, special=1)
    found = compared(first, second)
    divergence = (0.5 * np.log2(0.5 / 0.75) + 0.5 * np.log2(0.5 / 0.25)) / 2 + np.log2(1 / 0.75) / 2
    np.testing.assert_allclose(found.agreement, [1, 0, 1 - np.sqrt(divergence), 0], atol=1e-12)
    assert found.mean == pytest.approx(found.agreement[:3].mean())
    np.testing.assert_array_equal(found.difference.values, first.values - second.values)
    assert list(further_apart(found))[1:3] == [(0, 1), (1, 0)]


def test_other_targets_and_other_sources_are_refused() -> None:
    row = [[0.5, 0.5]]
    with pytest.raises(RecordError, match="different targets"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "b"), ("y",)))
    with pytest.raises(RecordError, match="different sources"):
        compared(picture(row, ("a", "b"), ("x",)), picture(row, ("a", "c"), ("x",)))

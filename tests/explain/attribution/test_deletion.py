"""Deletion is what a run without the word shows: by hand, for every dialect, and for words of several pieces."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.explain.attribution import reference
from tests.explain.attribution.reference import DIALECTS, READ, SOURCE, WRITTEN
from transformer.errors import AttributionError
from transformer.explain.attribution import scored_sequence as passages
from transformer.explain.attribution.deletion import deletion, without
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.plots.axes import Axis
from transformer.plots.quantity import Quantity


@pytest.mark.kernels
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_hidden_word_is_no_key_of_any_attention(dialect: str) -> None:
    made = reference.model(dialect)
    found = deletion(reference.scored_sequence(made))
    whole = reference.log_probs_of(reference.run(made, SOURCE, READ))
    for j in range(len(SOURCE)):
        lost = whole - reference.log_probs_of(reference.run(made, SOURCE, READ, hidden=[j]))
        np.testing.assert_allclose(found.of_source[:, j], lost, atol=1e-9)
    for i in range(len(READ)):
        lost = whole - reference.log_probs_of(reference.run(made, SOURCE, READ, hidden_read=[i]))
        np.testing.assert_allclose(found.of_prefix[:, i], lost, atol=1e-9)
    assert found.quantity is Quantity.LOG_PROB_LOST
    assert not found.values[~found.visible].any()
    np.testing.assert_array_equal(found.visible[:, len(SOURCE) :], np.tri(len(READ), dtype=bool))


@pytest.mark.kernels
def test_a_replaced_and_a_removed_word_are_read_again() -> None:
    made = reference.model("torch")
    given = reference.scored_sequence(made, unknown_source_id=3, unknown_target_id=6)
    whole = reference.log_probs_of(reference.run(made, SOURCE, READ))
    unknown, removed = deletion(given, "unknown"), deletion(given, "removed")
    for j in range(len(SOURCE)):
        replaced, shorter = [*SOURCE[:j], 3, *SOURCE[j + 1 :]], [*SOURCE[:j], *SOURCE[j + 1 :]]
        lost = whole - reference.log_probs_of(reference.run(made, replaced, READ))
        np.testing.assert_allclose(unknown.of_source[:, j], lost, atol=1e-9)
        lost = whole - reference.log_probs_of(reference.run(made, shorter, READ))
        np.testing.assert_allclose(removed.values[:, j], lost, atol=1e-9)
    for i in range(len(READ)):
        lost = whole - reference.log_probs_of(reference.run(made, SOURCE, [*READ[:i], 6, *READ[i + 1 :]]))
        np.testing.assert_allclose(unknown.of_prefix[:, i], lost, atol=1e-9)
    itself = deletion(replace(given, unknown_source_id=SOURCE[1], unknown_target_id=READ[2]), "unknown")
    assert not itself.of_source[:, [i for i, id_ in enumerate(SOURCE) if id_ == SOURCE[1]]].any()
    assert not itself.of_prefix[:, 2].any()
    assert itself.of_source[:, 0].all()
    assert removed.values.shape == (len(WRITTEN), len(SOURCE))
    assert removed.source_share is None


def test_pieces_of_a_word_go_together_and_the_log_probabilities_of_a_written_word_add_up() -> None:
    made = reference.model("annotated")
    pieces = ["▁two", "▁base", "ball", "s", "▁fly", "▁off", "</s>"]
    source = Axis.of_pieces("source", pieces, [False] * 6 + [True])
    written = Axis.of_pieces("written", ["▁zwei", "▁Bäl", "le", "▁da", "</s>"], [False] * 4 + [True])
    read = Axis.of_pieces("read", ["<s>", "▁zwei", "▁Bäl", "le", "▁da"], [True] + [False] * 4)
    given = replace(reference.scored_sequence(made), source=source, written=written, read=read)
    found = deletion(given, words=True)
    whole = reference.log_probs_of(reference.run(made, SOURCE, READ))
    rows = [[0], [1, 2], [3], [4]]
    for column, hidden in enumerate([[0], [1, 2, 3], [4], [5], [6]]):
        lost = whole - reference.log_probs_of(reference.run(made, SOURCE, READ, hidden=hidden))
        np.testing.assert_allclose(found.of_source[:, column], [lost[row].sum() for row in rows], atol=1e-9)
    for column, hidden in enumerate([[0], [1], [2, 3], [4]]):
        lost = whole - reference.log_probs_of(reference.run(made, SOURCE, READ, hidden_read=hidden))
        np.testing.assert_allclose(found.of_prefix[:, column], [lost[row].sum() for row in rows], atol=1e-9)
    assert found.source.texts == ("two", "baseballs", "fly", "off", "</s>")
    assert found.picture().keys.texts[5:] == ("<s>", "zwei", "Bälle", "da")


def test_batches_do_not_matter_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given, told = reference.scored_sequence(reference.model("torch")), list[float]()
    together = deletion(given).values
    monkeypatch.setattr(passages, "POSITIONS_AT_ONCE", 31)
    monkeypatch.setattr("transformer.explain.attribution.deletion.POSITIONS_AT_ONCE", 31)  # five rows
    np.testing.assert_allclose(deletion(given, progress=told.append).values, together, atol=1e-12)
    assert told == [5 / 13, 10 / 13, 1.0]


def test_several_words_can_be_taken_at_once() -> None:
    made = reference.model("torch")
    found = without(reference.scored_sequence(made), "hidden", [[0, 3], [], [1, 2, 4]]).numpy()
    for row, hidden in zip(found, [[0, 3], [], [1, 2, 4]], strict=True):
        np.testing.assert_allclose(
            row, reference.log_probs_of(reference.run(made, SOURCE, READ, hidden=hidden)), atol=1e-9
        )


def test_only_what_was_shared_out_has_a_share_of_the_source() -> None:
    """Losses have signs and no whole; of shares the source's part of the row, and none of a row that got nothing."""
    found = deletion(reference.scored_sequence(reference.model("torch")))
    assert found.source_share is None
    shared = replace(found, values=np.abs(found.values), quantity=Quantity.SHARE)
    assert shared.source_share is not None
    for t, row in enumerate(shared.values):
        assert shared.source_share[t] == pytest.approx(sum(row[: len(SOURCE)]) / sum(row), abs=1e-12)
    nothing = replace(shared, values=np.zeros_like(found.values)).source_share
    assert nothing is not None
    assert np.isnan(nothing).all()


def test_a_source_of_one_word_can_be_hidden_but_not_taken_out() -> None:
    given = reference.scored_sequence(reference.model("torch"), source=(7,), read=(1,), written=(2,))
    assert np.isfinite(deletion(given).values).all()
    found = deletion(given, "removed")
    assert np.isnan(found.values).all()
    assert not found.visible.any()


def recurrent(attention: str) -> Recurrent:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = RecurrentConfig(31, 29, hidden=7, d_embedding=5, attention=attention, max_length=13)
        return Recurrent(config).double().eval()


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_a_recurrent_reader_cannot_be_kept_from_a_word_but_reads_without_it(attention: str) -> None:
    given = reference.scored_sequence(recurrent(attention), unknown_source_id=3, unknown_target_id=3)
    with pytest.raises(AttributionError) as refused:
        deletion(given)
    assert refused.value.code == "attribution_cannot_hide"
    found = deletion(given, "removed")
    logits = given.model(torch.tensor([SOURCE]), torch.tensor([READ])).log_softmax(-1)[0]
    shorter = given.model(torch.tensor([SOURCE[1:]]), torch.tensor([READ])).log_softmax(-1)[0]
    lost = [float((logits - shorter).detach()[t, y]) for t, y in enumerate(WRITTEN)]
    np.testing.assert_allclose(found.values[:, 0], lost, atol=1e-9)


def test_what_is_not_defined_is_refused_by_name() -> None:
    made = reference.model("torch")
    with pytest.raises(AttributionError) as refused:
        deletion(reference.scored_sequence(made), "unknown")
    assert refused.value.code == "attribution_no_unknown"
    with pytest.raises(AttributionError) as refused:
        reference.scored_sequence(made, read=(), written=())
    assert refused.value.code == "attribution_nothing_written"
    assert len(Axis.of_pieces("nothing", [], [])) == 0


def test_weights_that_are_not_numbers_stay_visible_as_such() -> None:
    made = reference.model("torch")
    with torch.no_grad():
        made.decoder[1].cross_attention.value.weight[0, 0] = torch.nan
    found = deletion(reference.scored_sequence(made))
    assert np.isnan(found.values[found.visible]).all()
    assert not found.values[~found.visible].any()  # of which the step had read nothing

"""Deletion is what a run without the word shows: by hand, for every dialect, and for words of several pieces."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from heedmap import load, translate
from heedmap.explain.attribution.deletion import PERCENTS, counted, deciding, deletion, trust
from heedmap.explain.attribution.layers import contributions
from heedmap.explain.attribution.result import ScoredSequence
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.plots.axes import Axis
from heedmap.plots.picture import Quantity
from heedmap.runs import attribution
from tests.explain.attribution import reference
from tests.explain.attribution.reference import DIALECTS, READ, SOURCE, WRITTEN, refuses


def lost(made: Any, source: Sequence[int] = SOURCE, read: Sequence[int] = READ, **hidden: list[int]) -> np.ndarray:
    """What each written token loses by hand, where something else is read or something is hidden."""
    whole, less = reference.run(made, SOURCE, READ), reference.run(made, source, read, **hidden)
    return reference.log_probs_of(whole) - reference.log_probs_of(less)


@pytest.mark.kernels
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_hidden_word_is_no_key_of_any_attention(dialect: str) -> None:
    made = reference.model(dialect)
    found = deletion(reference.scored_sequence(made))
    for j in range(len(SOURCE)):
        np.testing.assert_allclose(found.of_source[:, j], lost(made, hidden=[j]), atol=1e-9)
    for i in range(len(READ)):
        np.testing.assert_allclose(found.of_prefix[:, i], lost(made, hidden_read=[i]), atol=1e-9)
    assert found.quantity is Quantity.LOG_PROB_LOST
    assert not found.values[~found.visible].any()
    np.testing.assert_array_equal(found.visible[:, len(SOURCE) :], np.tri(len(READ), dtype=bool))


@pytest.mark.kernels
def test_after_a_removed_word_the_rest_is_read_again() -> None:
    made = reference.model("torch")
    removed = deletion(reference.scored_sequence(made), "removed")
    for j in range(len(SOURCE)):
        shorter = [*SOURCE[:j], *SOURCE[j + 1 :]]
        np.testing.assert_allclose(removed.values[:, j], lost(made, shorter), atol=1e-9)
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
    rows = [[0], [1, 2], [3], [4]]
    for column, hidden in enumerate([[0], [1, 2, 3], [4], [5], [6]]):
        expected = [lost(made, hidden=hidden)[row].sum() for row in rows]
        np.testing.assert_allclose(found.of_source[:, column], expected, atol=1e-9)
    for column, hidden in enumerate([[0], [1], [2, 3], [4]]):
        expected = [lost(made, hidden_read=hidden)[row].sum() for row in rows]
        np.testing.assert_allclose(found.of_prefix[:, column], expected, atol=1e-9)
    assert found.source.texts == ("two", "baseballs", "fly", "off", "</s>")
    assert found.picture().keys.texts[5:] == ("<s>", "zwei", "Bälle", "da")


def test_batches_do_not_matter_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given, told = reference.scored_sequence(reference.model("torch")), list[float]()
    together = deletion(given).values
    monkeypatch.setattr("heedmap.explain.attribution.result.POSITIONS_AT_ONCE", 31)
    monkeypatch.setattr("heedmap.explain.attribution.deletion.POSITIONS_AT_ONCE", 31)  # five rows
    np.testing.assert_allclose(deletion(given, progress=told.append).values, together, atol=1e-12)
    assert told == [5 / 13, 10 / 13, 1.0]


def test_only_what_was_shared_out_has_a_share_of_the_source() -> None:
    """Losses have signs and no whole; of shares the source's part of the row, and none of a row that got nothing."""
    found = deletion(reference.scored_sequence(reference.model("torch")))
    assert found.source_share is None
    shared = replace(found, values=np.abs(found.values), quantity=Quantity.SHARE)
    for t, row in enumerate(shared.values):
        assert shared.source_share[t] == pytest.approx(sum(row[: len(SOURCE)]) / sum(row), abs=1e-12)
    nothing = replace(shared, values=np.zeros_like(found.values)).source_share
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
        config = RecurrentConfig.of(
            source_vocab=31, target_vocab=29, hidden=7, d_embedding=5, attention=attention, max_length=13
        )
        return Recurrent(config).double().eval()


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_a_recurrent_reader_cannot_be_kept_from_a_word_but_reads_without_it(attention: str) -> None:
    given = reference.scored_sequence(recurrent(attention))
    refuses("attribution_cannot_hide", deletion, given)
    found = deletion(given, "removed")
    logits = given.model(torch.tensor([SOURCE]), torch.tensor([READ])).log_softmax(-1)[0]
    shorter = given.model(torch.tensor([SOURCE[1:]]), torch.tensor([READ])).log_softmax(-1)[0]
    lost = [float((logits - shorter).detach()[t, y]) for t, y in enumerate(WRITTEN)]
    np.testing.assert_allclose(found.values[:, 0], lost, atol=1e-9)


def test_what_is_not_defined_is_refused_by_name() -> None:
    made = reference.model("torch")
    refuses("attribution_nothing_written", reference.scored_sequence, made, read=(), written=())
    assert len(Axis.of_pieces("nothing", [], [])) == 0


def test_weights_that_are_not_numbers_stay_visible_as_such() -> None:
    made = reference.model("torch")
    with torch.no_grad():
        made.decoder[1].cross_attention.value.weight[0, 0] = torch.nan
    found = deletion(reference.scored_sequence(made))
    assert np.isnan(found.values[found.visible]).all()
    assert not found.values[~found.visible].any()  # of which the step had read nothing


@pytest.mark.kernels
@pytest.mark.parametrize("dialect", ["torch", "pre-norm without biases"])
def test_the_deciding_word_is_the_one_without_which_a_run_by_hand_loses_most(dialect: str) -> None:
    made = reference.model(dialect)
    losses = np.stack([lost(made, hidden=[j]) for j in range(len(SOURCE))], 1)
    answer = deletion(reference.scored_sequence(made), prefix=False)
    least = float(np.sort(losses[:, :-1].max(axis=1))[1:3].mean())  # between two; the source ends with its end token
    found = deciding(answer.of_source, answer.steps.special, answer.source.special, least)
    expected = []
    for step, written in enumerate(WRITTEN):
        column = max(range(len(SOURCE) - 1), key=lambda j: losses[step, j])
        expected.append(column if losses[step, column] > least and written > 2 else -1)
    assert list(found.columns) == expected
    assert {-1} < set(expected)
    np.testing.assert_allclose(found.lost, losses[:, :-1].max(axis=1), atol=1e-9)


def test_special_tokens_and_small_losses_decide_nothing() -> None:
    lost = np.array([[3.0, 0.2, 9.0], [np.nan, 1.5, 0.0], [0.9, 0.8, 0.0], [5.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    found = deciding(lost, [False, False, False, False, True], [False, False, True])
    assert list(found.columns) == [0, 1, -1, 0, -1]  # the end token neither decides nor is decided
    assert list(deciding(np.zeros((2, 0)), [False, False], []).columns) == [-1, -1]


@pytest.mark.parametrize("name", ["multi30k-en-de", "multi30k-en-de-rnn"])
def test_words_of_a_translation_are_decided_as_sources_says(name: str) -> None:
    checkpoint = load(f"checkpoints/{name}")
    run = translate(checkpoint, checkpoint.examples[1])
    found = attribution.deciding(checkpoint, run)
    how = "hidden" if name == "multi30k-en-de" else "removed"
    answer = deletion(run.scored_sequence(checkpoint), how, words=True)
    assert list(found.columns) == list(deciding(answer.of_source, answer.steps.special, answer.source.special).columns)
    assert max(found.columns) > 0


WORDS = ([0], [1, 2], [3], [4], [5])
"""Source positions of each word; the last position is the end token."""


@pytest.fixture(scope="module")
def sequence() -> ScoredSequence:
    """Words of one and of two pieces, on both sides."""
    pieces = ["▁a", "▁b", "c", "▁d", "▁e", "▁f", "</s>"]
    source = Axis.of_pieces("source", pieces, [False] * 6 + [True])
    written = Axis.of_pieces("written", ["▁A", "▁B", "C", "▁D", "</s>"], [False] * 4 + [True])
    return replace(reference.scored_sequence(reference.model("torch")), source=source, written=written)


def lost_by_hand(sequence: ScoredSequence, hidden: list[int]) -> list[float]:
    """What each written word loses without the source words `hidden`; the end token is no word."""
    each = lost(sequence.model, hidden=[i for word in hidden for i in WORDS[word]])
    return [each[0], each[1] + each[2], each[3]]


def test_words_are_taken_in_the_order_of_each_ranking(sequence: ScoredSequence) -> None:
    answer = contributions(sequence)
    score = answer.merged().of_source[:3, :5]
    single = np.array([lost_by_hand(sequence, [word]) for word in range(5)]).T
    found = trust(sequence, {"contributions": answer})
    for name, table in (("contributions", score), ("deletion", single)):
        kept, alone = np.zeros((3, 5)), np.zeros((3, 5))
        for row in range(3):
            order = sorted(range(5), key=lambda word: -table[row, word])
            for i, percent in enumerate(PERCENTS):
                count = max(1, round(percent * 5 / 100 + 1e-9))
                kept[row, i] = lost_by_hand(sequence, order[:count])[row]
                alone[row, i] = lost_by_hand(sequence, order[count:])[row]
        np.testing.assert_allclose(found[name].comprehensiveness, kept, atol=1e-9)
        np.testing.assert_allclose(found[name].sufficiency, alone, atol=1e-9)
    expected = [stats.spearmanr(score[row], single[row]).statistic for row in range(3)]
    np.testing.assert_allclose(found["contributions"].spearman, expected, atol=1e-9)
    np.testing.assert_allclose(found["deletion"].spearman, 1.0, atol=1e-9)
    one = trust(sequence.until(3), {"contributions": answer}, chosen=[1])  # the second word is two pieces
    for name, of_one in one.items():
        np.testing.assert_allclose(of_one.comprehensiveness, found[name].comprehensiveness[1:2], atol=1e-9)
        np.testing.assert_allclose(of_one.sufficiency, found[name].sufficiency[1:2], atol=1e-9)


def test_chance_is_the_mean_of_random_orders_and_stays_the_same(sequence: ScoredSequence) -> None:
    first, again = (trust(sequence, {})["random"] for _ in range(2))
    np.testing.assert_array_equal(first.comprehensiveness, again.comprehensiveness)
    every = [sum(lost_by_hand(sequence, [word])) for word in range(5)]
    assert min(every) <= first.comprehensiveness[:, 0].sum() <= max(every)
    assert (len(first.spearman), np.isnan(first.spearman).all()) == (3, True)


def test_a_row_without_numbers_is_not_ranked(sequence: ScoredSequence) -> None:
    answer = contributions(sequence)
    values = answer.values.copy()
    values[0] = np.nan
    found = trust(sequence, {"contributions": replace(answer, values=values)})["contributions"]
    for numbers in (found.comprehensiveness[:, 0], found.sufficiency[:, 0], found.spearman):
        assert list(np.isnan(numbers)) == [True, False, False]


def test_a_source_of_one_word_has_figures_but_no_correlation() -> None:
    given = reference.scored_sequence(reference.model("torch"), source=(7, 2), read=(1,), written=(9,))
    found = trust(given, {})
    assert np.isfinite(found["deletion"].comprehensiveness).all()
    assert np.isnan(found["deletion"].spearman).all()


@pytest.mark.parametrize(("percent", "n", "count"), [(10, 3, 1), (50, 5, 3), (50, 4, 2), (30, 11, 3), (50, 1, 1)])
def test_at_least_one_word_is_taken_and_halves_are_rounded_up(percent: int, n: int, count: int) -> None:
    assert counted(percent, n) == count

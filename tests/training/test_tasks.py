"""Small tasks: what is right, worked out letter by letter; one run however it is asked for; smoothing and schedules."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from heedmap import load, translate
from heedmap.errors import TrainingError
from heedmap.nn.common import pad
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.training import snapshots
from heedmap.training.descent import NextTokenLoss
from heedmap.training.snapshots import Learning, Snapshot, at_start, checkpoint, labels, packed, texts, unpacked
from heedmap.training.tasks import CHOICES, TASKS, Settings, new_model, noam
from tests import toy

SMALL = Settings(d_model=16)
REPEAT = Settings(task="repeat", n_layers=2, n_heads=1, rate=0.005)


def read_and_written(settings: Settings) -> list[tuple[str, str]]:
    """The unseen sequences as a person reads them."""
    *source, target = settings.tensors(settings.held_out())
    texts = (map(settings.learned.tokenizer.decode, side.tolist()) for side in (source[0], target))
    return list(zip(*texts, strict=True))


@pytest.mark.parametrize("seed", [0, 5])
def test_what_is_to_be_written_is_right(seed: int) -> None:
    for task, answer in {
        "reverse": lambda read: read[::-1],
        "copy": lambda read: read,
        "sort": sorted,
        "add": lambda read: list(f"{int(''.join(read[:2])) + int(''.join(read[3:])):03d}"),
    }.items():
        for read, written in read_and_written(Settings(task=task, seed=seed)):
            assert written.split() == list(answer(read.split()))


def test_a_pattern_repeats_with_a_period_that_differs_and_its_twins_are_found_by_looking() -> None:
    rows = REPEAT.held_out()
    periods = set()
    right = TASKS["repeat"].places(rows)  # type: ignore[misc]
    for row, places in zip(rows.tolist(), right, strict=True):
        period = next(n for n in range(1, 32) if row[n:] == row[: 32 - n])
        periods.add(period)
        assert len(set(row[:period])) == period
        for place, earlier in enumerate(places):
            expected = {before + 1 for before in range(place) if row[before] == row[place]}
            assert set(earlier.nonzero().flatten().tolist()) == expected
    assert periods == set(range(5, 11))


@pytest.mark.parametrize("task", ["reverse", "sort"])
def test_the_right_position_holds_the_letter_that_is_written(task: str) -> None:
    settings = Settings(task=task, seed=3)
    right = settings.right_places(settings.held_out())
    assert right is not None
    for (read, written), places in zip(read_and_written(settings), right, strict=True):
        for letter, place in zip(written.split(), places, strict=True):
            found = [read.split()[one] for one in place.nonzero().flatten().tolist()]
            assert set(found) == {letter}
            assert task == "reverse" or len(found) == read.split().count(letter)


def test_what_measures_is_never_trained_on() -> None:
    settings = Settings(task="add", seed=2)  # 10,000 sums in all, so that batches would meet the 200 soon
    unseen = {tuple(row) for row in settings.held_out().tolist()}
    for update in range(1, 60):
        batch = settings.batch(update)
        assert len(batch) == 64
        assert unseen.isdisjoint(map(tuple, batch.tolist()))


def same(one: Snapshot, other: Snapshot) -> bool:
    first, second = (replace(found.measures, seconds=0.0, train_loss=None) for found in (one, other))
    return first == second and all(torch.equal(values, other.weights[name]) for name, values in one.weights.items())


def test_a_run_is_a_function_of_its_settings_however_its_updates_are_asked_for() -> None:
    dropping = replace(SMALL, dropout=True)
    whole, parts, other = Learning(dropping), Learning(dropping), Learning(replace(dropping, seed=2))
    whole.advance(7)
    for update in (2, 3, 7):
        torch.manual_seed(update)  # what others draw meanwhile is no matter
        parts.advance(update)
        parts.snapshot()
    other.advance(7)
    assert same(whole.snapshot(), parts.snapshot())
    assert not same(whole.snapshot(), other.snapshot())


def test_a_snapshot_is_of_the_model_that_a_file_of_it_opens(tmp_path: Path) -> None:
    run = Learning(replace(SMALL, task="sort"))
    run.advance(20)
    found = run.snapshot()
    settings, (again,) = unpacked(packed(run.settings, [found]))
    assert settings == run.settings
    assert again.measures == found.measures
    (tmp_path / "sort.zip").write_bytes(checkpoint(settings, again))
    opened = load(tmp_path / "sort.zip")
    assert list(opened.examples) == texts(settings)
    read = translate(opened, opened.examples[0], forced=read_and_written(settings)[0][1])
    for site, values in found.maps.items():
        np.testing.assert_allclose(read.record[site].all_weights(), values, atol=1e-6)
    assert labels(settings)[1] == [*opened.examples[0].split(), "</s>"]


def test_without_its_mask_the_decoder_sees_the_answer_in_training_alone() -> None:
    for sees in (False, True):
        model = new_model(replace(SMALL, sees_future=sees))
        source, target = SMALL.tensors(SMALL.held_out()[:3])
        changed = target.clone()
        changed[:, 5] = 4 + (changed[:, 5] - 3) % 10
        for training in (False, True):
            model.train(training)
            before, after = (model(source, one)[:, :5] for one in (target, changed))
            assert torch.equal(before, after) == (not (sees and training))


def test_attention_alone_learns_a_repeated_pattern() -> None:
    run = Learning(REPEAT)
    run.advance(10)
    weights = run.snapshot().weights
    idle = [values for name, values in weights.items() if "feed_forward." in name]
    assert len(idle) == 8
    assert not any(bool(values.any()) for values in idle)
    assert any(bool(values.any()) for name, values in weights.items() if name.startswith("decoder.1.self_attention"))


def test_reversing_is_learned_and_answers_are_right_before_attention_is_sharp() -> None:
    run = Learning(Settings())
    run.advance(120)
    found = run.snapshot().measures
    assert found.accuracy >= 0.95
    assert found.sharpest is not None
    assert 0.4 < found.sharpest[2] < 0.9


def test_the_loss_with_smoothing_is_that_of_the_formula() -> None:
    torch.manual_seed(1)
    sizes = dict(source_vocab=13, target_vocab=11, n_encoder_layers=1, n_decoder_layers=1)
    model = Seq2Seq(Seq2SeqConfig.of(d_model=8, n_heads=2, d_ff=6, dropout=0.0, **sizes)).double().eval()
    source, target = torch.randint(3, 13, (5, 7)), torch.randint(3, 11, (5, 4))
    target[2, 3] = 0  # padding is not counted
    expected = 0.0
    scores = model(source, target[:, :-1]).detach().numpy()
    for row in range(5):
        for place in range(3):
            right = int(target[row, place + 1])
            if right:
                logs = scores[row, place] - np.log(np.exp(scores[row, place]).sum())
                expected -= 0.9 * logs[right] + 0.1 / 11 * logs.sum()
    assert NextTokenLoss(model, 0.1)(source, target).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("attention", ["dot product", "additive", "location"])
def test_the_loss_counts_each_real_token_once(attention: str) -> None:
    """Padding adds nothing, and a row without real tokens gives zero and no gradient."""
    words = toy.tokenizer()
    model: Seq2Seq | Recurrent = toy.model(words)
    if attention != "dot product":
        vocabulary = dict(source_vocab=len(words), target_vocab=len(words), pad_id=words.pad_id, bos_id=words.bos_id)
        sizes = dict(hidden=7, d_embedding=5, attention=attention, bidirectional=True, max_length=32)
        model = Recurrent(RecurrentConfig.of(**vocabulary, **sizes, eos_id=words.eos_id, deep_output=True))
    learner = NextTokenLoss(model.eval(), label_smoothing=0.1)
    rows = [(words.source_ids(s), words.target_ids(t)) for s, t in toy.sentences(5, seed=1)]
    together = learner(pad([s for s, _ in rows], words.pad_id), pad([t for _, t in rows], words.pad_id))
    alone = sum(learner(torch.tensor([s]), torch.tensor([t])) for s, t in rows)
    torch.testing.assert_close(together, alone)
    nothing = learner(torch.tensor([[words.eos_id]]), torch.tensor([[words.bos_id, words.pad_id]]))
    assert nothing.item() == 0
    nothing.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_smoothed_targets_sum_to_one_and_the_loss_is_least_there() -> None:
    target = snapshots.smoothed_target(0.1, 14)
    np.testing.assert_allclose(target, [0.9 + 0.1 / 14, *[0.1 / 14] * 13], atol=1e-12)
    given = np.linspace(0.5, 0.999, 500)
    expected = [-(0.9 + 0.1 / 14) * np.log(p) - 13 * (0.1 / 14) * np.log((1 - p) / 13) for p in given]
    losses = snapshots.smoothed_losses(given, 0.1, 14)
    np.testing.assert_allclose(losses, expected, atol=1e-9)
    assert given[losses.argmin()] == pytest.approx(target[0], abs=0.001)
    assert snapshots.smoothed_losses(given, 0.0, 14) == pytest.approx(-np.log(given))


def test_warm_up_is_that_of_the_paper() -> None:
    for update in (1, 5, 37, 38, 500, 3_999):
        paper = 64**-0.5 * min(update**-0.5, update * 37**-1.5)
        assert noam(update, 37) * (64 * 37) ** -0.5 == pytest.approx(paper, abs=1e-12)
    assert Settings(rate=0.01).rate_of(3) == 0.01
    assert Settings(rate=0.01, warmup=True).rate_of(50) == pytest.approx(0.01 / 4)


def test_a_bad_start_is_four_times_as_wide_and_saturates_attention() -> None:
    good, bad = (new_model(replace(SMALL, xavier=xavier)) for xavier in (True, False))
    for (name, one), other in zip(good.named_parameters(), bad.parameters(), strict=True):
        assert torch.equal(other, one * 4 if one.dim() > 1 else one), name
    (calm, gradient), (sharp, steep) = (at_start(Settings(xavier=xavier)) for xavier in (True, False))
    largest = [one.maps["decoder.0.cross"].max(2).mean() for one in (calm, sharp)]
    assert 2 * largest[0] < largest[1]
    assert gradient < steep


def test_settings_are_what_an_address_says_and_nothing_else() -> None:
    said = Settings.of({"task": "add", "d_model": "64", "rate": "0.01", "warmup": "true", "seed": "12"})
    assert said == Settings(task="add", d_model=64, rate=0.01, warmup=True, seed=12)
    assert all(Settings.of({name: one}) for name, values in CHOICES.items() for one in values)
    for name, value in {"task": "steal", "d_model": "33", "warmup": "yes", "seed": "-1", "rat": "1"}.items():
        with pytest.raises(TrainingError, match="makes no run"):
            Settings.of({name: value})

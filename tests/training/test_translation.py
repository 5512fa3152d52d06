"""Parallel text, cut into batches that bound memory; options of a run, and the learning rate they stand for."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from transformer.errors import InputError, TrainingError
from transformer.messages import Message
from transformer.training.options import TranslationOptions
from transformer.training.translation import Pair, ParallelText, epoch_batches, pairs

TOKENIZER = toy.tokenizer()
HERE = Path()


def test_both_sides_are_read_line_by_line(tmp_path: Path) -> None:
    text = ParallelText.read(toy.write_corpus(tmp_path / "toy"), "val", ("en", "de"))
    assert list(zip(text.source, text.target, strict=True)) == toy.sentences(7, seed=7)
    assert len(text) == 7
    assert text.lines == text.source + text.target


def test_texts_that_do_not_match_are_refused(tmp_path: Path) -> None:
    folder = toy.write_corpus(tmp_path / "toy")
    with pytest.raises(InputError, match=r"val\.fr cannot be read"):
        ParallelText.read(folder, "val", ("en", "fr"))
    (folder / "val.de").write_text("eins\n")
    with pytest.raises(TrainingError, match=r"val\.en has 7 lines and val\.de has 1"):
        ParallelText.read(folder, "val", ("en", "de"))
    for language in ("en", "de"):
        (folder / f"val.{language}").write_text("")
    with pytest.raises(TrainingError, match=r"val\.en is empty"):
        ParallelText.read(folder, "val", ("en", "de"))


def test_pairs_carry_their_marks_and_useless_ones_are_left_out() -> None:
    text = ParallelText(["the dog", "", "the cat", "the " * 50], ["der Hund", "der Hund", "", "der"])
    (pair,) = pairs(text, TOKENIZER, max_tokens=40)
    assert pair == Pair(TOKENIZER.source_ids("the dog"), TOKENIZER.target_ids("der Hund"))
    assert pair.n_written == len(pair.target) - 1


def test_subword_dropout_cuts_anew_for_each_seed() -> None:
    text = ParallelText(["the woman sleeps."] * 5, ["der Vogel schläft."] * 5)
    usual = pairs(text, TOKENIZER, 40)
    first, again, other = (pairs(text, TOKENIZER, 40, 0.3, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first != usual
    assert {TOKENIZER.decode(pair.target) for pair in first} == {"der Vogel schläft."}


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1), st.integers(20, 90), st.integers(0, 9))
def test_an_epoch_holds_every_pair_once_in_batches_of_bounded_size(
    lengths: list[tuple[int, int]], tokens: int, epoch: int
) -> None:
    data = [Pair([i] * source, [i] * target) for i, (source, target) in enumerate(lengths)]
    batches = list(epoch_batches(data, tokens, seed=1, epoch=epoch))
    assert sorted(pair.source[0] for batch in batches for pair in batch) == list(range(len(data)))
    for batch in batches:
        width = max(max(len(pair.source), len(pair.target)) for pair in batch)
        assert width * len(batch) <= tokens
    assert batches == list(epoch_batches(data, tokens, seed=1, epoch=epoch))


def test_companions_change_from_epoch_to_epoch() -> None:
    data = [Pair([i] * 4, [i] * 5) for i in range(30)]
    first, second = (list(epoch_batches(data, 50, seed=1, epoch=epoch)) for epoch in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    "option",
    [
        dict(vocab_size=0), dict(d_model=0), dict(updates=0), dict(warmup=0), dict(batch_tokens=0), dict(average=0),
        dict(save_every=0), dict(validate_every=0), dict(threads=0), dict(stop_after=0), dict(max_tokens=2),
        dict(dropout=1.0), dict(label_smoothing=-0.1), dict(subword_dropout=1.5), dict(dropout=float("nan")),
        dict(clip=-1.0), dict(d_embedding=-1), dict(architecture="rnn"), dict(cooldown=1.1), dict(peak_rate=0.0),
        dict(peak_rate=float("inf")), dict(subword_epochs=-1), dict(positions="rotary"),
    ],
)  # fmt: skip
def test_options_that_make_no_run_are_refused(option: dict[str, Any]) -> None:
    name, value = next(iter(option.items()))
    with pytest.raises(TrainingError, match=f"{name}={value} makes no run: choose") as caught:
        TranslationOptions(data=HERE, work=HERE, **option)
    assert isinstance(caught.value.message, Message)
    assert f"{name}={value} 不能训练" in caught.value.message.in_language("zh")


def test_the_rate_rises_then_falls_with_the_root_and_at_last_to_zero() -> None:
    options = TranslationOptions(data=HERE, work=HERE, updates=1000, warmup=100, peak_rate=0.01, cooldown=0.25)
    assert options.rate(50) == pytest.approx(0.005)
    assert options.rate(100) == 0.01
    assert options.rate(400) == pytest.approx(0.005)
    assert options.rate(751) == pytest.approx(0.01 * (100 / 751) ** 0.5)
    assert options.rate(876) == pytest.approx(0.01 * (100 / 876) ** 0.5 / 2)
    assert 0 < options.rate(1000) < 0.0001
    rates = [options.rate(update) for update in range(1, 1001)]
    assert max(rates) == rates[99]


def test_what_decides_the_result_leaves_out_places_and_pace() -> None:
    options = toy.training_options(HERE / "a", HERE / "b", threads=3, stop_after=5, seed=7)
    assert "data" not in options.deciding()
    assert options.deciding() == toy.training_options(HERE, HERE, seed=7).deciding()
    assert options.changed()["seed"] == 7
    assert "dropout" not in options.changed()
    assert options.languages == ("en", "de")

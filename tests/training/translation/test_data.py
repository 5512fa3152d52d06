"""Parallel text: read line by line, encoded with its marks, and cut into batches that bound memory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from transformer.errors import InputError, TrainingError
from transformer.training.translation.data import Pair, ParallelText, epoch_batches, pairs

TOKENIZER = toy.tokenizer()


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

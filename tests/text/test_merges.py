"""Merges skipped at random: SentencePiece's cut without dropout, the right distribution with it, in every process."""

import hashlib
import io
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from transformer.errors import TrainingError
from transformer.lessons.architectures.pairs import REFERENCES
from transformer.messages import Message
from transformer.text.text import TextTokenizer

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = toy.tokenizer()
SCORES = {TOKENIZER.labels([i])[0]: TOKENIZER._pieces.get_score(i) for i in range(4, len(TOKENIZER))}
LINES = [side for pair in toy.sentences(40, seed=5) for side in pair]


@given(st.text("thewomanbirdsluf. ▁☃é\u3000\t", max_size=40))
def test_without_dropout_the_cut_is_sentencepieces(text: str) -> None:
    assert TOKENIZER.sample([text], 0.0, seed=1) == [TOKENIZER.encode(text)]


def distribution(spans: tuple[str, ...], blocked: frozenset[int], dropout: float) -> dict[tuple[str, ...], float]:
    """Every way to cut a word and its probability, by brute force: the best pair is due first, the left one of equals.

    A pair is blocked by the place between its sides, in letters; it is free again when one of its sides grows.
    """
    places = [len("".join(spans[: i + 1])) for i in range(len(spans) - 1)]
    due = [
        (-SCORES[pair], i)
        for i, place in enumerate(places)
        if place not in blocked and (pair := spans[i] + spans[i + 1]) in SCORES
    ]
    if not due:
        return {spans: 1.0}
    _, i = min(due)
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for cut, share in distribution(spans, blocked | {places[i]}, dropout).items():
        found[cut] += dropout * share
    merged = (*spans[:i], spans[i] + spans[i + 1], *spans[i + 2 :])
    beside = set(places[max(0, i - 1) : i + 2])
    for cut, share in distribution(merged, blocked - beside, dropout).items():
        found[cut] += (1 - dropout) * share
    return dict(found)


@pytest.mark.parametrize("word", ["the", "woman", "sleeps", "und"])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_each_cut_is_as_frequent_as_its_probability(word: str, dropout: float) -> None:
    expected = distribution(tuple(f"▁{word}"), frozenset(), dropout)
    times = 4_000
    drawn = Counter(tuple(TOKENIZER.labels(ids)) for ids in TOKENIZER.sample([word] * times, dropout, seed=11))
    assert drawn.keys() <= expected.keys()
    for cut, share in expected.items():
        deviation = (share * (1 - share) / times) ** 0.5
        assert drawn[cut] / times == pytest.approx(share, abs=5 * deviation + 1e-4), cut


def test_the_seed_and_the_dropout_decide() -> None:
    first = TOKENIZER.sample(LINES, 0.3, seed=2)
    assert first == TOKENIZER.sample(LINES, 0.3, seed=2)
    assert first == TextTokenizer(TOKENIZER.model).sample(LINES, 0.3, seed=2), "nothing is remembered that changes it"
    assert first != TOKENIZER.sample(LINES, 0.3, seed=3)
    assert first != TOKENIZER.sample(LINES, 0.4, seed=2)
    assert [TOKENIZER.decode(ids) for ids in first] == LINES


def test_every_process_cuts_alike() -> None:
    """Other processes, with other seeds of Python's own hashes."""
    program = (
        "import hashlib; from tests import toy; from tests.text.test_merges import LINES;"
        "print(hashlib.sha256(repr(toy.tokenizer().sample(LINES, 0.3, seed=7)).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(TOKENIZER.sample(LINES, 0.3, seed=7)).encode()).hexdigest()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == here


def test_a_low_dropout_does_not_use_up_a_draw_for_each_merge() -> None:
    """What makes it quick: a word whose merges all happen costs one draw."""
    draws = Random(0)
    TOKENIZER._merges.cut("▁the▁woman", 1e-9, draws)
    expected = Random(0)
    expected.random(), expected.random()
    assert draws.random() == expected.random()


def test_a_vocabulary_without_merges_is_refused() -> None:
    model, lines = io.BytesIO(), [*REFERENCES, *REFERENCES.values()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=120, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    with pytest.raises(TrainingError, match="pieces by merges of pairs") as caught:
        TextTokenizer(model.getvalue()).sample(lines, 0.1, seed=1)
    assert isinstance(caught.value.message, Message)
    assert "成对合并" in caught.value.message.in_language("zh")

"""From where on an input is far from what a checkpoint knows: bounds by quantiles, and what they call far."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import toy
from transformer import Checkpoint, DecodingOptions, load, translate
from transformer.checkpoint.ours.folder import load_snapshot
from transformer.errors import CheckpointError, InputError
from transformer.runs.measures import out_of_distribution
from transformer.runs.measures.out_of_distribution import Counts, TextBounds, counts_of, known_bounds, measured

FOLDER = Path(__file__).parents[2] / "checkpoints" / "multi30k-en-de"
TEXTS = {"en": "toys", "zh": "玩具"}
GREEDY = DecodingOptions(beam=1, max_length=12)


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return load(FOLDER)


def test_bounds_are_quantiles_of_held_out_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_distribution, "FEWEST_SENTENCES", 11)
    monkeypatch.setattr(out_of_distribution, "TAIL", 0.1)
    checkpoint = load(toy.write_checkpoint(tmp_path / "toy"))
    texts = [source for source, _ in toy.sentences(23, seed=5)]
    others = [" ".join(reversed(text.split())) for text in texts[:5]]
    found = measured(checkpoint, ["", *texts], TEXTS, GREEDY, others)
    ids = [checkpoint.tokenizer.encode(text) for text in texts]
    seen = [{piece for j, other in enumerate(ids) if j != i for piece in other} for i in range(len(ids))]
    new = [np.mean([piece not in known for piece in one]) for one, known in zip(ids, seen, strict=True)]
    assert found.new_pieces == pytest.approx(np.quantile(new, 0.9), abs=1e-4)
    assert (set(map(int, found.pieces.split())), found.others) == ({piece for one in ids for piece in one}, 5)
    words, pieces, log_probs = [], [], []
    for text in texts:
        run = translate(checkpoint, text, GREEDY)
        words.append(text.count(" ") + 1)
        pieces.append(len(checkpoint.tokenizer.encode(text)) / words[-1])
        log_probs.append(sum(np.log(step.probability) for step in run.steps) / len(run.steps))
    assert (found.sentences, found.words, found.texts) == (23, min(words), TEXTS)
    assert found.pieces_per_word == pytest.approx(np.quantile(pieces, 0.9), abs=1e-4)
    assert found.log_prob_per_token == pytest.approx(np.quantile(log_probs, 0.1), abs=1e-3)
    assert 0 < found.false_alarms < 0.5
    assert counts_of(checkpoint, translate(checkpoint, texts[0], GREEDY)).words == words[0]


KNOWN = TextBounds(
    TEXTS, 100, words=4, pieces_per_word=2.0, log_prob_per_token=-0.8, new_pieces=0.25, pieces="3 5 7",
    false_alarms=0.05, caught=0.75, others=40,
)  # fmt: skip


def test_each_reason_is_said_and_a_bound_itself_is_near() -> None:
    known, near = KNOWN, Counts(4, 2.0, -0.8, (3, 5, 5, 11))
    assert known.reasons(near) == ()
    assert [reason.code for reason in known.reasons(replace(near, pieces=(3, 11, 12)))] == ["far_new_pieces"]
    assert [reason.code for reason in known.reasons(replace(near, words=3))] == ["far_few_words"]
    assert [reason.code for reason in known.reasons(replace(near, pieces_per_word=2.1))] == ["far_many_pieces"]
    assert [reason.code for reason in known.reasons(replace(near, log_prob_per_token=-0.9))] == ["far_unlikely"]
    assert len(known.reasons(Counts(1, 3.0, -1.0))) == 3


def test_the_shipped_translator_tells_captions_from_what_it_never_read(shipped: Checkpoint) -> None:
    known = known_bounds(shipped)
    assert known is not None
    assert 0.02 <= known.false_alarms <= 0.06
    assert known.caught >= 0.85
    far = (
        "Hello",
        "There are 3 dogs and 25 cats in 2024.",
        "He was born in 1987 in London.",
        "dog",
        "I love you",
        "THE CAT SAT ON THE MAT",
        "你好世界",
        "To be or not to be, that is the question.",
    )
    assert [text for text in far if not known.reasons(counts_of(shipped, translate(shipped, text)))] == []
    near = (*shipped.examples, "A brown dog runs across a green field.", "Two men in red shirts play football.")
    assert [text for text in near if known.reasons(counts_of(shipped, translate(shipped, text)))] == []
    snapshot = load_snapshot(shipped, FOLDER / "history" / "000050.safetensors")
    assert known_bounds(snapshot) is None


def test_what_is_known_survives_its_file_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "familiarity.json"
    known = KNOWN
    out_of_distribution.write_bounds(file, known)
    assert out_of_distribution.read_bounds(file) == known
    about = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**about, "texts": {"en": "toys"}}), "utf-8")  # of before another language was there
    assert set(out_of_distribution.read_bounds(file).texts.values()) == {"toys"}
    for changes in ({"texts": {"zh": "toys"}}, {"texts": {**TEXTS, "zh": 3}}, {"words": "x"}, {"false_alarms": "nan"}):
        file.write_text(json.dumps({**about, **changes}), "utf-8")
        with pytest.raises(CheckpointError, match="python -m transformer measure familiarity"):
            out_of_distribution.read_bounds(file)


def test_too_few_sentences_are_refused(shipped: Checkpoint) -> None:
    with pytest.raises(InputError, match="1 sentences can be read, at least 100"):
        measured(shipped, ["A dog.", ""], TEXTS)

"""SentencePiece text: what goes in comes out, marks leave no trace, and what cannot be read is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import toy
from transformer.errors import CheckpointError, InputError, TrainingError
from transformer.text.batch import pad
from transformer.text.text import SPACE, TextTokenizer, train_tokenizer

TOKENIZER = toy.tokenizer()
WORDS = [*toy.NOUNS, *toy.NOUNS.values(), *toy.VERBS.values(), "the", "und"]


@given(st.lists(st.sampled_from(WORDS)))
def test_known_words_come_back(words: list[str]) -> None:
    text = " ".join(words)
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    assert TOKENIZER.decode(TOKENIZER.source_ids(text)) == text
    assert TOKENIZER.decode([*TOKENIZER.target_ids(text), TOKENIZER.pad_id]) == text


def test_marks_stand_where_models_expect_them() -> None:
    ids = TOKENIZER.encode("the dog")
    assert TOKENIZER.source_ids("the dog") == [*ids, TOKENIZER.eos_id]
    assert TOKENIZER.target_ids("the dog") == [TOKENIZER.bos_id, *ids, TOKENIZER.eos_id]
    assert (TOKENIZER.pad_id, TOKENIZER.bos_id, TOKENIZER.eos_id) == (0, 2, 3)
    assert [TOKENIZER.is_special(i) for i in range(5)] == [True, False, True, True, False]
    assert len(TOKENIZER) == 53


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert all(0 <= i < len(TOKENIZER) for i in ids)
    assert len(TOKENIZER.pieces(text)) == len(ids)


def test_labels_are_pieces_and_pieces_show_unknown_characters() -> None:
    assert "".join(TOKENIZER.labels(TOKENIZER.encode("the dog"))) == f"{SPACE}the{SPACE}dog"
    assert "".join(TOKENIZER.pieces("the ☃")) == f"{SPACE}the{SPACE}☃"


def test_sampling_cuts_words_at_random_but_the_same_for_the_same_seed() -> None:
    texts = ["the woman and the bird sleeps."] * 20
    first = TOKENIZER.sample(texts, 0.5, seed=3)
    assert first == TOKENIZER.sample(texts, 0.5, seed=3)
    assert first != TOKENIZER.sample(texts, 0.5, seed=4)
    assert len({tuple(ids) for ids in first}) > 5
    assert {TOKENIZER.decode(ids) for ids in first} == {texts[0]}


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(InputError, match="character 3 of the text is half of a broken character"):
        TOKENIZER.encode("ab\ud800")


def test_a_tokenizer_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(TOKENIZER.model)
    assert TextTokenizer.read(path).encode("the dog") == TOKENIZER.encode("the dog")
    path.write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        TextTokenizer.read(path)
    with pytest.raises(CheckpointError, match=r"missing\.model cannot be read: No such file"):
        TextTokenizer.read(tmp_path / "missing.model")


def test_training_a_tokenizer_is_reproducible() -> None:
    assert toy.tokenizer().model == TOKENIZER.model


@pytest.mark.parametrize(
    ("size", "reason"), [(5, "smaller than required_chars"), (1000, r"too high \(1000\). Please set it to a value <=")]
)
def test_a_vocabulary_that_the_text_cannot_fill_is_refused(size: int, reason: str) -> None:
    with pytest.raises(TrainingError, match=f"vocab_size={size} does not suit the training text: .*{reason}"):
        train_tokenizer(["the dog runs", "der Hund läuft"], size)


def test_short_rows_are_filled_up_at_the_end() -> None:
    assert pad([[5], [6, 7, 8], []], pad_id=9).tolist() == [[5, 9, 9], [6, 7, 8], [9, 9, 9]]


def test_a_piece_that_is_no_text_is_refused_when_it_is_read():
    """The piece's bytes are changed within the file, whose format is that of a table with lengths."""
    sound = train_tokenizer(["a man rides a bicycle", "two men ride"] * 3, 40)
    piece = max(sound.labels(range(4, 40)), key=len)
    damaged = sound.model.replace(piece.encode(), b"\xff" * len(piece.encode()), 1)
    assert damaged != sound.model
    with pytest.raises(CheckpointError, match=r"its piece \d+ is no UTF-8 text"):
        TextTokenizer(damaged)

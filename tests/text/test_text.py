"""Vocabularies and tokenizers: ids and text there and back; lines of a file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.errors import CheckpointError, InputError, TrainingError
from heedmap.nn.common import pad
from heedmap.text.base import read_lines, split_lines
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer
from tests import toy

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
    assert "".join(TOKENIZER.pieces("the ☃")) == "▁the▁☃"  # what the vocabulary lacks is shown
    assert "".join(TOKENIZER.labels(TOKENIZER.encode("the dog"))) == "▁the▁dog"
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


@pytest.mark.parametrize(
    ("size", "reason"), [(5, "smaller than required_chars"), (1000, r"too high \(1000\). Please set it to a value <=")]
)
def test_a_vocabulary_that_the_text_cannot_fill_is_refused(size: int, reason: str) -> None:
    assert toy.tokenizer().model == TOKENIZER.model  # another training gives the same
    with pytest.raises(TrainingError, match=f"vocab_size={size} does not suit the training text: .*{reason}"):
        train_tokenizer(["the dog runs", "der Hund läuft"], size)


def test_short_rows_are_filled_up_at_the_end() -> None:
    assert pad([[5], [6, 7, 8], []], pad_id=9).tolist() == [[5, 9, 9], [6, 7, 8], [9, 9, 9]]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
    ],
)
def test_lines_of_a_file(content: bytes, lines: list[str]) -> None:
    assert split_lines(content, "the input") == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))))
def test_what_was_joined_is_split_again(lines: list[str]) -> None:
    assert split_lines("".join(line + "\n" for line in lines).encode(), "the input") == lines


def test_a_file_that_cannot_be_read_is_named_and_bytes_that_are_not_utf_8_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes("gut\n\nGrüße\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 3 of .*a\.en is not UTF-8 \(byte 0xfc\): convert it"):
        read_lines(tmp_path / "a.en")
    with pytest.raises(InputError, match=r"b\.en cannot be read \(No such file or directory\)"):
        read_lines(tmp_path / "b.en")

"""Axes: labels that stay apart, pieces that make up words, and what merging and keeping do to both."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.errors import InputError
from heedmap.plots.axes import WORD_START, Axis

tokens = st.lists(st.sampled_from(["the", "▁the", "the (1)", "the (2)", "the (1) (2)", "", "é", "😀"]), max_size=11)
pieces = st.lists(st.tuples(st.sampled_from(["▁a", "b", "▁", "c▁", "</s>"]), st.booleans()), min_size=1, max_size=13)


def axis_of(pairs: list[tuple[str, bool]]) -> Axis:
    return Axis.of_pieces("source", [piece for piece, _ in pairs], [special for _, special in pairs])


@given(tokens)
def test_labels_are_unique_and_begin_with_their_token(texts: list[str]) -> None:
    labels = Axis.of_tokens("key", texts).labels
    assert len(set(labels)) == len(labels) == len(texts)
    assert all(label.startswith(text) for label, text in zip(labels, texts, strict=True))
    assert all(label == text for label, text in zip(labels, texts, strict=True) if texts.count(text) == 1)


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["the", "man", "the"], ("the (1)", "man", "the (2)")),
        (["the", "the", "the (2)"], ("the (1)", "the (3)", "the (2)")),  # a number that is a token of its own
        ([], ()),
    ],
)
def test_repeated_tokens_are_counted(texts: list[str], labels: tuple[str, ...]) -> None:
    axis = Axis.of_tokens("key", texts)
    assert axis.labels == labels
    assert axis.words == tuple(range(len(texts)))
    assert axis.membership.shape == (len(texts), len(texts))


@given(pieces)
def test_words_are_made_of_all_pieces_and_marks_stand_alone(pairs: list[tuple[str, bool]]) -> None:
    axis = axis_of(pairs)
    merged, member = axis.merged(), axis.membership
    assert axis.words[0] == 0
    assert set(np.diff(axis.words)) <= {0, 1}
    assert all(axis.words.count(axis.words[i]) == 1 for i, mark in enumerate(axis.special) if mark)
    assert member.shape == (len(merged), len(axis))
    assert member.sum(axis=0).tolist() == [1.0] * len(axis)
    assert [int(word) for word in member.argmax(axis=0)] == list(axis.words)
    plain = "".join(axis.texts).replace(WORD_START, "")
    assert "".join(merged.texts).replace(WORD_START, "").replace(" ", "") == plain
    assert all(merged.texts)
    assert (merged.name, sum(merged.special)) == (axis.name, sum(axis.special))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Punctuation around a word is a word by itself; within a word it belongs to it; one piece is not cut.
        ("▁the|▁str|eet|.|</s>", ("the", "street", ".", "</s>")),
        ('▁"|Hello|,|▁he|▁said|!|"', ('"', "Hello", ",", "he", "said", '!"')),
        ("▁|„|Hall|o|“|▁(|a|b|)", ("„", "Hallo", "“", "(", "ab", ")")),
        ("▁a|▁-|▁b|▁...|▁|c", ("a", "-", "b", "...", "c")),
        ("▁don|'|t|▁t|-|shirt|▁cost|$|5", ("don't", "t-shirt", "cost$5")),
        ("▁stop.|▁now", ("stop.", "now")),
        ("<s>|un|▁Fahr|rad|er|▁fährt|</s>", ("<s>", "un", "Fahrrader", "fährt", "</s>")),
    ],
)
def test_words_begin_at_word_starts_and_after_marks(text: str, words: tuple[str, ...]) -> None:
    pieces = text.split("|")
    merged = Axis.of_pieces("source", pieces, [piece.startswith("<") for piece in pieces]).merged()
    assert merged.texts == words
    assert merged.special == tuple(word.startswith("<") for word in words)
    assert merged.words == tuple(range(len(words)))


def test_words_know_whether_a_space_stands_before_them() -> None:
    pieces = ["▁Hello", ",", "▁you", "!", "</s>"]
    axis = Axis.of_pieces("source", pieces, [False] * 4 + [True])
    assert axis.attached == (False, True, False, True, False)
    assert Axis.of_tokens("base", ["A", "C"]).attached == (False, False)
    assert Axis.of_tokens("base", []).attached == ()


def test_kept_positions_keep_what_is_known_of_them_but_their_grid() -> None:
    every = Axis.of_pieces("source", ["▁a", "b", "▁c", "</s>"], [False, False, False, True])
    axis = replace(every, grid=(2, 2)).kept([1, 3])
    assert axis == Axis("source", ("b", "</s>"), (0, 2), (False, True), grid=None)
    assert axis.membership.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("text", "offsets", "words", "merged"),
    [
        ("unbelievable stuff", [(0, 2), (2, 12), (13, 18)], (0, 0, 1), ("unbelievable", "stuff")),
        ("a new  dog.", [(0, 1), (1, 5), (5, 10), (10, 11)], (0, 1, 2, 3), ("a", "new", "dog", ".")),  # spaces inside
        ("a new dog", [(0, 2), (2, 6), (6, 9)], (0, 1, 2), ("a", "new", "dog")),  # and at ends
        ("a (b)", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], (0, 1, 1, 2, 3), ("a", "(", "b", ")")),  # a space alone
        ("don't", [(0, 3), (3, 4), (4, 5)], (0, 0, 0), ("don't",)),
        ("x\ty", [(0, 1), (2, 3)], (0, 1), ("x", "y")),
        ("", [], (), ()),
    ],
)
def test_pieces_that_touch_are_a_word_and_white_space_divides(text, offsets, words, merged) -> None:
    axis = Axis.of_offsets("source", text, offsets)
    assert axis.words == words
    assert axis.merged().texts == merged
    assert not any(axis.special)


def test_special_tokens_stand_at_nothing_and_bytes_of_a_letter_share_its_place() -> None:
    offsets = np.array([(0, 0), (0, 1), (0, 1), (0, 2), (1, 2), (0, 0), (0, 0)])  # two letters of three bytes and two
    axis = Axis.of_offsets("source", "😀é", offsets)
    assert axis.special == (True, False, False, False, False, True, True)
    assert axis.words == (0, 1, 1, 1, 1, 2, 3)
    assert axis.texts[0] == "[special]"
    assert axis.labels[5] == "[special] (2)"
    named = Axis.of_offsets("source", "ab", [(0, 0), (0, 1), (1, 2), (0, 0)], ["[CLS]", "a", "##b", "[SEP]"])
    assert named.texts == ("[CLS]", "▁a", "b", "[SEP]")
    assert named.words == (0, 1, 1, 2)


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([(0, 1), (2, 9)], r"offset 1 is \(2, 9\), and the text has 5"),
        ([(-1, 1)], "the text has 5"),
        ([(3, 2)], "the text has 5"),
        ([(2, 3), (0, 1)], r"offset 1 is \(0, 1\), before"),
        ([(0, 5), (1, 2)], "before the one that precedes it"),
        ([(0, 0), (3, 5), (0, 0), (0, 2)], "offset 3"),
    ],
)
def test_offsets_of_another_text_are_refused(offsets, said) -> None:
    with pytest.raises(InputError, match=said):
        Axis.of_offsets("source", "ab cd", offsets)
    with pytest.raises(InputError, match=f"tokens has 7, offsets {len(offsets)}"):
        Axis.of_offsets("source", "ab cd", offsets, ["x"] * 7)

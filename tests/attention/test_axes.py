"""Axes: labels that stay apart, pieces that make up words, and what merging and keeping do to both."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.plots.axes import WORD_START, Axis

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


def test_repeated_tokens_are_counted() -> None:
    assert Axis.of_tokens("key", ["the", "man", "the"]).labels == ("the (1)", "man", "the (2)")


def test_a_number_that_is_a_token_of_its_own_is_passed_over() -> None:
    assert Axis.of_tokens("key", ["the", "the", "the (2)"]).labels == ("the (1)", "the (3)", "the (2)")


def test_words_begin_at_word_starts_and_after_marks() -> None:
    axis = Axis.of_pieces(
        "target", ["<s>", "un", "▁Fahr", "rad", "er", "▁fährt", "</s>"], [True, False, False, False, False, False, True]
    )
    assert axis.words == (0, 1, 2, 2, 2, 3, 4)
    assert axis.merged().texts == ("<s>", "un", "Fahrrader", "fährt", "</s>")
    assert axis.merged().special == (True, False, False, False, True)
    assert axis.merged().words == (0, 1, 2, 3, 4)


def words_of(text: str) -> tuple[str, ...]:
    pieces = text.split("|")
    return Axis.of_pieces("source", pieces, [piece.startswith("<") for piece in pieces]).merged().texts


def test_punctuation_around_a_word_is_a_word_by_itself() -> None:
    assert words_of("▁the|▁str|eet|.|</s>") == ("the", "street", ".", "</s>")
    assert words_of('▁"|Hello|,|▁he|▁said|!|"') == ('"', "Hello", ",", "he", "said", '!"')
    assert words_of("▁|„|Hall|o|“|▁(|a|b|)") == ("„", "Hallo", "“", "(", "ab", ")")
    assert words_of("▁a|▁-|▁b|▁...|▁|c") == ("a", "-", "b", "...", "c")


def test_punctuation_within_a_word_belongs_to_it() -> None:
    assert words_of("▁don|'|t|▁t|-|shirt|▁cost|$|5") == ("don't", "t-shirt", "cost$5")
    assert words_of("▁stop.|▁now") == ("stop.", "now")  # one piece is not cut


def test_words_know_whether_a_space_stands_before_them() -> None:
    pieces = ["▁Hello", ",", "▁you", "!", "</s>"]
    axis = Axis.of_pieces("source", pieces, [False] * 4 + [True])
    assert axis.attached == (False, True, False, True, False)
    assert Axis.of_tokens("base", ["A", "C"]).attached == (False, False)
    assert Axis.of_tokens("base", []).attached == ()


def test_two_marks_in_a_row_are_two_words() -> None:
    assert Axis.of_pieces("source", ["a", "</s>", "<pad>", "<pad>"], [False, True, True, True]).words == (0, 1, 2, 3)


@given(pieces)
def test_word_numbers_rise_by_at_most_one_and_marks_stand_alone(pairs: list[tuple[str, bool]]) -> None:
    axis = axis_of(pairs)
    assert axis.words[0] == 0
    assert set(np.diff(axis.words)) <= {0, 1}
    for i, mark in enumerate(axis.special):
        assert not mark or axis.words.count(axis.words[i]) == 1


@given(pieces)
def test_membership_puts_every_position_into_exactly_one_word(pairs: list[tuple[str, bool]]) -> None:
    axis = axis_of(pairs)
    member = axis.membership
    assert member.shape == (len(axis.merged()), len(axis))
    assert member.sum(axis=0).tolist() == [1.0] * len(axis)
    assert (member.sum(axis=1) >= 1).all()
    assert [int(word) for word in member.argmax(axis=0)] == list(axis.words)


@given(pieces)
def test_merging_keeps_all_text_and_never_makes_a_word_invisible(pairs: list[tuple[str, bool]]) -> None:
    axis, merged = axis_of(pairs), axis_of(pairs).merged()
    plain = "".join(axis.texts).replace(WORD_START, "")
    assert "".join(merged.texts).replace(WORD_START, "").replace(" ", "") == plain
    assert all(merged.texts)
    assert merged.name == axis.name
    assert sum(merged.special) == sum(axis.special)


def test_kept_positions_keep_what_is_known_of_them() -> None:
    axis = Axis.of_pieces("source", ["▁a", "b", "▁c", "</s>"], [False, False, False, True]).kept([1, 3])
    assert (axis.name, axis.texts, axis.words, axis.special) == ("source", ("b", "</s>"), (0, 2), (False, True))
    assert axis.membership.tolist() == [[1, 0], [0, 1]]


def test_an_axis_may_be_empty() -> None:
    axis = Axis.of_tokens("key", [])
    assert (len(axis), axis.labels, axis.merged().texts) == (0, (), ())
    assert axis.membership.shape == (0, 0)


@pytest.mark.parametrize("pieces", [[], ["a"]])
def test_tokens_are_words_of_their_own(pieces: list[str]) -> None:
    axis = Axis.of_tokens("base", pieces)
    assert axis.words == tuple(range(len(pieces)))
    assert not any(axis.special)


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

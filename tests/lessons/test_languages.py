"""What lessons say, in both languages: refusals, and the words inside equations."""

from collections.abc import Callable

import numpy as np
import pytest

from transformer.errors import HeedmapError
from transformer.lessons.conventions import CONVENTIONS, conversion
from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given, number
from transformer.lessons.expressions.rowwise import Normalise
from transformer.lessons.masks import Batch
from transformer.lessons.positions import position_table, rotation, rotation_errors
from transformer.lessons.recipe import Recipe
from transformer.lessons.toy import toy_batch, toy_sentences
from transformer.messages import Message, speaking

BOARD = Board.of([Matrix("X", "X", "input", np.eye(2), ("1", "2"), ("1", "2"), Given())])


@pytest.mark.parametrize(
    ("refused", "english", "chinese"),
    [
        (lambda: toy_sentences(9), "n_tokens=9 is out of range: choose 1 to 8", "n_tokens=9 超出范围"),
        (lambda: toy_batch([""], ["x"]), "“” has 0 words: type 1 to 23 words a line, apart by spaces", "“” 有 0 个词"),
        (lambda: Batch.of([], [], 0), "the batch has 0 source sentences: type 1 to 4, one a line", "这一批有 0 个源句"),
        (lambda: Recipe(dropout=1.0), "dropout=1.0 is not a probability below 1: choose 0 to 0.9", "dropout=1.0 不是"),
        (lambda: Recipe(temperature=11.0), "temperature=11.0 is out of range: choose 0.1 to 10", "temperature=11.0 超"),
        (lambda: rotation(1, 3), "d_model=3 leaves a sine without its cosine: choose an even number", "d_model=3 使"),
        (lambda: position_table("paper", 0, 4), "length=0, d_model=4: choose up to 512 positions", "length=0"),
        (lambda: rotation_errors(np.eye(4), 4), "k=4 reaches past the table of 4 positions: choose 0 to 3", "k=4 超出"),
        (lambda: BOARD["Z"], "matrix='Z' is not on this board: choose one of X", "板上没有 matrix='Z'"),
        (
            lambda: BOARD.equation("X", 0, 2),
            "cell (0, 2) is not in X: choose rows 0 to 1, columns 0 to 1",
            "X 里没有格子 (0, 2)",
        ),
        (
            lambda: conversion("my", "sdpa"),
            "convention='my' to 'sdpa' is not known: choose visible or",
            "不认识从 'my'",
        ),
    ],
)
def test_a_refusal_is_said_in_both_languages(refused: Callable[[], object], english: str, chinese: str) -> None:
    with pytest.raises(HeedmapError) as caught:
        refused()
    message = caught.value.message
    assert isinstance(message, Message)
    assert str(message).startswith(english)
    assert message.in_language("zh").startswith(chinese)


def test_the_terms_of_an_equation_are_named_in_the_language_of_the_context() -> None:
    known = {"X": np.eye(2), "g": np.ones((1, 2)), "b": np.zeros((1, 2))}
    norm = Normalise("X", "g", "b", 1e-5, unbiased=False)
    names = [name for name, _ in norm.equation(0, 0, known).terms]
    with speaking("zh"):
        chinese = [name for name, _ in norm.equation(0, 0, known).terms]
        undefined = number(float("nan"))
    assert names == ["value", "row mean", "row deviation", "gain", "shift"]
    assert chinese == ["值", "行平均", "行标准差", "增益", "平移"]
    assert (undefined, number(float("nan"))) == (r"\text{无定义}", r"\text{undefined}")


def test_the_name_of_a_convention_that_is_no_api_is_translated() -> None:
    name = CONVENTIONS["additive"].api
    assert isinstance(name, Message)
    assert name.in_language("zh").startswith("加法式")

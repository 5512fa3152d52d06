"""One notation for all lessons: every symbol on a board is in the table, and stands for one matrix on all of them."""

import re
from collections import defaultdict
from collections.abc import Iterator

from tests.lessons.notation import MEANINGS
from tests.lessons.test_inside import RUNS, boards, run
from transformer.lessons.attention import attention_board
from transformer.lessons.expressions.board import Board
from transformer.lessons.inside.convolution import convolution_board
from transformer.lessons.recipe import Recipe
from transformer.lessons.recurrent import recurrent_board
from transformer.lessons.toy import toy_recurrent, toy_sentences, toy_transformer

FORMS = {"N", "v", r"\delta", "Y", r"\Delta", "g"}
"""Symbols whose primes tell forms of the same thing apart."""

OWN_NAMES = FORMS | {r"\gamma", r"\beta", "H"}
"""Symbols of one meaning whose matrices are named after what they belong to, or after the lesson (values: `V`)."""

OF_MASKS = {"M", "T", "e"}
"""Symbols of the lesson on masks, whose page makes its boards."""


def every_board() -> Iterator[Board]:
    for name in RUNS:
        yield from boards(run(name))
    for site in ("encoder.0.self", "decoder.0.self", "decoder.0.cross"):
        for recipe in (Recipe(), Recipe(dropout=0.5)):
            yield attention_board(toy_transformer(4, 2, 1, site.startswith("d")), *toy_sentences(4), site, recipe)
    yield convolution_board("CAGGTAAGTA", 3, 2, seed=1)
    for kind in ("additive", "location"):
        yield recurrent_board(toy_recurrent(4, kind, 1), *toy_sentences(4), 1)


def bare(symbol: str) -> str:
    """Without the number of a head, the letter of what a norm reads, and the primes of forms."""
    symbol = symbol if symbol[:2] in ("W_", "b_", "F_") else re.sub(r"_\d+$", "", symbol)
    symbol = re.sub(r"^(\\gamma|\\beta)\^.", r"\1", symbol)
    return symbol.rstrip("'") if symbol.rstrip("'") in FORMS else symbol


def test_a_symbol_has_one_meaning() -> None:
    names = defaultdict[str, set[str]](set)
    for board in every_board():
        for name, matrix in board.items():
            symbol = bare(matrix.symbol)
            of_bias = {symbol.replace("b", "W", 1), symbol.removeprefix("b^")}
            assert {symbol.strip("|"), *of_bias} & set(MEANINGS), f"{symbol} of {name} is not in the table"
            names[symbol].add(re.sub(r"\d+$", "", name))
    assert {symbol for symbol, found in names.items() if len(found) > 1} == OWN_NAMES
    assert set(MEANINGS) == {symbol.strip("|") for symbol in names} & set(MEANINGS) | OF_MASKS

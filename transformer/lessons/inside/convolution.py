"""One convolution over a few letters as a board: every window of letters meets the same filters.

A k-mer classifier reads a sequence this way: a window of `width` letters is one row, and a filter is one column of
weights. Source: `nn.Conv1d`, whose numbers these are.
"""

import torch

from transformer.errors import ConfigError, InputError
from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.operations import Given
from transformer.lessons.expressions.rowwise import Product
from transformer.lessons.expressions.written import bent

ALPHABET = "ACGT"
LONGEST = 10
"""Letters that fit a blackboard."""

WIDEST, MOST_FILTERS = 4, 4
WINDOWS: Axes = ("query", "dimension")


def convolution_board(letters: str, width: int, n_filters: int, seed: int) -> Board:
    """Windows of `letters` as ones and zeros, the filters, what each filter answers to each window, and its ReLU.

    Raises:
        InputError: there are too few or too many letters, or others than A, C, G and T.
        ConfigError: the window or the number of filters is out of range.
    """
    letters = letters.upper()
    for name, value, most in (("width", width, WIDEST), ("n_filters", n_filters, MOST_FILTERS)):
        if not 1 <= value <= most:
            raise ConfigError("lesson_out_of_range", name=name, value=value, low=1, high=most)
    if not width <= len(letters) <= LONGEST or set(letters) - set(ALPHABET):
        raise InputError("lesson_letters", letters=letters[:LONGEST], low=width, high=LONGEST, alphabet=ALPHABET)
    ids = torch.tensor([ALPHABET.index(letter) for letter in letters])
    windows = torch.nn.functional.one_hot(ids, len(ALPHABET)).double().unfold(0, width, 1).transpose(1, 2).flatten(1)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(-2, 3, (width * len(ALPHABET), n_filters), generator=generator).double() / 2
    bias = torch.randint(-1, 2, (1, n_filters), generator=generator).double() / 2
    rows = tuple(f"{letters[i : i + width]} ({i})" for i in range(len(windows)))
    places = tuple(f"{letter}{place}" for place in range(width) for letter in ALPHABET)
    filters, found = dimensions(n_filters), windows @ weight + bias
    product = Product("windows", "filters", bias="bias")
    return Board.of(
        [
            Matrix("windows", "B", "letters", plain(windows), rows, places, Given(), axes=WINDOWS),
            Matrix("filters", "W^B", "letters", plain(weight), places, filters, Given(), axes=("", "dimension")),
            Matrix("bias", "b^B", "letters", plain(bias), ("",), filters, Given(), axes=("", "dimension")),
            Matrix("answers", "B'", "letters", plain(found), rows, filters, product, axes=WINDOWS),
            Matrix("relu", "B''", "letters", plain(found.relu()), rows, filters, bent("answers", "relu"), axes=WINDOWS),
        ]
    )

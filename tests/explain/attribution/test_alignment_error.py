"""Alignment error rates: counted by hand for the row that writes a word and the row that reads it."""

import numpy as np
import pytest

from transformer.errors import InputError
from transformer.explain.attribution.alignment_error import AlignmentCounts, alignment_counts, word_positions
from transformer.explain.attribution.gold import GoldAlignment
from transformer.plots.axes import Axis

SOURCE = Axis.of_pieces("source", ["▁two", "▁base", "ball", "s", ".", "</s>"], [False] * 5 + [True])
STEPS = Axis.of_pieces("steps", ["▁zwei", "▁Bäl", "le", ".", "</s>"], [False] * 4 + [True])
GOLD = GoldAlignment("two baseballs.", "zwei Bälle.", frozenset({(0, 0), (1, 1)}), frozenset({(2, 2), (0, 1)}))

WRITES = np.array(
    [
        [0.5, 0.1, 0.1, 0.1, 0.1, 0.1],  # zwei: two
        [0.4, 0.1, 0.2, 0.2, 0.1, 0.0],  # Bäl: baseballs in sum, although "two" is the largest piece
        [0.3, 0.3, 0.0, 0.1, 0.1, 0.2],
        [0.1, 0.1, 0.1, 0.0, 0.2, 0.5],  # the full stop: the end token, so no link
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
    ]
)


def test_pieces_are_summed_on_the_side_of_the_source_and_averaged_on_the_other() -> None:
    assert alignment_counts(WRITES, STEPS, SOURCE, GOLD) == AlignmentCounts(2, 2, 4, 2, 2)
    assert alignment_counts(WRITES, STEPS, SOURCE, GOLD).error_rate == 0.0


def test_the_row_that_reads_a_word_is_the_one_after() -> None:
    found = alignment_counts(WRITES, STEPS, SOURCE, GOLD, reads=True)
    assert found.sure == 2
    rows = {0: WRITES[1], 1: (WRITES[2] + WRITES[3]) / 2, 2: WRITES[4]}
    links = set()
    for word, row in rows.items():
        sums = [row[0], row[1:4].sum(), row[4], row[5]]
        if np.argmax(sums) < 3:
            links.add((int(np.argmax(sums)), word))
    assert (found.found, found.found_sure) == (len(links), len(links & GOLD.sure))
    assert found.found_possible == len(links & (GOLD.sure | GOLD.possible))


def test_counts_add_up_and_make_the_rate() -> None:
    whole = AlignmentCounts(5, 4, 7, 3, 4) + AlignmentCounts(3, 4, 5, 1, 2)
    assert whole == AlignmentCounts(8, 8, 12, 4, 6)
    assert whole.error_rate == pytest.approx(1 - 10 / 16)
    assert np.isnan(AlignmentCounts().error_rate)


def test_a_row_without_numbers_links_nothing() -> None:
    values = WRITES.copy()
    values[0, 2] = np.nan
    assert alignment_counts(values, STEPS, SOURCE, GOLD).found == 1


def test_a_piece_belongs_to_the_word_of_its_first_letter() -> None:
    axis = Axis.of_pieces("source", ["▁", "T", "-", "shirt", "▁dad", "'", "s", "!", "</s>"], [False] * 8 + [True])
    assert word_positions(axis, ["T-shirt", "dad's", "!"]) == [[0, 1, 2, 3], [4, 5, 6], [7]]
    for words in (["T-shirt", "dads", "!"], ["T-shirt", "dad's"], ["T-shirt", "dad's", "!", "?"]):
        with pytest.raises(InputError) as refused:
            word_positions(axis, words)
        assert refused.value.code == "gold_pieces_differ"

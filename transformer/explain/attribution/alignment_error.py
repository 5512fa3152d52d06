"""Alignment error rate: how far the largest cells of a matrix are from the links that a person drew.

A holds, for each word of the translation, the source word with the largest value; S are the sure links, P those and
the possible ones. AER = 1 - (|A & S| + |A & P|) / (|A| + |S|). Pieces become words by summing over a source word's
pieces and averaging over a written word's. A word whose largest cell is a special token gets no link. A word may be
looked for in the row that *writes* it, or in the row that *reads* it, one step later: many heads look at a word's
source only then. Source: Och and Ney 2003; Kobayashi et al. 2020, section 5 (both rows); Chen et al. 2020, "Accurate
Word Alignment Induction from Neural Machine Translation" (the shift).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from transformer.errors import InputError
from transformer.explain.attribution.gold import GoldAlignment
from transformer.plots.axes import WORD_START, Axis


@dataclass(frozen=True)
class AlignmentCounts:
    """Sizes of the sets, over any number of sentences: they add up."""

    found: int = 0
    sure: int = 0
    possible: int = 0
    found_sure: int = 0
    found_possible: int = 0

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        return AlignmentCounts(
            self.found + other.found,
            self.sure + other.sure,
            self.possible + other.possible,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def error_rate(self) -> float:
        """0 where every sure link was found and nothing that is not possible; NaN where there is nothing to find."""
        whole = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / whole if whole else float("nan")


def alignment_counts(
    values: Float[np.ndarray, "step source"], steps: Axis, source: Axis, gold: GoldAlignment, reads: bool = False
) -> AlignmentCounts:
    """Hold one matrix, in pieces, against the links of its sentence pair; `reads` takes the rows that read a word.

    A row without numbers gives no link.

    Raises:
        InputError: the pieces of an axis are not those of the sentence.
    """
    columns, rows = word_positions(source, gold.source_words), word_positions(steps, gold.target_words)
    specials = [i for i, special in enumerate(source.special) if special]
    groups = [*columns, *([i] for i in specials)]
    links = set()
    for word, pieces in enumerate(rows):
        taken = [i + reads for i in pieces if i + reads < len(values)]
        row = [values[taken][:, list(group)].sum(1).mean() if taken else np.nan for group in groups]
        best = int(np.argmax(row))
        if not np.isnan(row).any() and best < len(columns):
            links.add((best, word))
    possible = gold.sure | gold.possible
    return AlignmentCounts(len(links), len(gold.sure), len(possible), len(links & gold.sure), len(links & possible))


def word_positions(axis: Axis, words: Sequence[str]) -> list[list[int]]:
    """The positions of each word's pieces: a piece belongs to the word that holds its first visible character.

    Raises:
        InputError: the pieces, put together, are not the words.
    """
    owners = [word for word, text in enumerate(words) for _ in text]
    letters = "".join(words)
    found: list[list[int]] = [[] for _ in words]
    place, waiting = 0, list[int]()
    for position, (text, special) in enumerate(zip(axis.texts, axis.special, strict=True)):
        piece = text.replace(WORD_START, "")
        if special:
            continue
        if letters[place : place + len(piece)] != piece:
            raise InputError("gold_pieces_differ", piece=text, words=" ".join(words))
        waiting.append(position)
        if piece:
            found[owners[place]] += waiting
            waiting = []
            place += len(piece)
    if place != len(letters):
        raise InputError("gold_pieces_differ", piece="", words=" ".join(words))
    return found

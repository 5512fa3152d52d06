"""What one of two models leaves out of a sentence that both translate, found by deletion."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer.explain.attribution.deciding import DECIDED, Deciding
from transformer.runs.translate import Translation


@dataclass(frozen=True)
class Forgotten:
    """A source word that decides words of one model's translation, and nothing of another's.

    `written` are these words, which the other translation lacks. `needed` is the most that a word loses without the
    source word (nats), in the translation that has them and in the other one, where it is at most `DECIDED`.
    """

    word: str
    written: tuple[str, ...]
    needed: tuple[float, float]


def forgotten(translations: Sequence[Translation], decided: Sequence[Deciding]) -> tuple[Forgotten, ...]:
    """Source words that the second of two translations of one sentence leaves out, the most needed one first.

    `decided` says what decides the words of each.
    """
    kept, lost = decided
    source = translations[0].axes.source.merged()
    words, there = (one.axes.written.merged().texts for one in translations)
    found = []
    for column, word in enumerate(source.labels):
        written = tuple(words[row] for row in np.flatnonzero(kept.columns == column) if words[row] not in there)
        if written and lost.needed[column] <= DECIDED:
            found.append(Forgotten(word, written, (float(kept.needed[column]), float(lost.needed[column]))))
    return tuple(sorted(found, key=lambda one: -one.needed[0]))

"""Methods of attribution on one translation: deletion, what each costs, and how far each can be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from timeit import repeat

import numpy as np

from ..checkpoint.checkpoint import Checkpoint
from ..explain.attribution.deletion import DECIDED, Deciding, How, Trust, deletion, trust
from ..explain.attribution.deletion import deciding as deciding_of
from ..explain.attribution.methods import METHODS, attribute, defined
from ..explain.attribution.result import Attribution, groups
from .concurrency import forward_slot, let_others, letting_others
from .translate import Translation, is_spoken


def word_losses(checkpoint: Checkpoint, translation: Translation, how: How) -> Attribution:
    """What each written word loses (nats) without each source word, which is hidden or removed."""
    with forward_slot():
        return deletion(translation.scored_sequence(checkpoint), how, True, False, letting_others(None))


@dataclass(frozen=True)
class MethodCost:
    """What a method is about to cost: passes through the model with source and target, and about how many seconds."""

    passes: int
    seconds: float


SHARED = 120
"""Up to so many positions, passes that go together share much of what one costs alone."""


def cost(checkpoint: Checkpoint, translation: Translation, method: str) -> MethodCost | None:
    """What a method will cost on this machine as busy as it is, None where that is a few passes.

    It is told by one pass, the faster of two, as a pass may wait for memory or for others.
    """
    sequence, asked = translation.scored_sequence(checkpoint), METHODS[method]
    if asked.passes is None:
        return None
    with forward_slot():
        took = repeat(lambda: sequence.log_probs([sequence.source_ids], [sequence.read_ids]), number=1, repeat=2)
    passes, alone = asked.passes(sequence), min(1.0, (len(sequence.source) + len(sequence.read)) / SHARED)
    return MethodCost(passes, passes * min(took) * alone * asked.pace)


def usual_deletion(checkpoint: Checkpoint) -> How:
    """How words are taken from a model by itself: hidden where it can be kept from one, else taken out."""
    return "hidden" if checkpoint.model.abilities.hides else "removed"


def deciding(checkpoint: Checkpoint, translation: Translation) -> Deciding:
    """Which source word decides each written word, by `usual_deletion`; one pass a source word, in batches."""
    found = word_losses(checkpoint, translation, usual_deletion(checkpoint))
    return deciding_of(found.of_source, found.steps.special, found.source.special)


def trusted(checkpoint: Checkpoint, translation: Translation, chosen: Sequence[int]) -> dict[str, Trust]:
    """How each defined method fares on the written words `chosen`, at least one; chance too."""
    sequence = translation.scored_sequence(checkpoint)
    pieces = groups(sequence.written, words=True)
    rows = [piece for word in chosen for piece in pieces[word]]
    short = sequence.until(rows[-1] + 1)
    with forward_slot():
        answers = {}
        for name in defined(sequence, translation.record):
            asked = sequence if "record" in METHODS[name].takes else short
            answers[name] = attribute(
                asked, translation.record, name, words=True, progress=letting_others(None), rows=rows
            )
            let_others()
        return trust(short, answers, usual_deletion(checkpoint), chosen)


FORGOTTEN = DECIDED / 2
"""Nats of log-probability that no word loses without one that is forgotten: near `DECIDED` it is still of use."""


@dataclass(frozen=True)
class Forgotten:
    """A source word that decides words of one model's translation, and is of no use to another's.

    `written` are these words, which the other translation lacks, each with what it loses without the source word
    (nats). `lost` is the most that a word of the other translation loses, at most `FORGOTTEN`.
    """

    word: str
    written: Mapping[str, float]
    lost: float


def forgotten(translations: Sequence[Translation], decided: Sequence[Deciding]) -> tuple[Forgotten, ...]:
    """Source words that the second of two translations of one sentence leaves out, the most needed one first.

    `decided` says what decides the words of each. Punctuation is no word.
    """
    kept, other = decided
    source = translations[0].axes.source.merged()
    words, there = (one.axes.written.merged().texts for one in translations)
    found = []
    for column, word in enumerate(source.labels):
        rows = (row for row in np.flatnonzero(kept.columns == column) if words[row] not in there)
        written = {words[row]: float(kept.lost[row]) for row in rows if is_spoken(words[row])}
        if written and is_spoken(word) and other.needed[column] <= FORGOTTEN:
            found.append(Forgotten(word, written, float(other.needed[column])))
    return tuple(sorted(found, key=lambda one: -max(one.written.values())))

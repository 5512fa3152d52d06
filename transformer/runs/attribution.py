"""Methods of attribution on one translation: deletion, what each costs, and how far each can be trusted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.explain.attribution.deciding import Deciding
from transformer.explain.attribution.deciding import deciding as deciding_of
from transformer.explain.attribution.deletion import How, Progress
from transformer.explain.attribution.deletion import deletion as deleted
from transformer.explain.attribution.integrated_gradients import usual_points
from transformer.explain.attribution.methods import DELETIONS, attribute, defined, naming_others
from transformer.explain.attribution.result import Attribution
from transformer.explain.attribution.scored_sequence import ScoredSequence
from transformer.explain.attribution.trust import Trust, trust
from transformer.runs.concurrency import forward_slot, let_others, letting_others
from transformer.runs.translate import Translation


def deletion(
    checkpoint: Checkpoint,
    translation: Translation,
    how: How = "hidden",
    words: bool = False,
    prefix: bool = True,
    progress: Progress | None = None,
) -> Attribution:
    """What each written token loses without each part of the input: `transformer.explain.attribution.deletion`.

    Raises:
        AttributionError: not defined for this model.
        CheckpointError: the checkpoint does not translate text.
    """
    sequence, method = (
        translation.scored_sequence(checkpoint),
        next(name for name, one in DELETIONS.items() if one == how),
    )
    with forward_slot(), naming_others(method, lambda: defined(sequence, translation.record)):
        return deleted(sequence, how, words, prefix, letting_others(progress))


@dataclass(frozen=True)
class Cost:
    """What a method is about to cost: passes through the model with source and target, and about how many seconds."""

    passes: int
    seconds: float


BACKWARD = {"gradients": 1.5, "integrated_gradients": 0.9}
"""How long a backward pass of a method takes, with what it does beside, against a forward pass (256 tokens)."""

SHARED = 120
"""Up to so many positions, passes that go together share much of what one costs alone."""


MEASURING, MOST_MEASURED = 0.2, 5
"""Seconds after which no further pass is measured, and the most passes that are."""


def cost(checkpoint: Checkpoint, translation: Translation, method: str) -> Cost | None:
    """What a method will cost on this machine as busy as it is, told by one pass; None where that is a few passes.

    That is the fastest of a few, as a pass may wait for memory or for others; where passes are long, one is enough.

    Raises:
        CheckpointError: the checkpoint does not translate text.
    """
    sequence = translation.scored_sequence(checkpoint)
    source, read = len(sequence.source), len(sequence.read)
    passes = dict.fromkeys(DELETIONS, source + read) | dict.fromkeys(BACKWARD, read)
    passes |= {"deletion_removed": source, "integrated_gradients": usual_points(sequence.model) * read}
    if method not in passes:
        return None
    took = list[float]()
    with forward_slot():
        while len(took) < MOST_MEASURED and sum(took) < MEASURING:
            start = time.perf_counter()
            sequence.log_probs([sequence.source_ids], [sequence.read_ids])
            took.append(time.perf_counter() - start)
    alone = min(1.0, (source + read) / SHARED)
    return Cost(passes[method], passes[method] * min(took) * alone * BACKWARD.get(method, 1.1))


def usual_deletion(sequence: ScoredSequence) -> How:
    """How words are taken from a model by itself: hidden where it can be kept from one, else taken out."""
    return "hidden" if sequence.abilities.hides else "removed"


def deciding(checkpoint: Checkpoint, translation: Translation) -> Deciding:
    """Which source word decides each written word, by `usual_deletion`; one pass a source word, in batches.

    Raises:
        CheckpointError: the checkpoint does not translate text.
    """
    how = usual_deletion(translation.scored_sequence(checkpoint))
    return deciding_of(deletion(checkpoint, translation, how, words=True, prefix=False))


def trusted(
    checkpoint: Checkpoint, translation: Translation, asked: Mapping[str, tuple[str, int | None]]
) -> dict[str, Trust]:
    """How each of `asked` (name -> method and layer) fares on one translation, beside deletion, its reverse and chance.

    Raises:
        AttributionError: a method is not defined for this model.
        CheckpointError: the checkpoint does not translate text.
    """
    sequence = translation.scored_sequence(checkpoint)
    with forward_slot():
        answers = {}
        for name, (method, layer) in asked.items():
            answers[name] = attribute(
                sequence, translation.record, method, layer, words=True, progress=letting_others(None)
            )
            let_others()
        return trust(sequence, answers, usual_deletion(sequence))


def every_question(checkpoint: Checkpoint, translation: Translation) -> dict[str, tuple[str, int | None]]:
    """Every defined method, and raw weights and norms of each layer: `weights.2` is layer 2's mean."""
    methods = defined(translation.scored_sequence(checkpoint), translation.record)
    asked: dict[str, tuple[str, int | None]] = {method: (method, None) for method in methods}
    layers = range(sum(site.group == "decoder.cross" for site in translation.record))
    for method in ("weights", "norms"):
        if method in methods and len(layers) > 1:
            asked |= {f"{method}.{layer}": (method, layer) for layer in layers}
    return asked

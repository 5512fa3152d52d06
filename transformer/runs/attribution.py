"""Deletion of what a checkpoint wrote, and how far every method can be trusted on one translation."""

from collections.abc import Mapping

from transformer.attribution.deletion import How, Progress
from transformer.attribution.deletion import deletion as deleted
from transformer.attribution.methods import attribute, defined
from transformer.attribution.passage import Passage
from transformer.attribution.result import Attribution
from transformer.attribution.trust import Trust, trust
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.concurrency import forward_slot
from transformer.runs.translate import Translation


def deletion(
    checkpoint: Checkpoint,
    translation: Translation,
    how: How = "hidden",
    words: bool = False,
    prefix: bool = True,
    progress: Progress | None = None,
) -> Attribution:
    """What each written token loses without each part of the input: `transformer.attribution.deletion`.

    Raises:
        AttributionError: not defined for this model.
        CheckpointError: the checkpoint does not translate text.
    """
    with forward_slot():
        return deleted(translation.passage(checkpoint), how, words, prefix, progress)


def usual_deletion(passage: Passage) -> How:
    """How words are taken from a model by itself: hidden where it can be kept from one, else taken out."""
    return "hidden" if passage.abilities.hides else "removed"


def trusted(
    checkpoint: Checkpoint, translation: Translation, asked: Mapping[str, tuple[str, int | None]]
) -> dict[str, Trust]:
    """How each of `asked` (name -> method and layer) fares on one translation, beside deletion, its reverse and chance.

    Raises:
        AttributionError: a method is not defined for this model.
        CheckpointError: the checkpoint does not translate text.
    """
    passage = translation.passage(checkpoint)
    with forward_slot():
        answers = {
            name: attribute(passage, translation.record, method, layer, words=True)
            for name, (method, layer) in asked.items()
        }
        return trust(passage, answers, usual_deletion(passage))


def every_question(checkpoint: Checkpoint, translation: Translation) -> dict[str, tuple[str, int | None]]:
    """Every defined method, and raw weights and norms of each layer: `weights.2` is layer 2's mean."""
    passage = translation.passage(checkpoint)
    methods = defined(passage, translation.record)
    asked: dict[str, tuple[str, int | None]] = {method: (method, None) for method in methods}
    layers = range(sum(site.group == "decoder.cross" for site in translation.record))
    for method in ("weights", "norms"):
        if method in methods and len(layers) > 1:
            asked |= {f"{method}.{layer}": (method, layer) for layer in layers}
    return asked

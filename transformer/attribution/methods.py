"""Every method by its name: which are defined for a model, and one way to ask each."""

from collections.abc import Callable
from typing import Any

from transformer.attention.record import Record
from transformer.attribution.contributions import contributions, encoder_contributions
from transformer.attribution.deletion import How, Progress, deletion
from transformer.attribution.followed import is_followed
from transformer.attribution.gradients import gradients
from transformer.attribution.integrated_gradients import integrated_gradients
from transformer.attribution.norms import encoder_norms, norms
from transformer.attribution.passage import Passage, Reading
from transformer.attribution.result import Attribution
from transformer.attribution.rollout import encoder_rollout, rollout
from transformer.attribution.value_zeroing import encoder_value_zeroing, value_zeroing
from transformer.attribution.weights import CROSS, DECODER, ENCODER, encoder_weights, weights
from transformer.errors import AttributionError
from transformer.messages import Message
from transformer.models.common import refuse_elsewhere
from transformer.models.protocols import Attending, HasEnds

DELETIONS: dict[str, How] = {"deletion": "hidden", "deletion_unknown": "unknown", "deletion_removed": "removed"}
"""Names of the three ways to be without a part."""

LAYERED = ("contributions", "norms", "norms_residual", "value_zeroing", "weights")
"""Methods that can be asked of one layer."""

HEADED = ("norms", "weights")
"""Methods that can be asked of one head."""

METHODS = (
    *DELETIONS,
    "contributions",
    "norms",
    "norms_residual",
    "gradients",
    "gradients_published",
    "integrated_gradients",
    "value_zeroing",
    "rollout",
    "weights",
)
"""Every method for a model that reads a source and writes a target."""

READING_METHODS = ("contributions", "norms", "norms_residual", "value_zeroing", "rollout", "weights")
"""Every method for a model that reads one text, of what its positions end with."""

WRITTEN_METHODS = (*DELETIONS, "gradients", "integrated_gradients")
"""Methods for a decoder alone, of each token that it scored after those before it."""

_OF_PASSAGE: dict[str, Callable[..., Attribution]] = {
    "contributions": contributions,
    "norms": norms,
    "norms_residual": lambda passage, **one: norms(passage, with_residual=True, **one),
    "value_zeroing": value_zeroing,
}
_OF_READING: dict[str, Callable[..., Attribution]] = {
    "contributions": encoder_contributions,
    "norms": encoder_norms,
    "norms_residual": lambda reading, **one: encoder_norms(reading, with_residual=True, **one),
    "value_zeroing": encoder_value_zeroing,
}


def defined(passage: Passage, record: Record) -> tuple[str, ...]:
    """The methods that are defined for what a passage was written by, in the order of `METHODS`."""
    groups = {site.group for site in record}
    unknown = min(passage.unknown_source_id, passage.unknown_target_id) >= 0
    values = not isinstance(passage.model, Attending) or bool(passage.model.attending())
    said = {
        "deletion": passage.abilities.hides,
        "deletion_unknown": unknown,
        "deletion_removed": True,
        "gradients": CROSS in groups and values,
        "gradients_published": groups >= {DECODER, CROSS} and values,
        "integrated_gradients": isinstance(passage.model, HasEnds),
        "rollout": groups >= {ENCODER, DECODER, CROSS},
        "weights": CROSS in groups,
    }
    return tuple(name for name in METHODS if (said[name] if name in said else is_followed(passage)))


def attribute(
    passage: Passage,
    record: Record,
    method: str = "deletion",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    progress: Progress | None = None,
) -> Attribution:
    """The answer of one of `METHODS` about a passage whose attention was recorded.

    `words` answers in whole words: deletion takes words away; of the others, parts are summed and steps averaged.
    `progress` is told of those that are slow on long texts, deletion and the two kinds of gradients.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(passage.model)
    _check(method, METHODS, layer, head)
    if method in DELETIONS:
        return deletion(passage, DELETIONS[method], words, progress=progress)
    one = _chosen(method, layer, head)
    if method == "weights":
        found = weights(passage, record, **one)
    elif method == "rollout":
        found = rollout(passage, record)
    elif method == "integrated_gradients":
        found = integrated_gradients(passage, progress=progress)
    elif method.startswith("gradients"):
        found = gradients(passage, method == "gradients_published", progress)
    else:
        found = _OF_PASSAGE[method](passage, **one)
    return found.merged() if words else found


def attribute_reading(
    reading: Reading, record: Record, method: str, layer: int | None = None, head: int | None = None
) -> Attribution:
    """The answer of one of `READING_METHODS` about a text whose reading was recorded.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(reading.model)
    _check(method, READING_METHODS, layer, head)
    one = _chosen(method, layer, head)
    if method == "weights":
        return encoder_weights(reading, record, **one)
    return encoder_rollout(reading, record) if method == "rollout" else _OF_READING[method](reading, **one)


def question(method: str) -> Message:
    """What a method asks, in a sentence."""
    return Message(f"attribution_question_{method}")


def limit(method: str) -> Message:
    """What its answer cannot say."""
    return Message(f"attribution_limit_{method}")


def _check(method: str, known: tuple[str, ...], layer: int | None, head: int | None) -> None:
    if method not in known:
        raise AttributionError("attribution_not_known", method=method, methods=known)
    for what, given, may in (("layer", layer, LAYERED), ("head", head, HEADED)):
        if given is not None and method not in may:
            raise AttributionError("attribution_of_the_whole", method=method, what=what, methods=may)


def _chosen(method: str, layer: int | None, head: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"layer": layer} if method in LAYERED else {}
    return found | ({"head": head} if method in HEADED else {})

"""Every method by its name: which are defined for a model, and one way to ask each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from transformer.errors import AttributionError, NotDefinedError
from transformer.messages import Message
from transformer.models.common import refuse_elsewhere
from transformer.models.protocols import Attending, HasEnds

DELETIONS: dict[str, How] = {"deletion": "hidden", "deletion_unknown": "unknown", "deletion_removed": "removed"}
"""Names of the three ways to be without a part."""

LAYERED = ("contributions", "norms", "norms_residual", "value_zeroing", "weights")
"""Methods that can be asked of one layer."""

HEADED = ("norms", "weights")
"""Methods that can be asked of one head."""

POINTED = ("integrated_gradients",)
"""Methods that can be asked with a number of points."""

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
    """The methods that are defined for what a passage was written by, in the order of `METHODS`.

    For a decoder alone those of `WRITTEN_METHODS`.
    """
    groups, alone = {site.group for site in record}, not passage.source_ids
    unknown = passage.unknown_target_id if alone else min(passage.unknown_source_id, passage.unknown_target_id)
    values = not isinstance(passage.model, Attending) or bool(passage.model.attending())
    said = {
        "deletion": passage.abilities.hides,
        "deletion_unknown": unknown >= 0,
        "deletion_removed": not alone,
        "gradients": (alone or CROSS in groups) and values,
        "gradients_published": groups >= {DECODER, CROSS} and values,
        "integrated_gradients": isinstance(passage.model, HasEnds),
        "rollout": groups >= {ENCODER, DECODER, CROSS},
        "weights": CROSS in groups,
    }
    names = WRITTEN_METHODS if alone else METHODS
    return tuple(name for name in names if (said[name] if name in said else is_followed(passage)))


def defined_of_reading(reading: Reading) -> tuple[str, ...]:
    """The methods that are defined for a model that reads one text, in the order of `READING_METHODS`."""
    return tuple(name for name in READING_METHODS if name in ("rollout", "weights") or is_followed(reading))


@contextmanager
def naming_others(method: str, known: Callable[[], tuple[str, ...]]) -> Iterator[None]:
    """A refusal of a method inside names those of `known` that are left to choose from.

    Raises:
        NotDefinedError: the method is not defined for the model.
    """
    try:
        yield
    except NotDefinedError as error:
        others = tuple(name for name in known() if name != method)
        if not others:
            raise
        raise NotDefinedError("attribution_choose", refusal=error.message, methods=others) from error


def attribute(
    passage: Passage,
    record: Record,
    method: str = "deletion",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    points: int | None = None,
    progress: Progress | None = None,
) -> Attribution:
    """The answer of one of `METHODS` about a passage whose attention was recorded.

    `words` answers in whole words: deletion takes words away; of the others, parts are summed and steps averaged.
    `points` are those of integrated gradients (None: as many as are needed).
    `progress` is told of those that are slow on long texts, deletion and the two kinds of gradients.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(passage.model)
    _check(method, METHODS, layer, head, points)
    one = _chosen(method, layer, head)
    with naming_others(method, lambda: defined(passage, record)):
        if method in DELETIONS:
            return deletion(passage, DELETIONS[method], words, progress=progress)
        if method == "weights":
            found = weights(passage, record, **one)
        elif method == "rollout":
            found = rollout(passage, record)
        elif method == "integrated_gradients":
            found = integrated_gradients(passage, points, progress)
        elif method.startswith("gradients"):
            found = gradients(passage, method == "gradients_published", progress)
        else:
            found = _OF_PASSAGE[method](passage, **one)
    return found.merged() if words else found


def attribute_reading(
    reading: Reading,
    record: Record,
    method: str,
    layer: int | None = None,
    head: int | None = None,
    points: int | None = None,
) -> Attribution:
    """The answer of one of `READING_METHODS` about a text whose reading was recorded.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(reading.model)
    _check(method, READING_METHODS, layer, head, points)
    one = _chosen(method, layer, head)
    with naming_others(method, lambda: defined_of_reading(reading)):
        if method == "weights":
            return encoder_weights(reading, record, **one)
        return encoder_rollout(reading, record) if method == "rollout" else _OF_READING[method](reading, **one)


def question(method: str) -> Message:
    """What a method asks, in a sentence."""
    return Message(f"attribution_question_{method}")


def limit(method: str) -> Message:
    """What its answer cannot say."""
    return Message(f"attribution_limit_{method}")


def _check(method: str, known: tuple[str, ...], layer: int | None, head: int | None, points: int | None) -> None:
    if method not in known:
        raise AttributionError("attribution_not_known", method=method, methods=known)
    for what, given, may in (("layer", layer, LAYERED), ("head", head, HEADED), ("points", points, POINTED)):
        if given is not None and method not in may:
            raise AttributionError("attribution_of_the_whole", method=method, what=what, methods=may)


def _chosen(method: str, layer: int | None, head: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"layer": layer} if method in LAYERED else {}
    return found | ({"head": head} if method in HEADED else {})

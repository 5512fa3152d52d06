"""Every method by its name: which are defined for a model, and one way to ask each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from transformer.attention.record import Record
from transformer.errors import AttributionError, NotDefinedError
from transformer.explain.attribution.contributions import contributions
from transformer.explain.attribution.deletion import How, Progress, deletion
from transformer.explain.attribution.gradients import gradients
from transformer.explain.attribution.integrated_gradients import integrated_gradients
from transformer.explain.attribution.norms import norms
from transformer.explain.attribution.result import Attribution
from transformer.explain.attribution.scored_sequence import Asked, Reading
from transformer.explain.attribution.sublayers import has_sublayers
from transformer.explain.attribution.value_zeroing import value_zeroing
from transformer.explain.attribution.weights import CROSS, DECODER, ENCODER, rollout, weights
from transformer.messages import Message
from transformer.nn.common import refuse_elsewhere
from transformer.nn.protocols import HasTokenInterface

DELETIONS: dict[str, How] = {"deletion": "hidden", "deletion_unknown": "unknown", "deletion_removed": "removed"}
"""Names of the three ways to be without a part."""

LAYERED = ("contributions", "norms", "value_zeroing", "weights")
"""Methods that can be asked of one layer."""

HEADED = ("norms", "weights")
"""Methods that can be asked of one head."""

POINTED = ("integrated_gradients",)
"""Methods that can be asked with a number of points."""

SLOW = (*DELETIONS, "gradients", "integrated_gradients")
"""Methods that tell how far they are."""

METHODS = (
    *DELETIONS, "contributions", "norms", "gradients", "integrated_gradients", "value_zeroing", "rollout", "weights",
)  # fmt: skip
"""Every method for a model that reads a source and writes a target."""

READING_METHODS = ("contributions", "norms", "value_zeroing", "rollout", "weights")
"""Every method for a model that reads one text, of what its positions end with."""

WRITTEN_METHODS = (*DELETIONS, "gradients", "integrated_gradients")
"""Methods for a decoder alone, of each token that it scored after those before it."""

_OF_RECORD: dict[str, Callable[..., Attribution]] = {"rollout": rollout, "weights": weights}
"""Methods that are asked of recorded weights; all others run the model again."""

_OF_MODEL: dict[str, Callable[..., Attribution]] = {
    "contributions": contributions,
    "norms": norms,
    "value_zeroing": value_zeroing,
    "gradients": gradients,
    "integrated_gradients": integrated_gradients,
    **{name: partial(deletion, how=how) for name, how in DELETIONS.items()},
}


def defined(asked: Asked, record: Record) -> tuple[str, ...]:
    """The methods that are defined for what was read and written, in the order of `METHODS`.

    For a decoder alone those of `WRITTEN_METHODS`, for a text without a target those of `READING_METHODS`.
    """
    if isinstance(asked, Reading):
        return tuple(name for name in READING_METHODS if name in _OF_RECORD or has_sublayers(asked))
    groups, alone = {site.group for site in record}, not asked.source_ids
    unknown = asked.unknown_target_id if alone else min(asked.unknown_source_id, asked.unknown_target_id)
    said = {
        "deletion": asked.abilities.hides,
        "deletion_unknown": unknown >= 0,
        "deletion_removed": not alone,
        "gradients": alone or CROSS in groups,
        "integrated_gradients": isinstance(asked.model, HasTokenInterface),
        "rollout": groups >= {ENCODER, DECODER, CROSS},
        "weights": CROSS in groups,
    }
    names = WRITTEN_METHODS if alone else METHODS
    return tuple(name for name in names if (said[name] if name in said else has_sublayers(asked)))


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
    asked: Asked,
    record: Record,
    method: str = "deletion",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    points: int | None = None,
    progress: Progress | None = None,
) -> Attribution:
    """The answer of one of `METHODS` about what was read and written, and recorded; of a text of `READING_METHODS`.

    `words` answers in whole words: deletion takes words away; of the others, parts are summed and steps averaged.
    `points` are those of integrated gradients (None: as many as are needed).
    `progress` is told of those that are slow on long texts, deletion and the two kinds of gradients.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(asked.model)
    known = READING_METHODS if isinstance(asked, Reading) else METHODS
    if method not in known:
        raise AttributionError("attribution_not_known", method=method, methods=known)
    options: dict[str, Any] = {"progress": progress} if method in SLOW else {}
    for what, given, may in (("layer", layer, LAYERED), ("head", head, HEADED), ("points", points, POINTED)):
        if method in may:
            options[what] = given
        elif given is not None:
            raise AttributionError("attribution_of_the_whole", method=method, what=what, methods=may)
    with naming_others(method, lambda: defined(asked, record)):
        if method in DELETIONS:
            return _OF_MODEL[method](asked, words=words, **options)
        found = (
            _OF_RECORD[method](asked, record, **options)
            if method in _OF_RECORD
            else _OF_MODEL[method](asked, **options)
        )
    return found.merged() if words else found


def question(method: str) -> Message:
    """What a method asks, in a sentence."""
    return Message(f"attribution_question_{method}")


def limit(method: str) -> Message:
    """What its answer cannot say."""
    return Message(f"attribution_limit_{method}")

"""Every method by its name: which are defined for a model, and one way to ask each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from transformer.attention.record import Record
from transformer.errors import AttributionError, NotDefinedError
from transformer.explain.attribution.deletion import Progress, deletion, untold
from transformer.explain.attribution.gradients import gradients
from transformer.explain.attribution.integrated_gradients import integrated_gradients
from transformer.explain.attribution.layers import (
    CROSS,
    DECODER,
    ENCODER,
    contributions,
    has_sublayers,
    norms,
    rollout,
    weights,
)
from transformer.explain.attribution.result import Asked, Attribution, EncodedText
from transformer.messages import Message
from transformer.nn.common import refuse_elsewhere


@dataclass(frozen=True)
class Method:
    """A method of attribution: the function that answers, of what it can be asked, and what it takes beside.

    All can be asked of a source and its target; `of` says what else: a `text`, of what its positions end with, or a
    `decoder` alone, of each token that it scored. `takes` names options of `attribute`, and `record`: such a method is
    asked of recorded weights, all others run the model again.
    """

    answer: Callable[..., Attribution]
    of: str
    takes: tuple[str, ...] = ()


METHODS: dict[str, Method] = {
    "deletion": Method(deletion, "decoder", ("words", "progress")),
    "deletion_removed": Method(partial(deletion, how="removed"), "decoder", ("words", "progress")),
    "contributions": Method(contributions, "text", ("layer",)),
    "norms": Method(norms, "text", ("layer", "head")),
    "gradients": Method(gradients, "decoder", ("progress",)),
    "integrated_gradients": Method(integrated_gradients, "decoder", ("points", "progress")),
    "rollout": Method(rollout, "text", ("record",)),
    "weights": Method(weights, "text", ("record", "layer", "head")),
}
"""Every method, in the order in which they are offered."""


def methods_of(kind: str) -> tuple[str, ...]:
    """The methods that can be asked of a `text`, or of a `decoder` alone."""
    return tuple(name for name, method in METHODS.items() if method.of == kind)


def defined(asked: Asked, record: Record) -> tuple[str, ...]:
    """The methods that are defined for what was read and written, in the order of `METHODS`."""
    if isinstance(asked, EncodedText):
        return tuple(name for name in methods_of("text") if "record" in METHODS[name].takes or has_sublayers(asked))
    groups, alone = {site.group for site in record}, not asked.source_ids
    said = {
        "deletion": asked.model.abilities.hides,
        "deletion_removed": not alone,
        "gradients": alone or CROSS in groups,
        "integrated_gradients": hasattr(asked.model, "token_interface"),
        "rollout": groups >= {ENCODER, DECODER, CROSS},
        "weights": CROSS in groups,
    }
    names = methods_of("decoder") if alone else tuple(METHODS)
    return tuple(name for name in names if (said[name] if name in said else has_sublayers(asked)))


def attribute(
    asked: Asked,
    record: Record,
    method: str = "deletion",
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    points: int | None = None,
    progress: Progress = untold,
) -> Attribution:
    """The answer of one of `METHODS` about what was read and written, and recorded.

    `words` answers in whole words: deletion takes words away; of the others, parts are summed and steps averaged.
    `points` are those of integrated gradients (None: as many as are needed).
    `progress` is told of those that are slow on long texts, deletion and the two kinds of gradients.

    Raises:
        AttributionError: no such method, one that is not defined for this model, or that knows no layer or head.
    """
    refuse_elsewhere(asked.model)
    known = methods_of("text") if isinstance(asked, EncodedText) else tuple(METHODS)
    if method not in known:
        raise AttributionError("attribution_not_known", method=method, methods=known)
    takes = METHODS[method].takes
    for what, given in (("layer", layer), ("head", head), ("points", points)):
        if given is not None and what not in takes:
            may = tuple(name for name, one in METHODS.items() if what in one.takes)
            raise AttributionError("attribution_of_the_whole", method=method, what=what, methods=may)
    options: dict[str, Any] = dict(record=record, layer=layer, head=head, words=words, points=points, progress=progress)
    try:
        found = METHODS[method].answer(asked, **{name: options[name] for name in takes})
    except NotDefinedError as error:
        others = tuple(name for name in defined(asked, record) if name != method)
        if not others:
            raise
        raise NotDefinedError("attribution_choose", refusal=error.message, methods=others) from error
    return found.merged() if words and "words" not in takes else found


def question(method: str) -> Message:
    """What a method asks, in a sentence."""
    return Message(f"attribution_question_{method}")


def limit(method: str) -> Message:
    """What its answer cannot say."""
    return Message(f"attribution_limit_{method}")

"""Every method, each in one value: which are defined for a model, and one way to ask each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...attention.record import Record
from ...errors import AttributionError, NotDefinedError
from ...messages import Message
from ...nn.common import refuse_elsewhere
from .deletion import Progress, deletion, untold
from .gradients import gradients
from .integrated_gradients import integrated_gradients, usual_points
from .layers import CROSS, DECODER, ENCODER, contributions, has_sublayers, norms, rollout, weights
from .result import Asked, Attribution, EncodedText, ScoredSequence, title

Fits = Callable[[Any, set[str]], bool]
"""Whether a method is defined for what was read and written, and the groups of sites that were recorded."""


def _follows(asked: Asked, _: set[str]) -> bool:
    return has_sublayers(asked)


def _recorded(*wanted: str) -> Fits:
    """Defined where attention of each of these groups was recorded; of one text, where any was."""
    return lambda asked, groups: isinstance(asked, EncodedText) or groups >= {*wanted}


@dataclass(frozen=True)
class Method:
    """A method of attribution: the function that answers, of what it can be asked, what it takes beside, what it costs.

    All can be asked of a source and its target; `of` says what else: a `text`, of what its positions end with, or a
    `decoder` alone, of each token that it scored. `takes` names options of `attribute`, and `record`: such a method is
    asked of recorded weights, all others run the model again. `fits` says where it is defined.

    `passes` is how many passes with source and target it costs (None: a few), `pace` how long each takes, with what is
    done beside, against a forward pass (256 tokens). `averages`: without a layer it answers with the mean over layers.
    """

    name: str
    answer: Callable[..., Attribution]
    of: str
    takes: tuple[str, ...] = ()
    fits: Fits = _follows
    passes: Callable[[ScoredSequence], int] | None = None
    pace: float = 1.1
    averages: bool = False

    @property
    def title(self) -> Message:
        """What it is called."""
        return title(self.name)

    @property
    def question(self) -> Message:
        """What it asks, in a sentence."""
        return Message(f"attribution_question_{self.name}")

    @property
    def limit(self) -> Message:
        """What its answer cannot say."""
        return Message(f"attribution_limit_{self.name}")


_EVERY = (
    Method(
        "deletion", deletion, "decoder", ("words", "progress"),
        fits=lambda asked, _: asked.model.abilities.hides,
        passes=lambda asked: len(asked.source) + len(asked.read),
    ),
    Method(
        "deletion_removed", partial(deletion, how="removed"), "decoder", ("words", "progress"),
        fits=lambda asked, _: bool(asked.source_ids),
        passes=lambda asked: len(asked.source),
    ),
    Method("contributions", contributions, "text", ("layer",)),
    Method("norms", norms, "text", ("layer", "head"), averages=True),
    Method(
        "gradients", gradients, "decoder", ("progress",),
        fits=lambda asked, groups: not asked.source_ids or CROSS in groups,
        passes=lambda asked: len(asked.read), pace=1.5,
    ),
    Method(
        "integrated_gradients", integrated_gradients, "decoder", ("points", "progress", "rows"),
        fits=lambda asked, _: hasattr(asked.model, "token_interface"),
        passes=lambda asked: usual_points(asked.model) * len(asked.read), pace=0.9,
    ),
    Method("rollout", rollout, "text", ("record",), fits=_recorded(ENCODER, DECODER, CROSS)),
    Method("weights", weights, "text", ("record", "layer", "head"), fits=_recorded(CROSS), averages=True),
)  # fmt: skip

METHODS = {method.name: method for method in _EVERY}
"""Every method by its name, in the order in which they are offered."""

DELETION, WEIGHTS = METHODS["deletion"], METHODS["weights"]
"""What is asked by default, and others are compared with; what a heatmap shows."""


def methods_of(kind: str) -> tuple[str, ...]:
    """The methods that can be asked of a `text`, or of a `decoder` alone."""
    return tuple(name for name, method in METHODS.items() if method.of == kind)


def defined(asked: Asked, record: Record) -> tuple[str, ...]:
    """The methods that are defined for what was read and written, in the order of `METHODS`."""
    groups = {site.group for site in record}
    if isinstance(asked, EncodedText):
        names = methods_of("text")
    else:
        names = tuple(METHODS) if asked.source_ids else methods_of("decoder")
    return tuple(name for name in names if METHODS[name].fits(asked, groups))


def attribute(
    asked: Asked,
    record: Record,
    method: str = DELETION.name,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    points: int | None = None,
    progress: Progress = untold,
    rows: Sequence[int] | None = None,
) -> Attribution:
    """The answer of one of `METHODS` about what was read and written, and recorded.

    `words` answers in whole words: deletion takes words away; of the others, parts are summed and steps averaged.
    `points` are those of integrated gradients (None: as many as are needed).
    `progress` is told of those that are slow on long texts, deletion and the two kinds of gradients. `rows` are written
    tokens to which integrated gradients keep (None: all), as each costs a pass of its own.

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
    options: dict[str, Any] = dict(
        record=record, layer=layer, head=head, words=words, points=points, progress=progress, rows=rows
    )
    try:
        found = METHODS[method].answer(asked, **{name: options[name] for name in takes})
    except NotDefinedError as error:
        others = tuple(name for name in defined(asked, record) if name != method)
        if not others:
            raise
        raise NotDefinedError("attribution_choose", refusal=error.message, methods=others) from error
    return found.merged() if words and "words" not in takes else found

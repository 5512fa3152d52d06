"""All that flowed through one run of a checkpoint, in numbers: made by one traced pass, and one more for the lens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.explain.diagrams.diagram import Diagram
from transformer.explain.diagrams.of_model import architecture
from transformer.explain.flow.capture import BEFORE, Added, Normed, Trace, Units, tracing, watch_flow
from transformer.explain.flow.lens import Lens, lens
from transformer.explain.flow.quantities import Activity, Share, activity, between, scale, share, strengths
from transformer.nn.common import refuse_elsewhere
from transformer.nn.encoder import Encoder
from transformer.runs.classes import temperature_of
from transformer.runs.concurrency import forward_slot


@dataclass(frozen=True, eq=False)
class Flow:
    """What a run's parts did at each position, by the names that the diagram gives them.

    `shares` are those of residual connections; of another library's model, whose parts are not watched, those of whole
    layers. `strengths` are the largest value in each group of neighbouring hidden units. `logits` is the model's own
    output, a row a position (one row for a classifier), None where it ends with states. `temperature` is what a
    calibrated classifier divides it by to get its probabilities, those of the `lens` too. `lens` is None where it is
    not defined, and `no_lens` says why.
    """

    diagram: Diagram
    shares: Mapping[str, Share]
    scales: Mapping[str, Float[np.ndarray, " _"]]
    activity: Mapping[str, Activity]
    strengths: Mapping[str, Float[np.ndarray, "_ _"]]
    logits: Float[np.ndarray, "_ output"] | None
    lens: Lens | None
    no_lens: str = ""
    temperature: float = 1.0


def flow(
    checkpoint: Checkpoint,
    source: Sequence[int],
    read: Sequence[int] | None = None,
    written: Sequence[int] | None = None,
    groups: int = 48,
) -> Flow:
    """Pass ids through the model once more, watched: `read` is what a decoder reads beside a source.

    `written` are the outputs that the lens follows, by default the likeliest. Neighbouring hidden units of a
    feed-forward net make up so many `groups` (no more than there are units); of each, its largest value is kept.

    Raises:
        CheckpointError: the model has no diagram, or is not on the CPU.
    """
    refuse_elsewhere(checkpoint.model)
    diagram = architecture(checkpoint.model)
    layers = [block.name for block in diagram.blocks if block.kind == "layer"]
    twin = watch_flow(checkpoint.model, layers)
    ids = torch.tensor([list(source)])
    target = None if read is None else torch.tensor([list(read)])
    with forward_slot():
        with tracing() as seen:
            output = twin(ids) if target is None else twin(ids, target)
            if isinstance(twin, Encoder) and twin.config.head:  # which ends with states
                output = twin.logits(output, ids)
        nets = seen.names(Units)
        logits = _logits(diagram, output)
        temperature = 1.0 if logits is None else temperature_of(checkpoint, logits.shape[-1])
        found, why = _lens(checkpoint, ids, target, written, temperature)
        return Flow(
            diagram,
            _shares(seen, layers),
            {name: scale(seen, name) for name in seen.names(Normed)},
            {name: activity(seen, name) for name in nets},
            {name: strengths(seen, name, groups) for name in nets},
            logits,
            found,
            why,
            temperature,
        )


def _shares(seen: Trace, layers: Sequence[str]) -> dict[str, Share]:
    sums = seen.names(Added)
    if sums:
        return {name: share(seen, name) for name in sums}
    states = set(seen.names(Tensor))
    return {name: between(seen, f"{name}{BEFORE}", name) for name in layers if name in states}


def _logits(diagram: Diagram, output: Tensor) -> Float[np.ndarray, "position output"] | None:
    if diagram["output"].form == "states":
        return None
    rows = output[0].numpy()
    return rows[None] if rows.ndim == 1 else rows


def _lens(
    checkpoint: Checkpoint, source: Tensor, target: Tensor | None, written: Sequence[int] | None, temperature: float
) -> tuple[Lens | None, str]:
    try:
        return lens(checkpoint.model, source, target, written, temperature=temperature), ""
    except CheckpointError as error:
        return None, error.message

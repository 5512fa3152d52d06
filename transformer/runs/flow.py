"""All that flowed through one run of a checkpoint, in numbers: made by one traced pass, and one more for the lens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError
from ..explain.diagram import Diagram, architecture
from ..explain.flow import Activity, Lens, Share, activity, lens, scale, share, tracing, watch_flow
from ..nn.common import readable, refuse_elsewhere
from .any_model import temperature_of
from .concurrency import forward_slot


@dataclass(frozen=True, eq=False)
class Flow:
    """What a run's parts did at each position, by the names that the diagram gives them.

    `shares` are those of residual connections; of another library's model, whose parts are not watched, those of whole
    layers. `scores` is the model's own output, a row a position (one row for a class): logits, or log-probabilities of
    tokens; None where it ends with states. `temperature` is what a calibrated classifier divides it by to get its
    probabilities, those of the `lens` too. `lens` is None where it is not defined, and `no_lens` says why.
    """

    diagram: Diagram
    shares: Mapping[str, Share]
    scales: Mapping[str, Float[np.ndarray, " _"]]
    activity: Mapping[str, Activity]
    scores: Float[np.ndarray, "_ output"] | None
    lens: Lens | None
    no_lens: str = ""
    temperature: float = 1.0


def flow(
    checkpoint: Checkpoint,
    source: Sequence[int],
    read: Sequence[int] | None = None,
    written: Sequence[int] | None = None,
) -> Flow:
    """Pass ids through the model once more, watched: `read` is what a decoder reads beside a source.

    `written` are the outputs that the lens follows, by default the likeliest.

    Raises:
        CheckpointError: the model has no diagram, or is not on the CPU.
    """
    refuse_elsewhere(checkpoint.model)
    diagram = architecture(checkpoint.model)
    layers = diagram.layers()
    watched: Any = watch_flow(checkpoint.model, layers)
    ids = torch.tensor([list(source)])
    target = None if read is None else torch.tensor([list(read)])
    with forward_slot():
        with tracing() as seen:
            outputs = watched.outputs(ids) if target is None else watched.outputs(ids, target)
        scores = outputs.get("logits", outputs.get("log_probs"))
        temperature = 1.0 if scores is None else temperature_of(checkpoint, scores.shape[-1])
        shares = {name: share(seen, name) for name in seen.names("sum") or seen.names("layer")}
        scales = {name: scale(seen, name) for name in seen.names("norm")}
        active = {name: activity(seen, name) for name in seen.names("net")}
        own = None if scores is None else readable(scores[0] if scores.dim() > 2 else scores).numpy()
        found, why = None, ""
        try:
            found = lens(checkpoint.model, ids, target, written, temperature=temperature)
        except CheckpointError as error:
            why = error.message
        return Flow(diagram, shares, scales, active, own, found, why, temperature)

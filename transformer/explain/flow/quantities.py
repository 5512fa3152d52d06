"""Numbers of what flowed: how much a sub-layer adds, how a norm scales, which hidden units are active."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.explain.flow.capture import Added, Normed, Trace, Units
from transformer.nn.norms import deviation


@dataclass(frozen=True, eq=False)
class Share:
    """What a sub-layer added against what was there, at each position: Euclidean lengths.

    `share` is found / (found + state), from 0 (the sub-layer did nothing) to 1 (only it counts). Lengths do not add
    up where the two point in different directions: it is a measure of size, not of direction.
    """

    state: Float[np.ndarray, " position"]
    found: Float[np.ndarray, " position"]

    @property
    def share(self) -> Float[np.ndarray, " position"]:
        """found / (found + state); 0 where both are 0."""
        total = self.found + self.state
        return np.divide(self.found, total, out=np.zeros_like(total), where=total > 0)


@dataclass(frozen=True, eq=False)
class Activity:
    """The hidden units of a feed-forward net at each position, after their activation.

    `active` is the share of units above zero; `units` the numbers of the strongest ones, strongest first, and `values`
    what they hold.
    """

    active: Float[np.ndarray, " position"]
    units: Int[np.ndarray, "position strongest"]
    values: Float[np.ndarray, "position strongest"]


def share(trace: Trace, name: str, batch: int = 0) -> Share:
    """What the sub-layer before the residual connection `name` added, and what it was added to.

    Raises:
        RecordError: no residual connection of that name ran, or it ran more than once.
    """
    added = trace.at(name, Added)
    return Share(*(part[batch].norm(dim=-1).double().numpy() for part in (added.state, added.found)))


def between(trace: Trace, before: str, after: str, batch: int = 0) -> Share:
    """What everything between two states of the stream added to the first one.

    Raises:
        RecordError: one of them was not kept, or more than once.
    """
    state, end = (trace.at(name, Tensor)[batch] for name in (before, after))
    return Share(*(part.norm(dim=-1).double().numpy() for part in (state, end - state)))


def scale(trace: Trace, name: str, batch: int = 0) -> Float[np.ndarray, " position"]:
    """What the layer norm `name` multiplied each centred position by, before its gain: one over its deviation.

    As the norm itself computes it: the root of (biased variance + eps), or the unbiased deviation + eps.

    Raises:
        RecordError: no norm of that name ran, or it ran more than once.
    """
    normed = trace.at(name, Normed)
    return (1 / deviation(normed.module, normed.read[batch].double())[:, 0]).numpy()


def activity(trace: Trace, name: str, strongest: int = 5, batch: int = 0) -> Activity:
    """What the hidden units of the feed-forward net `name` did.

    Raises:
        RecordError: no net of that name ran, or it ran more than once.
    """
    units = trace.at(name, Units)
    with torch.inference_mode():
        hidden = units.net.hidden(units.read[batch])
    top = hidden.topk(min(strongest, hidden.shape[-1]), dim=-1)
    return Activity((hidden > 0).double().mean(-1).numpy(), top.indices.numpy(), top.values.double().numpy())


def strengths(trace: Trace, name: str, groups: int, batch: int = 0) -> Float[np.ndarray, "position group"]:
    """The largest value in each of so many groups of neighbouring hidden units of the feed-forward net `name`.

    Units stand in their order; groups are as even as their number allows, and no more than there are units.

    Raises:
        RecordError: no net of that name ran, or it ran more than once.
    """
    units = trace.at(name, Units)
    with torch.inference_mode():
        hidden = units.net.hidden(units.read[batch])
    parts = hidden.tensor_split(min(groups, hidden.shape[-1]), dim=-1)
    return torch.stack([part.amax(-1) for part in parts], dim=-1).double().numpy()

"""How a recurrent decoder looks at its source: by location, or by comparing its state with those of the encoder.

Each attention returns its weights beside what they mixed, so that a hook can keep them.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import InputError

States = Float[Tensor, "batch source features"]
Embedded = Float[Tensor, "batch d_embedding"]
State = Float[Tensor, "batch hidden"]
Real = Bool[Tensor, "batch source"] | None


@dataclass
class SourceStates:
    """What a recurrent decoder reads: the encoder's states, zero at padding; and the keys that stand for them.

    `keys` are the states as the attention compares them, computed once a sentence; None where these are the
    states themselves. `real` marks positions that hold a token; None when all do.
    """

    states: States
    keys: Float[Tensor, "batch source hidden"] | None
    real: Real

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows` of the batch, in that order."""
        self.states = self.states[rows]
        self.keys = None if self.keys is None else self.keys[rows]
        self.real = None if self.real is None else self.real[rows]


Mixed = tuple[Float[Tensor, "batch features"], Float[Tensor, "batch 1 1 key"]]
"""The mixed source states, and the weights that mixed them: one head, one query; each row sums to 1."""


class LocationAttention(nn.Module):
    """Weights over a fixed number of positions, from the decoder alone: softmax(W [embedding ; state]).

    Weights past the end of the source fall on zero vectors. That mass is part of the model, and stays visible.
    """

    def __init__(self, d_embedding: int, hidden: int, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length
        self.where = nn.Linear(d_embedding + hidden, max_length)

    def prepare(self, states: States, real: Real) -> SourceStates:
        """Fill the source up to `max_length` positions with zero vectors.

        Raises:
            InputError: the source is longer than the positions that the weights cover.
        """
        spare = self.max_length - states.shape[1]
        if spare < 0:
            raise InputError("past_location_attention", found=states.shape[1], most=self.max_length)
        return SourceStates(nn.functional.pad(states, (0, 0, 0, spare)), keys=None, real=None)

    def forward(self, embedded: Embedded, state: State, source: SourceStates) -> Mixed:
        """Look at positions that the last token and the decoder's state point to."""
        weights = self.where(torch.cat([embedded, state], dim=-1)).softmax(-1)  # (batch, max_length)
        return _mix(weights, source)


class StateAttention(nn.Module):
    """Compare the decoder's state with every source state, and make weights of these scores.

    softmax(v tanh(W state + U source)) (`additive`), softmax(state . source) (`dot`) or softmax(state . W source)
    (`general`).
    """

    def __init__(self, hidden: int, features: int, kind: str) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden) if kind == "additive" else None
        self.key = nn.Linear(features, hidden) if kind != "dot" else None
        self.score = nn.Linear(hidden, 1) if kind == "additive" else None

    def prepare(self, states: States, real: Real) -> SourceStates:
        """Project the source states once, where a matrix is learned; every step compares itself with them."""
        return SourceStates(states, keys=None if self.key is None else self.key(states), real=real)

    def forward(self, embedded: Embedded, state: State, source: SourceStates) -> Mixed:
        """Look at source positions whose keys suit the decoder's state; padding gets no weight."""
        keys = source.states if source.keys is None else source.keys
        if self.query is None or self.score is None:
            scores = (keys * state[:, None]).sum(-1)  # (batch, source)
        else:
            scores = self.score(torch.tanh(self.query(state)[:, None] + keys)).squeeze(-1)
        hidden = scores if source.real is None else scores.masked_fill(~source.real, -torch.inf)
        return _mix(hidden.softmax(-1), source)


def _mix(weights: Float[Tensor, "batch key"], source: SourceStates) -> Mixed:
    return torch.bmm(weights[:, None], source.states)[:, 0], weights[:, None, None]

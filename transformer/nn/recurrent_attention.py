"""Attention of a recurrent decoder: at each step, how much of every source position to read.

By location (the decoder alone decides where to look; the first PyTorch seq2seq tutorial, after Luong et al. 2015,
section 3.1), additive (the decoder's state is compared with every source state; Bahdanau et al. 2015, section 3.1), or
by a product with every source state (Luong et al. 2015, equation 8: `dot` and `general`). All return the weights beside
what they mixed, so that a hook can keep them.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer.errors import InputError


@dataclass
class SourceStates:
    """What a recurrent decoder reads: the encoder's states, zero at padding; and the keys that stand for them.

    `keys` are the states as the attention compares them, computed once a sentence; None where these are the
    states themselves. `real` marks positions that hold a token; None when all do.
    """

    states: Float[Tensor, "batch source features"]
    keys: Float[Tensor, "batch source hidden"] | None
    real: Bool[Tensor, "batch source"] | None

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

    def prepare(
        self, states: Float[Tensor, "batch source features"], real: Bool[Tensor, "batch source"] | None
    ) -> SourceStates:
        """Fill the source up to `max_length` positions with zero vectors.

        Raises:
            InputError: the source is longer than the positions that the weights cover.
        """
        spare = self.max_length - states.shape[1]
        if spare < 0:
            raise InputError("past_location_attention", found=states.shape[1], most=self.max_length)
        return SourceStates(nn.functional.pad(states, (0, 0, 0, spare)), keys=None, real=None)

    def forward(
        self,
        embedded: Float[Tensor, "batch d_embedding"],
        state: Float[Tensor, "batch hidden"],
        source: SourceStates,
    ) -> Mixed:
        """Look at positions that the last token and the decoder's state point to."""
        weights = self.where(torch.cat([embedded, state], dim=-1)).softmax(-1)  # (batch, max_length)
        return _mix(weights, source)


class AdditiveAttention(nn.Module):
    """Compare the decoder's state with every source state: softmax(v tanh(W state + U source))."""

    def __init__(self, hidden: int, features: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(features, hidden)
        self.score = nn.Linear(hidden, 1)

    def prepare(
        self, states: Float[Tensor, "batch source features"], real: Bool[Tensor, "batch source"] | None
    ) -> SourceStates:
        """Project the source states once; every step compares itself with them."""
        return SourceStates(states, keys=self.key(states), real=real)

    def forward(
        self,
        embedded: Float[Tensor, "batch d_embedding"],
        state: Float[Tensor, "batch hidden"],
        source: SourceStates,
    ) -> Mixed:
        """Look at source positions whose keys match the decoder's state; padding gets no weight."""
        scores = self.score(torch.tanh(self.query(state)[:, None] + source.keys)).squeeze(-1)  # (batch, source)
        return _look(scores, source)


class ProductAttention(nn.Module):
    """Multiply the decoder's state with every source state: softmax(state . source), or softmax(state . W source)."""

    def __init__(self, hidden: int, features: int, learned: bool) -> None:
        super().__init__()
        self.key = nn.Linear(features, hidden) if learned else None

    def prepare(
        self, states: Float[Tensor, "batch source features"], real: Bool[Tensor, "batch source"] | None
    ) -> SourceStates:
        """Project the source states once, where a matrix is learned; every step multiplies itself with them."""
        return SourceStates(states, keys=None if self.key is None else self.key(states), real=real)

    def forward(
        self,
        embedded: Float[Tensor, "batch d_embedding"],
        state: Float[Tensor, "batch hidden"],
        source: SourceStates,
    ) -> Mixed:
        """Look at source positions whose keys point where the decoder's state does; padding gets no weight."""
        keys = source.states if source.keys is None else source.keys
        return _look((keys * state[:, None]).sum(-1), source)


def _look(scores: Float[Tensor, "batch source"], source: SourceStates) -> Mixed:
    """Hide padding, make weights of the scores, and mix the states by them."""
    hidden = scores if source.real is None else scores.masked_fill(~source.real, -torch.inf)
    return _mix(hidden.softmax(-1), source)


def _mix(weights: Float[Tensor, "batch key"], source: SourceStates) -> Mixed:
    return torch.bmm(weights[:, None], source.states)[:, 0], weights[:, None, None]

"""What an attention sub-layer adds up: one part a key, one for the residual, and constants.

What a key gives is F_h(x_j) = (x_j W_V[h] + b_V[h]) W_O[h], weighted and summed over heads; a norm after the sum is
linear once its deviation is known. Source: Kobayashi et al. 2020, equation 3; Kobayashi et al. 2021, equations 5 to 8.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer.nn.masks import Mask
from transformer.nn.norms import deviation
from transformer.sites import Site

CELLS_AT_ONCE = 4_000_000
"""Numbers of the parts (row x part x d_model) that are held at one time."""


def linear_part(norm: nn.Module, x: Float[Tensor, "*batch d_model"], by: Tensor) -> Float[Tensor, "*batch d_model"]:
    """What `norm` makes of a part of a sum whose deviation is `by`; all parts sum to its answer, less its bias."""
    return cast(Tensor, norm.weight).double() * (x - x.mean(-1, keepdim=True)) / by


@dataclass(frozen=True, eq=False)
class DecomposedSublayer(ABC):
    """One attention sub-layer of one sentence: `x` is what its residual carries."""

    site: Site
    x: Float[Tensor, "query d_model"]
    mask: Mask

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Queries, keys."""

    @property
    @abstractmethod
    def constant(self) -> Float[Tensor, " d_model"]:
        """What the output projection adds by itself, as doubles."""

    @property
    @abstractmethod
    def norm(self) -> nn.Module | None:
        """The norm after the sum; None where it comes before."""

    @property
    @abstractmethod
    def output(self) -> Float[Tensor, "query d_model"]:
        """What the model itself computes."""

    @abstractmethod
    def weights(self) -> Float[Tensor, "head query key"]:
        """Attention weights; each row of each head sums to 1, unless it sees nothing."""

    @abstractmethod
    def given(self) -> Float[Tensor, "head key d_model"]:
        """F_h(x_j) as doubles: what each key would give through each head with a weight of 1, without the bias."""

    @abstractmethod
    def clean(self) -> Float[Tensor, "query d_model"]:
        """What the whole layer ends with."""

    @abstractmethod
    def changed(self, keys: Sequence[int]) -> Float[Tensor, "key query d_model"]:
        """The same where the values of one of `keys` are zero in every head, for each of them."""

    def visible(self) -> Bool[np.ndarray, "query key"]:
        """Which keys a row sees."""
        table = self.mask.dense(*self.shape, self.x.device)
        if table is None:
            return np.ones(self.shape, dtype=bool)
        return table[0, 0].expand(self.shape).cpu().numpy()

    def parts(self) -> Iterator[tuple[slice, Float[Tensor, "row part d_model"], Float[Tensor, "row d_model"]]]:
        """Groups of rows: which, their parts, and the constant (biases) that completes their sum to the output.

        In self-attention part j is what key j gives, with the residual in part t of row t. In cross-attention the
        residual is one more part, the last. With the norm after the sum, parts have passed it.
        """
        weights, given = self.weights().double(), self.given()
        norm, carried = self.norm, self.x.double()
        n_queries, n_keys = self.shape
        size = max(1, CELLS_AT_ONCE // (n_keys * carried.shape[1]))
        for start in range(0, n_queries, size):
            rows = slice(start, min(start + size, n_queries))
            count, here = rows.stop - rows.start, torch.arange(rows.start, rows.stop)
            constants = self.constant.expand(count, -1)
            parts = torch.einsum("htj,hjd->tjd", weights[:, rows], given)
            if self.site.kind == "self":
                parts[torch.arange(count), here] += carried[rows]
            else:
                parts = torch.cat([parts, carried[rows, None]], dim=1)
            if norm is None:
                yield rows, parts, constants
                continue
            by = deviation(norm, parts.sum(1) + constants)
            yield rows, linear_part(norm, parts, by[:, None]), linear_part(norm, constants, by) + shift(norm)


def shift(norm: nn.Module) -> Tensor | float:
    """The bias of a norm, which some leave out."""
    bias = getattr(norm, "bias", None)
    return 0.0 if bias is None else bias.double()

"""What is measured of classifiers of sequences, whose positions are windows of letters.

Offsets are counted in letters, from the start of one window to the start of the other. A window shares what it receives
evenly among its letters, as in `sequences.folding`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer.atlas.maps import Maps
from transformer.atlas.statistics import OFFSETS, REACH, TINY, Totals, divergences, spread_of
from transformer.nn.kmers import Window


@dataclass(frozen=True, eq=False)
class WindowKeys:
    """The windows of sequences of one length, and their letters as ids; `n_letters` is the size of the alphabet."""

    spans: tuple[Window, ...]
    letters: Int[Tensor, "sentence letter"]
    n_letters: int
    usual: bool
    """Whether the sequences have the length that the model was trained on, so that places can be compared."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of windows, in their order."""
        return tuple(dict.fromkeys(span.width for span in self.spans))


def window_totals(maps: Maps, keys: WindowKeys) -> dict[str, Totals]:
    """Every measure of windows, and what heads differ by."""
    rows = maps.choosing
    weights = maps.weights * rows[:, None, :, None]
    n_rows = rows.sum(-1).long().numpy()[:, None, None]
    above = weights + TINY
    found = spread_of(maps, above, rows)
    found["confidence"] = Totals(weights.amax(-1).double().sum(-1).numpy()[:, :, None], n_rows)
    received = weights.sum(2)
    found["width"] = Totals((received @ by_width(keys.spans)).double().numpy(), n_rows)
    folding = folding_of(keys.spans, keys.letters.shape[1])
    on_letters = (received @ folding).double()  # (sentence, head, letter)
    named = torch.nn.functional.one_hot(keys.letters.clamp(max=keys.n_letters), keys.n_letters + 1)
    found["letter"] = Totals((on_letters @ named[..., : keys.n_letters].double()).numpy(), n_rows)
    if keys.usual:
        found["place"] = Totals(on_letters.numpy(), n_rows)
    if maps.sites[0][0].kind == "self":
        found |= offsets_of(weights, maps, keys.spans)
    if weights.shape[1] > 2:
        found["divergence"] = divergences(above[:, :-1], maps.visible, found["entropy"])
    return found


def offsets_of(weights: Tensor, maps: Maps, spans: Sequence[Window]) -> dict[str, Totals]:
    """Weight on windows that start so many letters after the query's, and how often the largest weight lies there."""
    starts = torch.tensor([span.start for span in spans])
    apart = starts[None, :] - starts[:, None]  # (query, key)
    place = torch.where(apart.abs() <= REACH, apart + REACH, len(OFFSETS))  # one more for what lies further away
    profile = _sorted_into(weights, place).sum(2).double()
    seen = _sorted_into((maps.visible & maps.choosing[:, :, None])[:, None].to(weights.dtype), place) > 0
    best = torch.from_numpy(maps.best)
    largest = torch.nn.functional.one_hot(place[torch.arange(len(spans)), best], len(OFFSETS) + 1)
    hits = (largest * maps.choosing[:, None, :, None]).sum(2)[..., :-1].double()
    n_rows = maps.choosing.sum(-1).long().numpy()[:, None, None]
    return {
        "offset": Totals(profile.numpy(), seen.sum(2).long().numpy()),
        "argmax": Totals(hits.numpy(), n_rows),
    }


def _sorted_into(
    table: Float[Tensor, "sentence head query key"], place: Int[Tensor, "query key"]
) -> Float[Tensor, "sentence head query offset"]:
    """The sum of each row over the keys of each place, without the last place."""
    found = table.new_zeros(*table.shape[:3], len(OFFSETS) + 1)
    return found.scatter_add_(3, place.expand_as(table), table)[..., :-1]


def by_width(spans: Sequence[Window]) -> Float[Tensor, "window width"]:
    """1 where a window has a width."""
    widths = list(dict.fromkeys(span.width for span in spans))
    return torch.tensor([[float(span.width == width) for width in widths] for span in spans])


def folding_of(spans: Sequence[Window], length: int) -> Float[Tensor, "window letter"]:
    """How a window's share is divided among its letters; each row sums to 1."""
    table = np.zeros((len(spans), length), dtype=np.float32)
    for row, span in zip(table, spans, strict=True):
        row[span.start : span.start + span.width] = 1 / span.width
    return torch.from_numpy(table)

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
from transformer.atlas.statistics import OFFSETS, REACH, argmax_profile, divergences, spread_of
from transformer.attention.measures import Totals, choosing, confidence, received
from transformer.nn.kmers import Window
from transformer.sequences.folding import folded


@dataclass(frozen=True, eq=False)
class WindowKeys:
    """The windows of sequences of one length, and their letters as ids; `n_letters` is the size of the alphabet."""

    spans: tuple[Window, ...]
    letters: Int[Tensor, "sentence letter"]
    n_letters: int
    usual: bool
    """Whether the sequences have the length that the model was trained on, so that places can be compared."""


def window_totals(maps: Maps, keys: WindowKeys) -> dict[str, Totals]:
    """Every measure of windows, and what heads differ by."""
    weights, visible = maps.weights.numpy(), maps.visible.numpy()[:, None]
    n_rows = choosing(visible).sum(-1, keepdims=True)
    found = spread_of(weights, visible)
    found["confidence"] = confidence(weights, visible, np.ones((1, 1, weights.shape[-1]), dtype=bool))
    track = folded(received(weights, visible), keys.spans, keys.letters.shape[1])
    found["width"] = Totals(track.share.sum(-1), n_rows)
    named = (keys.letters.numpy()[..., None] == np.arange(keys.n_letters)).astype(np.float64)
    found["letter"] = Totals(track.total @ named, n_rows)
    if keys.usual:
        found["place"] = Totals(track.total, n_rows)
    if maps.sites[0][0].kind == "self":
        found |= offsets_of(maps, keys.spans)
    if weights.shape[1] > 2:
        found["divergence"] = divergences(weights[:, :-1], visible, found["entropy"])
    return found


def offsets_of(maps: Maps, spans: Sequence[Window]) -> dict[str, Totals]:
    """Weight on windows that start so many letters after the query's, and how often the largest weight lies there."""
    starts = torch.tensor([span.start for span in spans])
    rows = torch.from_numpy(maps.choosing)[:, None]  # (sentence, 1, query)
    apart = starts[None, :] - starts[:, None]  # (query, key)
    place = torch.where(apart.abs() <= REACH, apart + REACH, len(OFFSETS))  # one more for what lies further away
    profile = _sorted_into(maps.weights * rows[..., None], place).sum(2).double()
    seen = _sorted_into((maps.visible[:, None] & rows[..., None]).to(maps.weights.dtype), place) > 0
    return {
        "offset": Totals(profile.numpy(), seen.sum(2).long().numpy()),
        "argmax": argmax_profile(maps.best, rows.numpy(), apart.numpy()),
    }


def _sorted_into(
    table: Float[Tensor, "sentence head query key"], place: Int[Tensor, "query key"]
) -> Float[Tensor, "sentence head query offset"]:
    """The sum of each row over the keys of each place, without the last place."""
    found = table.new_zeros(*table.shape[:3], len(OFFSETS) + 1)
    return found.scatter_add_(3, place.expand_as(table), table)[..., :-1]

"""Masks: who may see whom. The one place where padding, causal and cross masks are made.

A mask is kept in its smallest form (which keys are real, and whether the future is hidden) and becomes a
query x key table only inside the attention call that needs one.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Which keys each query may see: `keys` marks real keys True, `causal` hides later positions.

    `keys` is None when every key is real, so a sentence without padding costs no mask at all. One row may
    stand for the whole batch.

    A row whose keys are all hidden sees nothing, and gets zeros. With `uniform_if_masked`, it sees every key alike
    instead: so do models that hide with a large number such as -1e9 (those with -inf get NaN).
    """

    keys: Bool[Tensor, "#batch key"] | None = None
    causal: bool = False
    uniform_if_masked: bool = False

    @property
    def n_bytes(self) -> int:
        """Memory of the marked keys."""
        return 0 if self.keys is None else self.keys.nbytes

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "#batch 1 #query #key"] | None:
        """True where a query may see a key, in the smallest shape that broadcasts; None when all is visible.

        With fewer queries than keys, the queries are taken to be the last positions (as in cached decoding).
        """
        visible = None if self.keys is None else self.keys[:, None, None, :]
        if self.causal and n_queries > 1:
            past = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)
            visible = past[None, None] if visible is None else visible & past
        if visible is not None and self.uniform_if_masked:
            visible = visible | ~visible.any(-1, keepdim=True)
        return visible

    def fully_masked(self, n_queries: int, n_keys: int) -> Bool[Tensor, "#batch query"] | None:
        """True for a row whose keys are all hidden; None where every row sees something."""
        if self.keys is None:
            return None
        first = self.keys.long().argmax(1) + n_keys * ~self.keys.any(1)  # of the keys that are real
        reach = torch.arange(n_keys - n_queries, n_keys, device=first.device)  # the last key that a row may see
        found = first[:, None] > (reach if self.causal else torch.full_like(reach, n_keys - 1))
        return found if bool(found.any()) else None

    def zero_masked_queries(
        self, q: Float[Tensor, "batch head query d_k"], n_keys: int
    ) -> Float[Tensor, "batch head query d_k"]:
        """The queries: zero, so that all keys score alike, where a row is fully masked and `uniform_if_masked`."""
        blind = self.fully_masked(q.shape[2], n_keys) if self.uniform_if_masked else None
        return q if blind is None else q.masked_fill(blind[:, None, :, None], 0.0)

    def part(
        self, rows: slice, keys: slice, n_queries: int, n_keys: int, batch: int
    ) -> Bool[Tensor, "#query key"] | None:
        """What `rows` may see of `keys` in one batch element; memory is that of the part. None when all is visible."""
        visible = None
        if self.causal:
            offset = n_keys - n_queries
            query = torch.arange(rows.start + offset, rows.stop + offset)[:, None]
            visible = torch.arange(keys.start, keys.stop)[None, :] <= query
        if self.keys is not None:
            real = self.keys[min(batch, len(self.keys) - 1), keys].cpu()[None, :]
            visible = real if visible is None else visible & real
            blind = self.fully_masked(n_queries, n_keys) if self.uniform_if_masked else None
            if blind is not None:
                visible = visible | blind[min(batch, len(blind) - 1), rows].cpu()[:, None]
        return visible

    def visible_range(self, rows: slice, n_queries: int, n_keys: int) -> slice:
        """Keys before it are visible to all of `rows` in every batch element, keys after it to none of them."""
        offset = n_keys - n_queries
        limited = self.causal and not (self.uniform_if_masked and self.keys is not None)
        start = rows.start + offset + 1 if self.causal else n_keys
        stop = rows.stop + offset if limited else n_keys
        return slice(0 if self.keys is not None else max(0, min(start, n_keys)), max(0, min(stop, n_keys)))


def padding(ids: Int[Tensor, "batch key"], pad_id: int, shown: Bool[Tensor, "batch key"] | None = None) -> Mask:
    """Hide padding: for self-attention of an encoder over `ids`, and for cross-attention to them.

    `shown` hides more keys, where it is False: for asking what a model does without them.
    """
    real = ids != pad_id
    real = real if shown is None else real & shown
    return Mask(keys=None if bool(real.all()) else real)


def causal(ids: Int[Tensor, "batch key"], pad_id: int, shown: Bool[Tensor, "batch key"] | None = None) -> Mask:
    """Hide padding and the future, and what `shown` does not: for self-attention of a decoder over `ids`."""
    return Mask(keys=padding(ids, pad_id, shown).keys, causal=True)


def masked_softmax(
    scores: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*#batch #query #key"] | None,
    sink: Float[Tensor, "*#batch query 1"] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Attention weights: each row sums to 1 over its visible keys; a row that sees nothing is all zeros.

    `sink` is one more score of each row, which takes its part of the softmax and is no key.
    """
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    weights = scores.softmax(-1) if sink is None else torch.cat([scores, sink.to(scores)], dim=-1).softmax(-1)[..., :-1]
    return weights if visible is None else weights.masked_fill(~visible, 0.0)

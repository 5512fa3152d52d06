"""Fused attention, which leaves the log-sum-exp of each row to whoever records.

It computes them anyway. The operator is the one that `scaled_dot_product_attention` chooses on a CPU, so outputs are
the same bits; it is private to torch, and is asked only where it pays. Row sums in a second pass cost 0.7 (512
positions) to 1.5 (8,192) times the attention; these cost nothing.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from .common import run_context

FROM = 1024
"""Keys from which a row is long enough that its sum is worth keeping: 4 bytes a row and head."""

LEAST_QUERIES, QUICK = 16, 2**16
"""Fewest queries, and most queries times keys of a head, for which `quick_attention` pays."""

TILE = 2**17
"""Scores that are computed at a time: they fit into a core's cache."""

EXACT = 1e-30, 1e30
"""Sums of exponentials between these come from a largest score of at most about 70 to either side of zero."""

OPERATOR, LINEAR = "_scaled_dot_product_flash_attention_for_cpu", "_linear_pointwise"


Queries = Float[Tensor, "batch head query d_k"]
Keys = Float[Tensor, "batch head key d_k"]
Values = Float[Tensor, "batch head key d_v"]
Mixed = Float[Tensor, "batch head query d_v"]
Visible = Bool[Tensor, "#batch #head #query #key"] | None


class Linear(nn.Linear):
    """`nn.Linear`, which oneDNN computes where a pass `is_quick`: MKL takes twice as long on processors of AMD."""

    def forward(self, input: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch mapped"]:  # noqa: A002
        """The linear map of each row."""
        mapped = self._of_one_dnn(input, "none")
        return super().forward(input) if mapped is None else mapped

    def relu(self, input: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch mapped"]:  # noqa: A002
        """The linear map of each row, and zero where it is negative; in one step where a pass `is_quick`."""
        mapped = self._of_one_dnn(input, "relu")
        return F.relu(self(input)) if mapped is None else mapped

    def _of_one_dnn(self, x: Tensor, activation: str) -> Tensor | None:
        operator = getattr(torch.ops.mkldnn, LINEAR, None) if run_context().is_quick else None
        if operator is None or x.device.type != "cpu" or x.dtype != torch.float32:
            return None
        mapped: Tensor = operator(x, self.weight, self.bias, activation, [], "")
        return mapped


def row_sums() -> Float[Tensor, "batch head query"] | None:
    """The sums of the attention that ran last, once; None where they are not known."""
    last = run_context().row_sums
    return last.pop() if last else None


def whole_weights() -> Float[Tensor, "batch head query key"] | None:
    """The weights of the attention that ran last, once; None where it did not write them out."""
    last = run_context().weights
    return last.pop() if last else None


def fused_attention(q: Queries, k: Keys, v: Values, visible: Visible, is_causal: bool, scale: float) -> Mixed:
    """`F.scaled_dot_product_attention`, which keeps row sums that are wanted where nothing is masked."""
    mixed = written_out_attention(q, k, v, visible, is_causal, scale)
    if mixed is None and visible is None:
        mixed = summed_attention(q, k, v, is_causal, scale)
    if mixed is None and visible is None and not is_causal and run_context().is_quick:
        mixed = quick_attention(q, k, v, scale)
    if mixed is not None:
        return mixed
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, is_causal=is_causal, scale=scale)


def quick_attention(q: Queries, k: Keys, v: Values, scale: float) -> Mixed | None:
    """Attention by powers of two of the scores themselves, in a third of the time where heads are narrow.

    None where it has no gain, or where sums leave the range in which it is as exact as the softmax.
    """
    n_rows, n_heads, n_queries, n_keys = *q.shape[:3], k.shape[2]
    pays = q.device.type == "cpu" and q.dtype == torch.float32 and n_queries >= LEAST_QUERIES
    if not pays or n_queries * n_keys > QUICK:
        return None
    some = max(1, TILE // (n_queries * n_keys))
    buffer = v.new_empty(some, n_keys, n_queries)
    mixed = v.new_empty(n_rows, n_queries, n_heads, v.shape[3]).transpose(1, 2)  # whose heads are joined by no copy
    sums = v.new_empty(n_heads, n_rows, 1, n_queries)
    for of_head in zip(k.unbind(1), q.mT.unbind(1), v.mT.unbind(1), mixed.mT.unbind(1), sums, strict=True):
        for keys, queries, values, found, total in zip(*(one.split(some) for one in of_head), strict=True):
            weights = buffer[: len(keys)]
            torch.baddbmm(weights, keys, queries, beta=0, alpha=scale / math.log(2), out=weights)
            torch.exp2(weights, out=weights)
            torch.sum(weights, 1, keepdim=True, out=total)
            torch.div(values @ weights, total, out=found)
    return mixed if _is_exact(sums) else None


def written_out_attention(
    q: Queries, k: Keys, v: Values, visible: Visible, is_causal: bool, scale: float
) -> Mixed | None:
    """Attention that keeps the table of its weights (`whole_weights`), which a caller who wants every weight reads.

    For sentences it costs less than the fused attention does. None where tables are not wanted, where a table is large,
    or where sums leave the range in which exponentials of the scores themselves are as exact as the softmax.
    """
    last = run_context().weights
    if last is None:
        return None
    last.clear()
    plain = q.device.type == "cpu" and q.dtype == torch.float32 and not torch.is_grad_enabled()
    if not plain or q.shape[2] * k.shape[2] > QUICK:
        return None
    if is_causal:
        visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()[None, None]
    ignored = q.new_empty(1, 1, 1)
    scores = torch.baddbmm(ignored, q.flatten(0, 1), k.flatten(0, 1).mT, beta=0, alpha=scale / math.log(2))
    weights = scores.unflatten(0, q.shape[:2])
    if visible is not None:
        weights += torch.zeros(visible.shape).masked_fill_(~visible, -torch.inf)
    sums = weights.exp2_().sum(-1, keepdim=True)
    if not _is_exact(sums):
        return None
    last.append(weights.div_(sums))
    return weights @ v


def summed_attention(
    q: Queries,
    k: Keys,
    v: Values,
    is_causal: bool,
    scale: float,
    added: Float[Tensor, "#batch #head #query key"] | None = None,
) -> Mixed | None:
    """Fused attention that keeps its row sums; None where they are not wanted, or not to be had.

    `added` is added to the scores: -inf where a key is hidden.
    """
    last = run_context().row_sums
    if last is None:
        return None
    last.clear()
    chosen = q.device.type == "cpu" and q.shape[-1] == v.shape[-1] and torch.backends.cuda.flash_sdp_enabled()
    chosen &= not torch.is_grad_enabled() and all(x.stride(-1) == 1 for x in (q, k, v))
    if not chosen or k.shape[2] < FROM or not hasattr(torch.ops.aten, OPERATOR):
        return None
    mixed, sums = getattr(torch.ops.aten, OPERATOR)(q, k, v, 0.0, is_causal, attn_mask=added, scale=scale)
    last.append(sums)
    return mixed


def _is_exact(sums: Tensor) -> bool:
    """Whether exponentials of the scores themselves are as exact as a softmax, by the sums of the rows."""
    return EXACT[0] < float(sums.min()) and float(sums.max()) < EXACT[1]

"""Attention whose scores the fused one does not know, a few rows at a time: no table of queries and keys is held."""

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.softmax_inputs import QueriesKeys, row_groups

ROWS = 64
"""Queries whose scores are held at one time: 4 MB at 16,384 keys, which a processor's cache holds."""


def mixed_by_rows(
    softmax: QueriesKeys, v: Float[Tensor, "batch key_head key d_v"]
) -> tuple[Float[Tensor, "batch head query d_v"], Float[Tensor, "batch head query"]]:
    """What the heads give on, and the log-sum-exp of each row; slopes pass. A row that sees nothing gives zeros."""
    shared = softmax.n_heads // v.shape[1]  # grouped queries: Ainslie et al. 2023
    found = [
        [_mixed(softmax, v[batch, head // shared], batch, head) for head in range(softmax.n_heads)]
        for batch in range(softmax.n_sentences)
    ]
    mixed = torch.stack([torch.stack([of_head for of_head, _ in heads]) for heads in found])
    return mixed, torch.stack([torch.stack([sums for _, sums in heads]) for heads in found])


def _mixed(softmax: QueriesKeys, v: Float[Tensor, "key d_v"], batch: int, head: int) -> tuple[Tensor, Tensor]:
    """What one head of one sentence gives on, and its rows' log-sum-exps."""
    mixed, all_sums = [], []
    for rows in row_groups(slice(0, softmax.n_queries), ROWS):
        reach = slice(0, max(1, softmax.mask.edge(rows, softmax.n_queries, softmax.n_keys).stop))
        scores = softmax.scores(batch, head, rows, reach)
        visible = softmax.mask.part(rows, reach, softmax.n_queries, softmax.n_keys, batch)
        if visible is not None:
            scores = scores.masked_fill(~visible.to(scores.device), -torch.inf)
        sums = scores.logsumexp(-1)
        if softmax.sinks is not None:
            sums = torch.logaddexp(sums, softmax.sinks[head])
        weights = (scores - sums.nan_to_num(neginf=0.0)[:, None]).exp()
        mixed.append(weights @ v[reach])
        all_sums.append(sums)
    return torch.cat(mixed), torch.cat(all_sums)

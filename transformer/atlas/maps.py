"""All heads of one kind over a batch of sentences, as one tensor of weights: what the statistics are made from.

Heads of one kind (`encoder.self`, `decoder.cross` ...) ask and answer over the same axes, so their weights stand beside
each other: layer after layer, head after head. A last head is added that looks at every visible key evenly: what it
measures is the chance level of each measure, by the same code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.attention.capture import Recording
from transformer.attention.changed import ChangedAttentionInputs, SoftmaxInputs
from transformer.attention.measures import choosing
from transformer.attention.softmax_inputs import Weights, every_weight
from transformer.nn.masks import masked_softmax
from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of one kind: the heads of `sites` in their order, then even attention as the last one.

    Rows of padding and hidden cells are 0; `visible` says which keys each real query may see.
    """

    group: str
    sites: tuple[tuple[Site, int], ...]
    weights: Float[Tensor, "sentence head query key"]
    visible: Bool[Tensor, "sentence query key"]
    n_queries: Int[Tensor, " sentence"]
    n_keys: Int[Tensor, " sentence"]

    @property
    def choosing(self) -> Bool[np.ndarray, "sentence query"]:
        """Queries with a choice: they see at least two keys."""
        return choosing(self.visible.numpy())

    @cached_property
    def best(self) -> Int[np.ndarray, "sentence head query"]:
        """The key with the largest weight of each row, of equal ones the first."""
        found: np.ndarray = self.weights.numpy().argmax(-1)
        return found


def groups_of(seen: Recording) -> dict[str, list[Site]]:
    """The sites that ran, by kind."""
    found: dict[str, list[Site]] = {}
    for site in seen.sites:
        found.setdefault(site.group, []).append(site)
    return found


def maps_of(
    seen: Recording, group: str, sites: Sequence[Site], n_queries: Sequence[int], n_keys: Sequence[int]
) -> Maps:
    """The weights of one kind over a batch whose sentences have so many real queries and keys.

    Where layers differ in what they let see (sliding windows), a key counts as visible if one of them shows it. Weights
    past the end of a source, which location attention has, become one more key after its last.
    """
    sources = [seen.source(site) for site in sites]
    queries, keys = torch.tensor(n_queries), torch.tensor(n_keys)
    weights = [batch_weights(source) for source in sources]
    past = all(isinstance(source, Weights) and source.mask is None for source in sources)
    if past and weights[0].shape[-1] > int(keys.max()):
        weights, keys = [Weights(one).folded(keys).values for one in weights], keys + 1
    rows, columns = weights[0].shape[2:]
    real_query = torch.arange(rows) < queries[:, None]
    real_key = torch.arange(columns) < keys[:, None]
    visible = real_query[:, :, None] & real_key[:, None, :]
    masks = {id(source.mask): source.mask for source in sources}.values()  # layers mostly share theirs
    tables = [None if mask is None else mask.dense(rows, columns, torch.device("cpu")) for mask in masks]
    if all(table is not None for table in tables):
        visible = visible & reduce(or_, (table for table in tables if table is not None))[:, 0]
    even = visible.to(weights[0].dtype)
    even = even / even.sum(-1, keepdim=True).clamp(min=1)
    whole = torch.cat([*weights, even[:, None]], dim=1)
    if not bool(real_query.all()):
        whole.mul_(real_query[:, None, :, None])
    heads = tuple((site, source.n_heads) for site, source in zip(sites, sources, strict=True))
    return Maps(group, heads, whole, visible, queries, keys)


def batch_weights(source: SoftmaxInputs) -> Float[Tensor, "batch head query key"]:
    """All weights of a softmax, for the whole batch at once; what `SoftmaxInputs.weights` gives one by one."""
    if isinstance(source, Weights):
        return source.values.float()
    if isinstance(source, ChangedAttentionInputs) or source.bias is not None:
        return every_weight(source).float()
    k = source.k
    if k.shape[1] != source.n_heads:
        k = k.repeat_interleave(source.n_heads // k.shape[1], dim=1)  # grouped queries: Ainslie et al. 2023
    scores = ((source.q * source.scale) @ k.transpose(-1, -2)).float()
    return masked_softmax(scores, source.mask.dense(source.n_queries, source.n_keys, scores.device))

"""Masks broken on purpose, and the test that finds such a break: the leak test.

A broken mask enters through a hook on the attention cores of a copy of the model; the model itself has no such switch.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from transformer.attention.capture import watch
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.decoding.search import DecodingOptions, decode, teacher_forced
from transformer.errors import CheckpointError
from transformer.layers.masks import Mask
from transformer.lessons.masks import Batch
from transformer.models.seq2seq import Seq2Seq
from transformer.runs.concurrency import forward_slot

Break = Literal["right", "no_causal", "no_padding", "shift", "transpose"]
BREAKS: tuple[Break, ...] = ("right", "no_causal", "no_padding", "shift", "transpose")
"""The mask as it is; the future seen; padding seen; the triangle shifted by one, so that each position sees the
next; the triangle transposed, so that each position sees the future alone."""

LONGEST = 40
"""Tokens that a translation with a broken mask may take; it often never ends."""


@dataclass(frozen=True, eq=False)
class TableMask(Mask):
    """Any query x key table, right or wrong, in the place of a mask."""

    visible: Bool[Tensor, "query key"] | None = None

    def dense(self, n_queries: int, n_keys: int, device: torch.device) -> Bool[Tensor, "#batch 1 #query #key"] | None:
        """The table, and padding."""
        if self.visible is None:
            return super().dense(n_queries, n_keys, device)
        visible = self.visible.to(device)[None, None]
        return visible if self.keys is None else visible & self.keys[:, None, None, :]

    def part(
        self, rows: slice, keys: slice, n_queries: int, n_keys: int, batch: int
    ) -> Bool[Tensor, "#query key"] | None:
        """The rows and keys of the table, and padding."""
        if self.visible is None:
            return super().part(rows, keys, n_queries, n_keys, batch)
        visible = self.visible[rows, keys]
        return visible if self.keys is None else visible & self.keys[batch, keys].cpu()[None, :]

    def edge(self, rows: slice, n_queries: int, n_keys: int) -> slice:
        """Nothing is known of a table beforehand."""
        return slice(0, n_keys)


def broken_mask(mask: Mask, how: Break, n_queries: int, n_keys: int) -> Mask:
    """`mask`, broken in one way; shift and transposition change causal masks only."""
    if how == "no_causal":
        return Mask(keys=mask.keys)
    if how == "no_padding":
        return Mask(causal=mask.causal)
    if how in {"shift", "transpose"} and mask.causal:
        ones = torch.ones(n_queries, n_keys, dtype=torch.bool)
        offset = n_keys - n_queries
        return TableMask(keys=mask.keys, visible=ones.tril(offset + 1) if how == "shift" else ones.triu(offset))
    return mask


def broken(checkpoint: Checkpoint, how: Break) -> Checkpoint:
    """A copy of the checkpoint, in float64, in which every attention gets its mask broken."""
    model = copy.deepcopy(checkpoint.model).double().eval()

    def swap(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        q, k, v, mask = arguments
        return q, k, v, broken_mask(mask, how, q.shape[2], k.shape[2])

    for core in cast(Seq2Seq, model).attention_sites().values():
        core.register_forward_pre_hook(swap)
    return replace(checkpoint, model=watch(cast(Seq2Seq, model)))


@dataclass(frozen=True)
class Damage:
    """What a broken mask does to a translator: loss in nats a target token, and what it writes."""

    loss: float
    translations: tuple[str, ...]


def damage(checkpoint: Checkpoint, batch: Batch, how: Break) -> Damage:
    """Loss on the batch's targets (padding left out) and greedy translations, without a cache, under a broken mask.

    Raises:
        CheckpointError: the checkpoint is no translator, or it has no tokenizer.
    """
    model, tokenizer = broken(checkpoint, how).model_as(Seq2Seq), checkpoint.writer
    if tokenizer is None:
        raise CheckpointError(f"{checkpoint.name} has no tokenizer: bring the one that it was trained with")
    ends = torch.full((len(batch), 1), model.config.pad_id)
    target = torch.cat([batch.target, ends], dim=1)
    target[torch.arange(len(batch)), (batch.target != model.config.pad_id).sum(1)] = model.config.eos_id
    with forward_slot():
        log_probs = teacher_forced(model, batch.source, target)
        written = int((target[:, 1:] != model.config.pad_id).sum())
        decoded = decode(model, batch.source, DecodingOptions(beam=1, max_length=LONGEST), cached=False)
    texts = tuple(tokenizer.decode(list(one.ids)) for one in decoded)
    return Damage(-float(log_probs.sum()) / written, texts)

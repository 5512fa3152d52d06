"""Masks and axes broken on purpose.

A break enters through a hook on the attention cores of a copy of the model; the model itself has no such switch.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import nn

from transformer.attention.capture import watch
from transformer.attention.masks_and_biases import MaskTable
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.lessons.masks import Batch
from transformer.nn.common import log_probs
from transformer.nn.masks import Mask
from transformer.nn.search import DecodingOptions, decode
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.concurrency import forward_slot

Break = Literal["right", "no_causal", "no_padding", "shift", "transpose", "axes"]
BREAKS: tuple[Break, ...] = ("right", "no_causal", "no_padding", "shift", "transpose")
"""The mask as it is; the future seen; padding seen; the triangle shifted by one, so that each position sees the
next; the triangle transposed, so that each position sees itself and the future, and not the past."""

AXES: Break = "axes"
"""No mask: batch and position change places in the encoder, as without `batch_first=True`. Each word then attends to
the words of the other sentences at its own position. (With a mask, or in cross-attention, shapes seldom fit.)"""

LONGEST = 40
"""Tokens that a translation with a broken mask may take; it often never ends."""


def broken_mask(mask: Mask, how: Break, n_queries: int, n_keys: int) -> Mask:
    """`mask`, broken in one way; shift and transposition change causal masks only."""
    if how == "no_causal":
        return Mask(keys=mask.keys)
    if how == "no_padding":
        return Mask(causal=mask.causal)
    if how in {"shift", "transpose"} and mask.causal:
        ones = torch.ones(n_queries, n_keys, dtype=torch.bool)
        offset = n_keys - n_queries
        visible = (ones.tril(offset + 1) if how == "shift" else ones.triu(offset))[None, None]
        return MaskTable(visible=visible if mask.keys is None else visible & mask.keys[:, None, None, :].cpu())
    return mask


def broken(checkpoint: Checkpoint, how: Break) -> Checkpoint:
    """A copy of the checkpoint, in float64, in which every attention gets its mask broken, or the encoder its axes."""
    model = copy.deepcopy(checkpoint.model).double().eval()

    def swap(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        q, k, v, mask = arguments
        return q, k, v, broken_mask(mask, how, q.shape[2], k.shape[2])

    def across(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return *(one.transpose(0, 2) for one in arguments[:3]), Mask()

    for site, core in cast(Seq2Seq, model).attention_sites().items():
        if how != AXES:
            core.register_forward_pre_hook(swap)
        elif site.stack == "encoder":
            core.register_forward_pre_hook(across)
            core.register_forward_hook(lambda _, __, output: output.transpose(0, 2))
    return replace(checkpoint, model=watch(cast(Seq2Seq, model)))


@dataclass(frozen=True)
class Damage:
    """What a broken mask does to a translator: loss in nats a target token, and what it writes."""

    loss: float
    translations: tuple[str, ...]

    def writes_like(self, other: "Damage") -> bool:
        """Whether the translations are those of `other`, letter by letter."""
        return self.translations == other.translations


def damage(checkpoint: Checkpoint, batch: Batch, how: Break) -> Damage:
    """Loss on the batch's targets and greedy translations, without a cache, under a broken mask.

    The decoder reads exactly the tokens of `batch`, as `batch_run` and the leak test do. At each token that is no
    padding the label is the next one, the end token at the last: a padded target does not read its end token.

    Raises:
        CheckpointError: the checkpoint is no translator, or it has no tokenizer.
    """
    model, tokenizer = broken(checkpoint, how).model_as(Seq2Seq), checkpoint.writer
    if tokenizer is None:
        raise CheckpointError("lesson_no_tokenizer", name=checkpoint.name)
    real = batch.target != batch.target_pad_id
    labels = batch.target.roll(-1, dims=1)
    labels[torch.arange(len(batch)), real.sum(1) - 1] = model.config.eos_id
    with forward_slot(), torch.no_grad():
        chosen = log_probs(model(batch.source, batch.target)).gather(-1, labels[..., None])[..., 0]
        decoded = decode(model, batch.source, DecodingOptions(beam=1, max_length=LONGEST), cached=False)
    texts = tuple(tokenizer.decode(list(one.ids)) for one in decoded)
    return Damage(-float(chosen[real].mean()), texts)

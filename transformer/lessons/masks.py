"""Masks of a batch as they are built, with reasons; and broken on purpose (`leakage` finds what is broken).

Every table is what `heedmap.nn.masks` gives to the attention. A break enters through a hook on the attention cores
of a copy of the model; the model itself has no such switch.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from ..attention.capture import Recording, recording, watch
from ..attention.tables import MaskTable
from ..checkpoint.checkpoint import Checkpoint
from ..errors import InputError
from ..nn import masks as model_masks
from ..nn.common import log_probs, pad
from ..nn.masks import Mask
from ..nn.protocols import written_pad
from ..nn.search import DecodingOptions, decode
from ..nn.seq2seq import Seq2Seq
from ..plots.axes import Axis
from ..runs.concurrency import forward_slot
from ..sites import Site
from .sentences import BOS, EOS, MAX_TOKENS, N_SPECIAL, Sentence, typed_words, word_ids

LARGEST_BATCH = 4
"""Sentences in one batch: more do not fit on a screen."""

PAD = "·pad·"
"""How padding is labelled."""

Real = Bool[np.ndarray, "_sentence _position"]
"""Which tokens of a batch are no padding."""


class Reason(IntEnum):
    """Why a query may not see a key; `VISIBLE` when it may. Padding in the future is hidden for both reasons."""

    VISIBLE = 0
    FUTURE = 1
    PADDING = 2
    BOTH = 3


@dataclass(frozen=True, eq=False)
class Batch:
    """Sources and targets, each filled up with its own padding to the longest; some models have two padding ids."""

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]
    source_labels: tuple[tuple[str, ...], ...]
    target_labels: tuple[tuple[str, ...], ...]
    pad_id: int
    target_pad_id: int

    @classmethod
    def of(
        cls, sources: Sequence[Sentence], targets: Sequence[Sentence], pad_id: int, target_pad_id: int | None = None
    ) -> "Batch":
        """Put sentence pairs into one batch; without a `target_pad_id`, targets are padded as sources are.

        Raises:
            InputError: no sentence, more than four, or not as many sources as targets.
        """
        if not 1 <= len(sources) <= LARGEST_BATCH:
            raise InputError("lesson_batch_size", found=len(sources), most=LARGEST_BATCH)
        if len(sources) != len(targets):
            raise InputError("lesson_batch_sides", sources=len(sources), targets=len(targets))
        target_pad_id = pad_id if target_pad_id is None else target_pad_id
        ids = pad([one.ids for one in sources], pad_id), pad([one.ids for one in targets], target_pad_id)
        return cls(*ids, _labels(sources), _labels(targets), pad_id, target_pad_id)

    @classmethod
    def for_model(cls, sources: Sequence[Sentence], targets: Sequence[Sentence], model: Seq2Seq) -> "Batch":
        """Put sentence pairs into one batch (`of`), padded as `model` pads them."""
        return cls.of(sources, targets, model.config.pad_id, written_pad(model.config))

    def __len__(self) -> int:
        return len(self.source)

    def labels(self, site: Site, row: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Queries and keys of a site in sentence `row`."""
        source, target = self.source_labels[row], self.target_labels[row]
        return source if site.stack == "encoder" else target, target if site.group == "decoder.self" else source

    @property
    def real(self) -> tuple[Real, Real]:
        """Which tokens are no padding, of sources and of targets."""
        return (self.source != self.pad_id).numpy(), (self.target != self.target_pad_id).numpy()


def toy_batch(sources: Sequence[str], targets: Sequence[str]) -> tuple[Batch, int]:
    """Typed lines as a batch of words, and the vocabulary that a toy needs for it.

    Sources end with an end token, targets begin with a start token, as a translator reads them.

    Raises:
        InputError: no line, too many, too long ones, or not as many sources as targets.
    """
    typed = [[typed_words(line, MAX_TOKENS - 1) for line in side] for side in (sources, targets)]
    ids = word_ids([word for side in typed for words in side for word in words])
    read = [Sentence.of([*(ids[word] for word in words), EOS], [*words, "</s>"]) for words in typed[0]]
    written = [Sentence.of([BOS, *(ids[word] for word in words)], ["<s>", *words]) for words in typed[1]]
    return Batch.of(read, written, pad_id=0), N_SPECIAL + len(ids)


class MaskView(NamedTuple):
    """One mask of one sentence of a batch: True where the query may see the key, and the reason where it may not.

    `keys_real` is the smallest form in which padding is kept: one truth value a key.
    """

    visible: Bool[np.ndarray, "query key"]
    reasons: UInt8[np.ndarray, "query key"]
    keys_real: Bool[np.ndarray, " key"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]


KINDS = ("padding", "causal", "both", "cross")
"""Padding of the encoder, causal alone, causal and padding of the decoder, cross."""


def mask_view(batch: Batch, kind: str, row: int) -> MaskView:
    """The mask of one of `KINDS` that sentence `row` of the batch gets."""
    source, target = batch.source_labels[row], batch.target_labels[row]
    queries = source if kind == "padding" else target
    if kind in {"padding", "cross"}:
        keys, mask = source, model_masks.padding(batch.source, batch.pad_id)
    else:
        keys = target
        mask = Mask(causal=True) if kind == "causal" else model_masks.causal(batch.target, batch.target_pad_id)
    keys_real = np.ones(len(keys), dtype=bool) if mask.keys is None else mask.keys[row].numpy()
    visible = table(mask, len(queries), len(keys), row)
    return MaskView(visible, reasons(len(queries), keys_real, mask.causal), keys_real, queries, keys)


def table(mask: Mask, n_queries: int, n_keys: int, row: int) -> Bool[np.ndarray, "query key"]:
    """A mask of one sentence of its batch as a whole query x key table."""
    dense = mask.dense(n_queries, n_keys, torch.device("cpu"))
    if dense is None:
        return np.ones((n_queries, n_keys), dtype=bool)
    return np.array(np.broadcast_to(dense[min(row, len(dense) - 1), 0].numpy(), (n_queries, n_keys)))


def reasons(n_queries: int, keys_real: Bool[np.ndarray, " key"], causal: bool) -> UInt8[np.ndarray, "query key"]:
    """A `Reason` for every cell: what comes later is future (if the mask is causal), what is not real is padding."""
    future = causal & ~np.tri(n_queries, len(keys_real), dtype=bool)
    return (Reason.FUTURE * future + Reason.PADDING * ~keys_real[None, :]).astype(np.uint8)


class Attended(NamedTuple):
    """One head of one sentence: scores before the mask, after it, the weights, and what the mask left visible."""

    before: Float[np.ndarray, "query key"]
    after: Float[np.ndarray, "query key"]
    weights: Float[np.ndarray, "query key"]
    visible: Bool[np.ndarray, "query key"]


def batch_run(model: Seq2Seq, batch: Batch) -> Recording:
    """The attention of a whole batch, in float64, kept so that any site, head and sentence can be looked at."""
    exact = watch(copy.deepcopy(model).double().eval())
    with forward_slot(), recording() as seen:
        exact(batch.source, batch.target)
    return seen


def attended(seen: Recording, batch: Batch, site: Site, head: int, row: int) -> Attended:
    """What the mask does at one site, to one head of one sentence of a run of this batch."""
    queries, keys = batch.labels(site, row)
    found = seen.map(site, Axis.of_tokens("query", queries), Axis.of_tokens("key", keys), batch=row)
    before, visible = found.scores(head), found.mask()
    return Attended(before, np.where(visible, before, -np.inf), found.weights(head), visible)


def _labels(sentences: Sequence[Sentence]) -> tuple[tuple[str, ...], ...]:
    longest = max(len(sentence.labels) for sentence in sentences)
    return tuple(
        Axis.of_tokens("token", [*sentence.labels, *[PAD] * (longest - len(sentence.labels))]).labels
        for sentence in sentences
    )


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


class Damage(NamedTuple):
    """What a broken mask does to a translator: loss in nats a target token, and what it writes."""

    loss: float
    translations: tuple[str, ...]


def damage(checkpoint: Checkpoint, batch: Batch, how: Break) -> Damage:
    """Loss on the batch's targets and greedy translations, without a cache, under a broken mask.

    The decoder reads exactly the tokens of `batch`, as `batch_run` and the leak test do. At each token that is no
    padding the label is the next one, the end token at the last: a padded target does not read its end token.

    Raises:
        CheckpointError: the checkpoint is no translator, or it has no tokenizer.
    """
    _, _, tokenizer = checkpoint.translator()
    model = broken(checkpoint, how).model_as(Seq2Seq)
    real = batch.target != batch.target_pad_id
    labels = batch.target.roll(-1, dims=1)
    labels[torch.arange(len(batch)), real.sum(1) - 1] = model.config.eos_id
    with forward_slot(), torch.no_grad():
        chosen = log_probs(model(batch.source, batch.target)).gather(-1, labels[..., None])[..., 0]
        decoded = decode(model, batch.source, DecodingOptions(beam=1, max_length=LONGEST), cached=False)
    texts = tuple(tokenizer.decode(list(one.ids)) for one in decoded)
    return Damage(-float(chosen[real].mean()), texts)

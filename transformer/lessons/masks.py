"""Masks of a batch as they are built, why each hidden cell is hidden, and what they do to scores and weights.

Every table is what `transformer.nn.masks` gives to the attention; this file adds labels and reasons.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from transformer.attention.capture import Recording, recording, watch
from transformer.errors import InputError
from transformer.lessons.sentences import Sentence
from transformer.nn import masks
from transformer.nn.masks import Mask
from transformer.nn.protocols import written_pad
from transformer.nn.seq2seq import Seq2Seq
from transformer.plots.axes import Axis
from transformer.runs.concurrency import forward_slot
from transformer.sites import Site

LARGEST_BATCH = 4
"""Sentences in one batch: more do not fit on a screen."""

PAD = "·pad·"
"""How padding is labelled."""


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
        ids = _ids(sources, pad_id), _ids(targets, target_pad_id)
        return cls(*ids, _labels(sources), _labels(targets), pad_id, target_pad_id)

    @classmethod
    def for_model(cls, sources: Sequence[Sentence], targets: Sequence[Sentence], model: Seq2Seq) -> "Batch":
        """Put sentence pairs into one batch, padded as `model` pads them.

        Raises:
            InputError: as `of`.
        """
        return cls.of(sources, targets, model.config.pad_id, written_pad(model.config))

    def __len__(self) -> int:
        return len(self.source)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Tokens of each source and each target that are no padding."""
        sides = ((self.source, self.pad_id), (self.target, self.target_pad_id))
        source, target = ((ids != pad_id).sum(1).tolist() for ids, pad_id in sides)
        return list(zip(source, target, strict=True))


@dataclass(frozen=True, eq=False)
class MaskView:
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
    """The mask of one kind that sentence `row` of the batch gets.

    Raises:
        InputError: there is no such kind or sentence.
    """
    if kind not in KINDS or not 0 <= row < len(batch):
        raise InputError("lesson_mask_not_in_batch", kind=kind, row=row, kinds=KINDS, last=len(batch) - 1)
    source, target = batch.source_labels[row], batch.target_labels[row]
    queries = source if kind == "padding" else target
    ids, keys = (batch.source, source) if kind in {"padding", "cross"} else (batch.target, target)
    mask = {
        "padding": lambda: masks.padding(ids, batch.pad_id),
        "causal": lambda: Mask(causal=True),
        "both": lambda: masks.causal(ids, batch.target_pad_id),
        "cross": lambda: masks.padding(ids, batch.pad_id),
    }[kind]()
    keys_real = np.ones(len(keys), dtype=bool) if mask.keys is None else mask.keys[row].numpy()
    return MaskView(
        visible=table(mask, len(queries), len(keys), row),
        reasons=reasons(len(queries), keys_real, mask.causal),
        keys_real=keys_real,
        queries=queries,
        keys=keys,
    )


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


@dataclass(frozen=True, eq=False)
class Attended:
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
    """What the mask does at one site, to one head of one sentence of a run of this batch.

    Raises:
        RecordError: no such site or head.
    """
    labels = batch.source_labels[row] if site.stack == "encoder" else batch.target_labels[row]
    own_past = site.group == "decoder.self"
    keys = batch.target_labels[row] if own_past else batch.source_labels[row]
    found = seen.map(site, Axis.of_tokens("query", labels), Axis.of_tokens("key", keys), batch=row)
    before = found.scores(head)
    visible = found.mask()
    return Attended(before, np.where(visible, before, -np.inf), found.weights(head), visible)


def _ids(sentences: Sequence[Sentence], pad_id: int) -> Tensor:
    longest = max(len(sentence.ids) for sentence in sentences)
    return torch.tensor([[*sentence.ids, *[pad_id] * (longest - len(sentence.ids))] for sentence in sentences])


def _labels(sentences: Sequence[Sentence]) -> tuple[tuple[str, ...], ...]:
    longest = max(len(sentence.labels) for sentence in sentences)
    return tuple(
        Axis.of_tokens("token", [*sentence.labels, *[PAD] * (longest - len(sentence.labels))]).labels
        for sentence in sentences
    )

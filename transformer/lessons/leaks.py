"""The leak test: does a query see a key that it must not see?

Two independent views of one question. The weights: the largest one on a forbidden cell, where what is forbidden
follows from the token ids, not from the model's own mask. The outputs: how much they change at positions that must
not notice, when the future is changed, or when the sentence stands alone instead of beside a longer one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.models.protocols import written_pad
from transformer.runs.parity import attention_maps
from transformer.sites import Site

TOLERANCE = 1e-9
"""Largest weight or change, in float64, that is rounding and no leak."""

LENGTHS = (7, 4)
TARGET_LENGTHS = (6, 3)
"""Tokens of the two random sentences of the test; the shorter one is padded."""


@dataclass(frozen=True)
class Leak:
    """The largest weight on a forbidden cell of one site; `where` is (batch, head, query, key), None without one."""

    site: Site
    largest: float
    where: tuple[int, int, int, int] | None

    @property
    def leaks(self) -> bool:
        """Whether the weight is more than rounding."""
        return self.largest > TOLERANCE


@dataclass(frozen=True)
class LeakReport:
    """Every site, and how much outputs change that must not; `future` and `padding` are None where none is hidden."""

    sites: tuple[Leak, ...]
    future: float | None
    padding: float | None

    @property
    def leaks(self) -> bool:
        """Whether anything leaks; an output that is not a number counts."""
        changes = [change for change in (self.future, self.padding) if change is not None]
        return any(site.leaks for site in self.sites) or not all(change <= TOLERANCE for change in changes)


def largest_forbidden(
    site: Site,
    weights: Float[np.ndarray, "batch head query key"],
    allowed: Bool[np.ndarray, "batch query key"],
) -> Leak:
    """The largest weight on a cell that `allowed` marks False."""
    forbidden = np.where(allowed[:, None], -1.0, np.nan_to_num(weights, nan=np.inf))
    cell = np.unravel_index(int(forbidden.argmax()), forbidden.shape)
    largest = float(forbidden[cell])
    if largest < 0:
        return Leak(site, 0.0, None)
    b, h, q, k = (int(i) for i in cell)
    return Leak(site, largest, (b, h, q, k))


def allowed_cells(
    site: Site,
    source_real: Bool[np.ndarray, "batch source"],
    target_real: Bool[np.ndarray, "batch target"] | None,
    causal: bool,
) -> Bool[np.ndarray, "batch query key"]:
    """Who may see whom at a site, from the token ids alone. Queries that are padding are not judged."""
    queries = source_real if site.stack == "encoder" or target_real is None else target_real
    keys = source_real if site.kind == "cross" or site.stack == "encoder" or target_real is None else target_real
    allowed = np.repeat(keys[:, None, :], queries.shape[1], axis=1)
    if site.kind == "self" and (site.stack == "decoder" or causal):
        allowed &= np.tri(queries.shape[1], keys.shape[1], dtype=bool)
    return allowed | ~queries[:, :, None]


def leak_test(checkpoint: Checkpoint) -> LeakReport:
    """Test a checkpoint on two random sentences of different length.

    Raises:
        CheckpointError: no mask of the model hides anything, it is not a model of the library, or its vocabulary is too
            small for two different tokens.
    """
    model = checkpoint.model
    if model.abilities.masks:
        return _encoder_decoder(checkpoint) if model.abilities.translates else _encoder(checkpoint)
    if model.abilities.reads_windows:
        raise CheckpointError("lesson_windows_have_no_mask", name=checkpoint.name)
    raise CheckpointError("lesson_own_masks", name=checkpoint.name)


def _encoder_decoder(checkpoint: Checkpoint) -> LeakReport:
    config: Any = checkpoint.model.config
    target_pad = written_pad(config)
    special = {config.pad_id, target_pad, config.bos_id, config.eos_id}
    source = _random(LENGTHS, config.source_vocab, special, config.pad_id)
    target = _random(TARGET_LENGTHS, config.target_vocab, special, target_pad)
    target[:, 0] = config.bos_id
    found = attention_maps(checkpoint, source, target)
    log_probs = found.pop("log_probs")
    changed = attention_maps(
        checkpoint, source, _other_end(checkpoint.name, target, config.target_vocab, special, target_pad)
    )["log_probs"]
    future = float(np.abs(changed[0, :-1] - log_probs[0, :-1]).max())
    padding = None
    if config.pad_id >= 0:
        alone = attention_maps(checkpoint, source[1:, : LENGTHS[1]], target[1:, : TARGET_LENGTHS[1]])["log_probs"]
        padding = float(np.abs(alone[0] - log_probs[1, : TARGET_LENGTHS[1]]).max())
    sites = _sites(found, _real(source, LENGTHS, config.pad_id), _real(target, TARGET_LENGTHS, target_pad), False)
    return LeakReport(sites, future, padding)


def _encoder(checkpoint: Checkpoint) -> LeakReport:
    config: Any = checkpoint.model.config
    ids = _random(LENGTHS, config.vocab, {config.pad_id}, config.pad_id)
    found = attention_maps(checkpoint, ids)
    hidden = found.pop("hidden")
    future = padding = None
    if config.causal:
        changed = attention_maps(
            checkpoint, _other_end(checkpoint.name, ids, config.vocab, {config.pad_id}, config.pad_id)
        )["hidden"]
        future = float(np.abs(changed[0, :-1] - hidden[0, :-1]).max())
    if config.pad_id >= 0:
        alone = attention_maps(checkpoint, ids[1:, : LENGTHS[1]])["hidden"]
        padding = float(np.abs(alone[0] - hidden[1, : LENGTHS[1]]).max())
    return LeakReport(_sites(found, _real(ids, LENGTHS, config.pad_id), None, config.causal), future, padding)


def _sites(
    found: Mapping[str, np.ndarray],
    source_real: Bool[np.ndarray, "batch source"],
    target_real: Bool[np.ndarray, "batch target"] | None,
    causal: bool,
) -> tuple[Leak, ...]:
    leaks = []
    for name, weights in found.items():
        site = Site(name)
        real = source_real
        if site.kind == "cross" and weights.shape[3] > source_real.shape[1]:  # positions past the end hold no word
            real = np.pad(source_real, ((0, 0), (0, weights.shape[3] - source_real.shape[1])))
        leaks.append(largest_forbidden(site, weights, allowed_cells(site, real, target_real, causal)))
    return tuple(leaks)


def _random(lengths: tuple[int, ...], vocab: int, special: set[int], pad_id: int) -> Tensor:
    """Rows of random words (any ids but padding, where all are special), the shorter filled up with padding, if any."""
    words = torch.tensor(_words(vocab, special) or _words(vocab, {pad_id}) or [0])
    draw = torch.randint(len(words), (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(0))
    ids = words[draw]
    if pad_id >= 0:
        for row, length in enumerate(lengths):
            ids[row, length:] = pad_id
    return ids


def _other_end(name: str, ids: Tensor, vocab: int, special: set[int], pad_id: int) -> Tensor:
    """The same ids with another last token in the first row: a word, or where there is no other, a special token."""
    last = int(ids[0, -1])
    others = [*_words(vocab, {*special, last}), *_words(vocab, {pad_id, last})]
    if not others:
        raise CheckpointError("lesson_vocabulary_too_small", name=name, vocab=vocab)
    other = ids.clone()
    other[0, -1] = others[0]
    return other


def _words(vocab: int, without: set[int]) -> list[int]:
    return [i for i in range(vocab) if i not in without]


def _real(ids: Tensor, lengths: tuple[int, ...], pad_id: int) -> Bool[np.ndarray, "batch position"]:
    if pad_id < 0:
        return np.ones(ids.shape, dtype=bool)
    return np.arange(ids.shape[1])[None, :] < np.array(lengths)[:, None]

"""The leak test: does a query see a key that it must not see?

Two independent views of one question. The weights: the largest one on a forbidden cell, where what is forbidden
follows from the token ids, not from the model's own mask. The outputs: how much they change at positions that must
not notice, when the future is changed, or when a sentence stands alone instead of beside another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.lessons.masks import Batch
from transformer.nn.protocols import written_pad
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


def allowed_in(batch: Batch, site: Site, row: int) -> Bool[np.ndarray, "query key"]:
    """Who may see whom at a site of an encoder-decoder in sentence `row` of a batch, as `allowed_cells`."""
    read, written = zip(*batch.lengths, strict=True)
    return allowed_cells(site, _real(batch.source, read), _real(batch.target, written), causal=False)[row]


def leaking(
    weights: Float[np.ndarray, "*axes query key"], allowed: Bool[np.ndarray, "*axes query key"]
) -> Bool[np.ndarray, "*axes query key"]:
    """The cells that `allowed` marks False and that have a weight all the same; NaN is one."""
    return ~allowed & ~(weights <= TOLERANCE)


def leak_test(checkpoint: Checkpoint, batch: Batch | None = None) -> LeakReport:
    """Test a checkpoint on `batch`, or on two random sentences of different length.

    Raises:
        CheckpointError: no mask of the model hides anything, it is not a model of the library, its vocabulary is too
            small for two different tokens, or a batch is given to a model that does not translate.
    """
    model = checkpoint.model
    if model.abilities.masks and model.abilities.translates:
        return _encoder_decoder(checkpoint, batch)
    if model.abilities.masks and batch is None:
        return _encoder(checkpoint)
    if model.abilities.reads_windows:
        raise CheckpointError("lesson_windows_have_no_mask", name=checkpoint.name)
    raise CheckpointError("lesson_own_masks", name=checkpoint.name)


def _encoder_decoder(checkpoint: Checkpoint, batch: Batch | None) -> LeakReport:
    config: Any = checkpoint.model.config
    target_pad = written_pad(config)
    special = {config.pad_id, target_pad, config.bos_id, config.eos_id}
    if batch is None:
        source = _random(LENGTHS, config.source_vocab, special, config.pad_id)
        target = _random(TARGET_LENGTHS, config.target_vocab, special, target_pad)
        target[:, 0] = config.bos_id
        lengths = list(zip(_lengths(LENGTHS, config.pad_id), _lengths(TARGET_LENGTHS, target_pad), strict=True))
    else:
        source, target, lengths = batch.source, batch.target, batch.lengths
    read, written = zip(*lengths, strict=True)
    found = attention_maps(checkpoint, source, target)
    log_probs = found.pop("log_probs")
    other = _other_ends(checkpoint.name, target, written, config.target_vocab, special, target_pad)
    changed = attention_maps(checkpoint, source, other)["log_probs"]
    future = _largest(changed[row, : n - 1] - log_probs[row, : n - 1] for row, n in enumerate(written))
    padding = None
    if len(lengths) > 1:
        padding = _largest(
            attention_maps(checkpoint, source[row : row + 1, : read[row]], target[row : row + 1, : written[row]])[
                "log_probs"
            ][0]
            - log_probs[row, : written[row]]
            for row in range(len(lengths))
        )
    return LeakReport(_sites(found, _real(source, read), _real(target, written), False), future, padding)


def _encoder(checkpoint: Checkpoint) -> LeakReport:
    config: Any = checkpoint.model.config
    special = {config.pad_id}
    ids = _random(LENGTHS, config.vocab, special, config.pad_id)
    lengths = _lengths(LENGTHS, config.pad_id)
    found = attention_maps(checkpoint, ids)
    output = "hidden" if "hidden" in found else "log_probs"
    hidden, causal = found.pop(output), getattr(config, "causal", output == "log_probs")
    future = padding = None
    if causal:
        other = _other_ends(checkpoint.name, ids, lengths, config.vocab, special, config.pad_id)
        changed = attention_maps(checkpoint, other)[output]
        future = _largest(changed[row, : n - 1] - hidden[row, : n - 1] for row, n in enumerate(lengths))
    if config.pad_id >= 0:
        alone = attention_maps(checkpoint, ids[1:, : LENGTHS[1]])[output]
        padding = _largest([alone[0] - hidden[1, : LENGTHS[1]]])
    return LeakReport(_sites(found, _real(ids, lengths), None, causal), future, padding)


def _largest(differences: Iterable[np.ndarray]) -> float:
    """The largest size of any number in them; NaN where one is NaN."""
    return float(np.concatenate([np.abs(one).ravel() for one in differences]).max(initial=0.0))


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
        allowed = allowed_cells(site, real, target_real, causal)
        if weights.shape[2:] != allowed.shape[1:]:  # of sentences, not of positions: only its own is allowed
            allowed = np.repeat(np.eye(weights.shape[2], dtype=bool)[None], len(weights), axis=0)
        leaks.append(largest_forbidden(site, weights, allowed))
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


def _other_ends(name: str, ids: Tensor, lengths: Sequence[int], vocab: int, special: set[int], pad_id: int) -> Tensor:
    """The same ids with another last token in each row: a word, or where there is no other, a special token."""
    changed = ids.clone()
    for row, length in enumerate(lengths):
        last = int(ids[row, length - 1])
        others = [*_words(vocab, {*special, last}), *_words(vocab, {pad_id, last})]
        if not others:
            raise CheckpointError("lesson_vocabulary_too_small", name=name, vocab=vocab)
        changed[row, length - 1] = others[0]
    return changed


def _words(vocab: int, without: set[int]) -> list[int]:
    return [i for i in range(vocab) if i not in without]


def _lengths(lengths: tuple[int, ...], pad_id: int) -> list[int]:
    """Tokens of each row that are no padding; all are as long as the longest where the model knows no padding."""
    return list(lengths) if pad_id >= 0 else [max(lengths)] * len(lengths)


def _real(ids: Tensor, lengths: Sequence[int]) -> Bool[np.ndarray, "batch position"]:
    return np.arange(ids.shape[1])[None, :] < np.array(lengths)[:, None]

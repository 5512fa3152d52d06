"""The leak test: whether a query sees a key that it must not see, in two independent views.

The weights: the largest one on a forbidden cell, where what is forbidden follows from the token ids, not from the
model's own mask. The outputs: how much they change at positions that must not notice, when the future is changed, or
when a sentence stands alone instead of beside another.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError
from ..nn.protocols import written_pad
from ..runs.check import attention_maps
from ..sites import Site
from .masks import Batch

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
    def worst(self) -> Leak:
        """The site with the largest forbidden weight."""
        return max(self.sites, key=lambda leak: leak.largest)

    @property
    def leaks(self) -> bool:
        """Whether anything leaks; an output that is not a number counts."""
        changes = [change for change in (self.future, self.padding) if change is not None]
        return any(site.leaks for site in self.sites) or not all(change <= TOLERANCE for change in changes)


def largest_forbidden(
    site: Site, weights: Float[np.ndarray, "batch head query key"], allowed: Bool[np.ndarray, "batch query key"]
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
    causal: bool = False,
) -> Bool[np.ndarray, "batch query key"]:
    """Who may see whom at a site, from the token ids alone. Queries that are padding are not judged."""
    queries = source_real if site.stack == "encoder" or target_real is None else target_real
    keys = source_real if site.kind == "cross" else queries
    allowed = np.repeat(keys[:, None, :], queries.shape[1], axis=1)
    if site.kind == "self" and (site.stack == "decoder" or causal):
        allowed &= np.tri(queries.shape[1], keys.shape[1], dtype=bool)
    return allowed | ~queries[:, :, None]


def allowed_in(batch: Batch, site: Site, row: int) -> Bool[np.ndarray, "query key"]:
    """Who may see whom at a site of an encoder-decoder in sentence `row` of a batch, as `allowed_cells`."""
    return allowed_cells(site, *batch.real)[row]


def leaking(
    weights: Float[np.ndarray, "*axes query key"], allowed: Bool[np.ndarray, "*axes query key"]
) -> Bool[np.ndarray, "*axes query key"]:
    """The cells that `allowed` marks False and that have a weight all the same; NaN is one."""
    return ~allowed & ~(weights <= TOLERANCE)


def leak_test(checkpoint: Checkpoint, batch: Batch | None = None) -> LeakReport:
    """Test a checkpoint that has masks (`Abilities.masks`) on `batch`, or on two random sentences of different length.

    Raises:
        CheckpointError: its vocabulary is too small for two different tokens.
    """
    able, config = checkpoint.model.abilities, cast(Any, checkpoint.model.config)
    special, pad_id, vocab = {config.pad_id}, config.pad_id, getattr(config, "vocab", 0)
    if able.translates:
        pad_id, vocab = written_pad(config), config.target_vocab
        special |= {pad_id, config.bos_id, config.eos_id}
    if batch is not None:
        sides, real = [batch.source, batch.target], list(batch.real)
    else:
        sides = [_random(LENGTHS, config.source_vocab if able.translates else vocab, special, config.pad_id)]
        real = [(sides[0] != config.pad_id).numpy()]
        if able.translates:
            sides.append(_random(TARGET_LENGTHS, vocab, special, pad_id))
            sides[1][:, 0] = config.bos_id
            real.append((sides[1] != pad_id).numpy())
    lengths = [side.sum(axis=1).tolist() for side in real]
    run: Callable[..., dict[str, np.ndarray]] = partial(attention_maps, checkpoint)
    found = run(*sides)
    output = "hidden" if "hidden" in found else "log_probs"
    right, causal = found.pop(output), able.translates or getattr(config, "causal", output == "log_probs")
    future = padding = None
    if causal:
        other = _with_other_last_tokens(checkpoint.name, sides[-1], lengths[-1], vocab, special, pad_id)
        changed = run(*sides[:-1], other)[output]
        future = _largest(changed[row, : n - 1] - right[row, : n - 1] for row, n in enumerate(lengths[-1]))
    if len(right) > 1 and (able.translates or pad_id >= 0):
        padding = _largest(
            run(*(side[row, :n][None] for side, n in zip(sides, each, strict=True)))[output][0] - right[row, : each[-1]]
            for row, each in enumerate(zip(*lengths, strict=True))
        )
    leaks = []
    for site, weights in ((Site(name), found[name]) for name in found):
        past_end = max(0, weights.shape[3] - sides[0].shape[1]) if site.kind == "cross" else 0  # which hold no word
        source_real, target_real = np.pad(real[0], ((0, 0), (0, past_end))), real[1] if able.translates else None
        allowed = allowed_cells(site, source_real, target_real, causal and not able.translates)
        if weights.shape[2:] != allowed.shape[1:]:  # of sentences, not of positions: only its own is allowed
            allowed = np.repeat(np.eye(weights.shape[2], dtype=bool)[None], len(weights), axis=0)
        leaks.append(largest_forbidden(site, weights, allowed))
    return LeakReport(tuple(leaks), future, padding)


def _largest(differences: Iterable[np.ndarray]) -> float:
    """The largest size of any number in them; NaN where one is NaN."""
    return float(np.concatenate([np.abs(one).ravel() for one in differences]).max(initial=0.0))


def _random(lengths: tuple[int, ...], vocab: int, special: set[int], pad_id: int) -> Tensor:
    """Rows of random words (any ids but padding, where all are special), the shorter filled up with padding, if any."""
    words = torch.tensor(_words(vocab, special) or _words(vocab, {pad_id}) or [0])
    ids = words[torch.randint(len(words), (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(0))]
    for row, length in enumerate(lengths if pad_id >= 0 else ()):
        ids[row, length:] = pad_id
    return ids


def _with_other_last_tokens(
    name: str, ids: Tensor, lengths: Sequence[int], vocab: int, special: set[int], pad_id: int
) -> Tensor:
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

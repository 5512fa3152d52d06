"""Masks of a batch as they are built, with reasons; broken on purpose; and the leak test, which finds what is broken.

Every table is what `transformer.nn.masks` gives to the attention. A break enters through a hook on the attention cores
of a copy of the model; the model itself has no such switch. The leak test has two independent views of one question,
whether a query sees a key that it must not see. The weights: the largest one on a forbidden cell, where what is
forbidden follows from the token ids, not from the model's own mask. The outputs: how much they change at positions that
must not notice, when the future is changed, or when a sentence stands alone instead of beside another.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from transformer.attention.capture import Recording, recording, watch
from transformer.attention.softmax_inputs import MaskTable
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.lessons.sentences import BOS, EOS, MAX_TOKENS, N_SPECIAL, Sentence, typed_words, word_ids
from transformer.nn import masks as model_masks
from transformer.nn.common import log_probs, pad
from transformer.nn.masks import Mask
from transformer.nn.protocols import written_pad
from transformer.nn.search import DecodingOptions, decode
from transformer.nn.seq2seq import Seq2Seq
from transformer.plots.axes import Axis
from transformer.runs.check import attention_maps
from transformer.runs.concurrency import forward_slot
from transformer.sites import Site

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

"""Whole files of sentences, in batches of like length: translated and scored, or read as pairs, teacher forced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from ..attention.capture import recording
from ..attention.interventions.value import Means
from ..checkpoint.checkpoint import Checkpoint
from ..distribution import extra
from ..errors import InputError
from ..nn.common import pad
from ..nn.protocols import Decodable, written_length, written_pad
from ..nn.search import DecodingOptions, decode
from ..sites import Site
from ..text.base import Tokenizer

MAX_ROWS = 64
"""Sentences that go through a model together; more bring no speed, since the longest keeps the others waiting."""

MAX_POSITIONS = 4_096
"""Source positions that are decoded together, padding counted: long sentences come in smaller batches."""


@dataclass(frozen=True)
class TranslatedLine:
    """What became of one line: its translation, and whether anything of source or target was left out.

    `unread` counts the source tokens past what the checkpoint reads; `finished` is False where the maximum length cut
    the translation, which then has `tokens` tokens.
    """

    text: str = ""
    unread: int = 0
    finished: bool = True
    tokens: int = 0


@dataclass(frozen=True)
class Bleu:
    """A BLEU score (0 to 100) and the signature that says how it was counted."""

    score: float
    signature: str


def translate_lines(
    model: Decodable,
    tokenizer: Tokenizer,
    lines: Sequence[str],
    options: DecodingOptions | None = None,
    progress: bool = False,
    device: torch.device | str = "cpu",
    writer: Tokenizer | None = None,
) -> list[TranslatedLine]:
    """Translate each line, in order; a line without any token becomes an empty one.

    A model reads and writes at most `config.max_length` tokens; what a longer source holds past them is counted as
    `unread`. `writer` makes the target's text where `tokenizer` knows the source alone. `progress` draws a bar on
    stderr; `device` is where the model is.
    """
    writer = tokenizer if writer is None else writer
    longest = model.config.max_length
    sources = [tokenizer.source_ids(line) if tokenizer.encode(line) else [] for line in lines]
    results = [TranslatedLine()] * len(lines)
    with tqdm(total=len(lines), unit="line", disable=not progress, mininterval=1.0) as bar:
        for rows in _batches([min(len(source), longest) for source in sources], mixed=model.config.pad_id >= 0):
            read = [
                ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]] for ids in map(sources.__getitem__, rows)
            ]
            for i, found in zip(rows, decode(model, pad(read, model.config.pad_id).to(device), options), strict=True):
                unread = max(0, len(sources[i]) - longest)
                results[i] = TranslatedLine(writer.decode(found.ids), unread, found.finished, len(found.ids))
            bar.update(len(rows))
        bar.update(bar.total - bar.n)
    return results


def check_bleu() -> None:
    """Say before anything is translated that nothing counts BLEU here.

    Raises:
        InputError: sacrebleu is not installed.
    """
    with extra("bleu"):
        import sacrebleu  # noqa: F401


def bleu(translations: Sequence[str], references: Sequence[str]) -> Bleu:
    """Corpus BLEU as sacrebleu counts it: cased, detokenised, its own 13a tokens.

    Source: Post 2018, "A Call for Clarity in Reporting BLEU Scores".

    Raises:
        InputError: as `check_bleu`.
    """
    with extra("bleu"):
        import sacrebleu

    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(translations), [list(references)])
    return Bleu(float(score.score), str(metric.get_signature()))


def _batches(lengths: Sequence[int], mixed: bool) -> list[list[int]]:
    """Rows of like length together (of one length, unless `mixed`), the longest first; empty rows are left out."""
    batches: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not lengths[i]:
            break
        if not room or not (mixed or lengths[i] == lengths[batches[-1][0]]):
            batches.append([])
            room = min(MAX_ROWS, max(1, MAX_POSITIONS // lengths[i]))
        batches[-1].append(i)
        room -= 1
    return batches


@dataclass(frozen=True, eq=False)
class Pairs:
    """Tokenised pairs in batches of like length: sources, and targets that begin with the start token."""

    batches: tuple[tuple[Int[Tensor, "batch source"], Int[Tensor, "batch target"]], ...]
    size: int
    left_out: int


def tokenised(checkpoint: Checkpoint, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
    """Pairs as the checkpoint reads and writes them; those with an empty side or one that is too long are left out.

    Raises:
        InputError: no pair is left.
        CheckpointError: the checkpoint does not translate.
    """
    model, reader, writer = checkpoint.translator()
    config = model.config
    rows = [
        (reader.source_ids(source), [config.bos_id, *writer.source_ids(target)])
        for source, target in zip(sources, targets, strict=True)
        if reader.encode(source) and writer.encode(target)
    ]
    most = config.max_length, written_length(config)
    kept = [row for row in rows if len(row[0]) <= most[0] and len(row[1]) <= most[1]]
    if not kept:
        raise InputError("no_pairs")
    batches = []
    for some in _batches([len(source) for source, _ in kept], mixed=config.pad_id >= 0):
        sides = zip(*(kept[i] for i in some), strict=True)
        source, target = (pad(side, to) for side, to in zip(sides, (config.pad_id, written_pad(config)), strict=True))
        batches.append((source, target))
    return Pairs(tuple(batches), len(kept), len(sources) - len(kept))


def mean_loss(checkpoint: Checkpoint, pairs: Pairs) -> float:
    """Mean negative log-likelihood of a written token (nats), the end token counted and padding not."""
    model, _, _ = checkpoint.translator()
    total, count = 0.0, 0
    with torch.inference_mode():
        for source, target in pairs.batches:
            losses, written = losses_of(model(source, target[:, :-1]), target, written_pad(model.config))
            total += float(losses.sum(dtype=torch.float64))
            count += written
    return total / count


def losses_of(logits: Tensor, target: Tensor, pad_id: int) -> tuple[Tensor, int]:
    """Negative log-likelihood of each token after the start token (nats, 0 at padding), and how many are real."""
    written = target[:, 1:]
    losses = F.cross_entropy(logits.transpose(1, 2), written, reduction="none")
    real = written != pad_id
    return losses * real, int(real.sum())


def means_of_pairs(model: Any, pairs: Pairs, reference: str) -> Means:
    """Over every real query of teacher-forced pairs: source positions in the encoder, written ones in the decoder."""
    batches = []
    for source, target in pairs.batches:
        real = {"encoder": source != model.config.pad_id, "decoder": target[:, 1:] != written_pad(model.config)}
        batches.append(((source, target[:, :-1]), real))
    return Means(reference, pairs.size, _means(model, batches))


def means_of_sequences(model: Any, batches: Sequence[Tensor], reference: str) -> Means:
    """Over every query of sequences, which come in batches of one length, so that none is padded."""
    return Means(reference, sum(map(len, batches)), _means(model, [((ids,), {}) for ids in batches]))


def _means(model: Any, batches: Iterable[tuple[tuple[Tensor, ...], dict[str, Tensor]]]) -> dict[Site, Tensor]:
    """Sums over batches, divided by how many queries there were; a stack without a mask counts all of its queries."""
    totals: dict[Site, Tensor] = {}
    counts: dict[Site, int] = {}
    for inputs, real in batches:
        with torch.inference_mode(), recording(outputs=True) as seen:
            model(*inputs)
        for site in seen.sites:
            outputs = seen.outputs(site).double()  # (batch, head, query, d_v)
            mask = real.get(site.stack, torch.ones(outputs.shape[0], outputs.shape[2], dtype=torch.bool))
            totals[site] = totals.get(site, 0) + torch.einsum("bhqd,bq->hd", outputs, mask.double())
            counts[site] = counts.get(site, 0) + int(mask.sum())
    return {site: total / counts[site] for site, total in totals.items()}

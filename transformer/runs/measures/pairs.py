"""Pairs of a corpus, teacher forced in batches: what a model writes is given, and what it thinks of it is measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.nn.protocols import written_length, written_pad
from transformer.text.batch import pad

ROWS = 64
"""Pairs that go through the model together."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Tokenised pairs in batches of like length: sources, and targets that begin with the start token."""

    batches: tuple[tuple[Int[Tensor, "batch source"], Int[Tensor, "batch target"]], ...]
    size: int
    left_out: int

    def __iter__(self) -> Iterator[tuple[Int[Tensor, "batch source"], Int[Tensor, "batch target"]]]:
        return iter(self.batches)


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
    fitting = (row for row in rows if len(row[0]) <= most[0] and len(row[1]) <= most[1])
    kept = sorted(fitting, key=lambda row: len(row[1]))
    if not kept:
        raise InputError("no_pairs")
    batches = [
        (pad([source for source, _ in group], config.pad_id), pad([target for _, target in group], written_pad(config)))
        for group in (kept[start : start + ROWS] for start in range(0, len(kept), ROWS))
    ]
    return Pairs(tuple(batches), len(kept), len(sources) - len(kept))


def mean_loss(checkpoint: Checkpoint, pairs: Pairs) -> float:
    """Mean negative log-likelihood of a written token (nats), the end token counted and padding not.

    Raises:
        CheckpointError: the checkpoint does not translate.
    """
    model, _, _ = checkpoint.translator()
    total, count = 0.0, 0
    with torch.inference_mode():
        for source, target in pairs:
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

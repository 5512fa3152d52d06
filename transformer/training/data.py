"""Parallel text as batches: sentences of like length together, in an order that (seed, epoch) fixes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from transformer.errors import TrainingError
from transformer.tokens.text import TextTokenizer


@dataclass(frozen=True)
class Pair:
    """One training example: source with its end mark; target with start and end mark."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Batch:
    """Padded pairs, and how many target tokens count in the loss."""

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file.

    Raises:
        TrainingError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"{path} cannot be read as UTF-8 text ({error}): check the path and the encoding") from error


def read_parallel(folder: Path, split: str, languages: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Both sides of `folder/split.LANGUAGE`, line by line.

    Raises:
        TrainingError: a file is missing, or the sides differ in length.
    """
    source, target = (read_lines(folder / f"{split}.{language}") for language in languages)
    if len(source) != len(target):
        raise TrainingError(
            f"{split}.{languages[0]} has {len(source)} lines and {split}.{languages[1]} has {len(target)}: "
            "line i of one must translate line i of the other"
        )
    return source, target


def pairs(source: list[str], target: list[str], tokenizer: TextTokenizer, max_tokens: int) -> list[Pair]:
    """Encode both sides; pairs with an empty or an over-long side teach nothing and are left out."""
    encoded = (Pair(tokenizer.source_ids(s), tokenizer.target_ids(t)) for s, t in zip(source, target, strict=True))
    return [p for p in encoded if 1 < len(p.source) <= max_tokens and 2 < len(p.target) <= max_tokens]


def pad(rows: list[list[int]], pad_id: int) -> Int[Tensor, "batch position"]:
    """Rows of ids as one tensor, short ones filled up at the end."""
    width = max(len(row) for row in rows)
    return torch.tensor([row + [pad_id] * (width - len(row)) for row in rows])


def epoch_batches(data: list[Pair], tokens: int, pad_id: int, seed: int, epoch: int) -> Iterator[Batch]:
    """All pairs once, in batches of at most `tokens` source and `tokens` target positions (padding counted).

    Lengths are jittered before sorting, so that companions change from epoch to epoch.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    jitter = torch.rand(len(data), 2, generator=generator).tolist()
    order = sorted(
        range(len(data)), key=lambda i: (len(data[i].target) + jitter[i][0], len(data[i].source) + 2 * jitter[i][1])
    )
    groups: list[list[int]] = [[]]
    width = 0
    for i in order:
        wider = max(width, len(data[i].source), len(data[i].target))
        if groups[-1] and wider * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            wider = max(len(data[i].source), len(data[i].target))
        groups[-1].append(i)
        width = wider
    for group in torch.randperm(len(groups), generator=generator).tolist():
        rows = [data[i] for i in groups[group]]
        yield Batch(pad([r.source for r in rows], pad_id), pad([r.target for r in rows], pad_id))

"""Parallel text as batches: sentences of like length together, in an order that (seed, epoch) fixes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from transformer.errors import TrainingError
from transformer.tokens.lines import read_lines
from transformer.tokens.text import TextTokenizer


@dataclass(frozen=True)
class Pair:
    """One training example: source with its end token; target with start and end token."""

    source: list[int]
    target: list[int]

    @property
    def n_written(self) -> int:
        """Tokens that the model has to predict: all of the target but the start token."""
        return len(self.target) - 1


@dataclass(frozen=True)
class ParallelText:
    """Two texts: line i of `target` translates line i of `source`."""

    source: list[str]
    target: list[str]

    @classmethod
    def read(cls, folder: Path, split: str, languages: tuple[str, str]) -> "ParallelText":
        """Both sides of `folder/split.LANGUAGE`.

        Raises:
            InputError: a file is missing or is not UTF-8.
            TrainingError: the sides differ in length, or are empty.
        """
        source, target = (read_lines(folder / f"{split}.{language}") for language in languages)
        if len(source) != len(target):
            raise TrainingError(
                "training_sides_differ",
                first=f"{split}.{languages[0]}",
                first_lines=len(source),
                second=f"{split}.{languages[1]}",
                second_lines=len(target),
            )
        if not source:
            raise TrainingError("training_empty", name=f"{split}.{languages[0]}")
        return cls(source, target)

    @property
    def lines(self) -> list[str]:
        """All source lines, then all target lines."""
        return [*self.source, *self.target]

    def __len__(self) -> int:
        return len(self.source)


def pairs(
    text: ParallelText, tokenizer: TextTokenizer, max_tokens: int, subword_dropout: float = 0.0, seed: int = 0
) -> list[Pair]:
    """Encode both sides; pairs with an empty or an over-long side teach nothing and are left out.

    With `subword_dropout`, words are cut into pieces at random, as `seed` says, the same in every process.

    Raises:
        TrainingError: subwords are to be dropped, and the tokenizer does not make its pieces by merges.
    """
    if subword_dropout:
        encoded = tokenizer.sample(text.lines, subword_dropout, seed)
    else:
        encoded = [tokenizer.encode(line) for line in text.lines]
    both = zip(encoded[: len(text)], encoded[len(text) :], strict=True)
    framed = (Pair([*s, tokenizer.eos_id], [tokenizer.bos_id, *t, tokenizer.eos_id]) for s, t in both)
    return [p for p in framed if 1 < len(p.source) <= max_tokens and 2 < len(p.target) <= max_tokens]


def epoch_batches(data: list[Pair], tokens: int, seed: int, epoch: int) -> Iterator[list[Pair]]:
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
        yield [data[i] for i in groups[group]]

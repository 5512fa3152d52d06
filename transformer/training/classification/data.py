"""Labelled sequences for training: reading them, holding part of them out, and making more of them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from transformer.errors import TrainingError
from transformer.sequences.alphabet import Alphabet


@dataclass(frozen=True, eq=False)
class Labelled:
    """Sequences of one length as ids, with the index of each one's class."""

    ids: tuple[str, ...]
    letters: Int[Tensor, "row letter"]
    labels: Int[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, rows: Int[Tensor, " chosen"]) -> "Labelled":
        """Some of the rows."""
        return Labelled(tuple(self.ids[i] for i in rows.tolist()), self.letters[rows], self.labels[rows])


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table with columns `id`, `sequence` and `label`, divided by tabs.

    Raises:
        TrainingError: the file is missing or cannot be read, has other columns, or a row is cut short.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
    except OSError as error:
        raise TrainingError("training_unreadable", path=path, reason=error.strerror) from error
    except (UnicodeError, csv.Error) as error:
        raise TrainingError("training_unreadable", path=path, reason=str(error)) from error
    if not rows or not {"id", "sequence", "label"} <= rows[0].keys():
        raise TrainingError("training_columns", path=path)
    short = next((i for i, row in enumerate(rows) if not row["sequence"] or not row["label"]), None)
    if short is not None:
        raise TrainingError("training_cut_short", path=path, line=short + 2)
    return rows


def read_labelled(path: Path, alphabet: Alphabet, classes: Sequence[str]) -> Labelled:
    """The rows of a table, with letters and labels as ids.

    Raises:
        TrainingError: as `read_rows`; or a label is no class, or lengths differ.
        InputError: a sequence holds what is no letter.
    """
    rows = read_rows(path)
    foreign = {row["label"] for row in rows} - set(classes)
    if foreign:
        raise TrainingError("training_unknown_label", path=path, label=min(foreign), classes=tuple(classes))
    ids = [alphabet.read(row["sequence"]).ids for row in rows]
    if len({len(row) for row in ids}) > 1:
        raise TrainingError("training_lengths_differ", path=path)
    labels = [classes.index(row["label"]) for row in rows]
    return Labelled(tuple(row["id"] for row in rows), torch.tensor(ids), torch.tensor(labels))


def families(letters: Int[Tensor, "row letter"], width: int) -> list[int]:
    """A number for each row; rows that share `width` letters in a row, directly or through others, share a number."""
    parent = list(range(len(letters)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    first: dict[bytes, int] = {}
    for row, sequence in enumerate(letters.to(torch.uint8).numpy()):
        text = sequence.tobytes()
        for start in range(len(text) - width + 1):
            parent[root(row)] = root(first.setdefault(text[start : start + width], row))
    return [root(row) for row in range(len(letters))]


def held_out(data: Labelled, share: float, width: int, seed: int) -> tuple[Labelled, Labelled]:
    """Divide rows at random into a larger part and about `share` of them; families of near-duplicates stay together."""
    group = families(data.letters, width)
    generator = torch.Generator().manual_seed(seed)
    names = sorted(set(group))
    order = [names[i] for i in torch.randperm(len(names), generator=generator).tolist()]
    sizes = dict.fromkeys(names, 0)
    for name in group:
        sizes[name] += 1
    chosen, count = set[int](), 0
    for name in order:
        if count + sizes[name] <= share * len(data):
            chosen.add(name)
            count += sizes[name]
    out = torch.tensor([name in chosen for name in group])
    return data.rows((~out).nonzero()[:, 0]), data.rows(out.nonzero()[:, 0])


@dataclass(frozen=True)
class Substitution:
    """How negatives were made from positives: blocks of letters, some of which are replaced at random.

    The first `total` blocks of `block` letters of a longer sequence are candidates, of which `replaced` are filled
    with random letters; what lies behind them stays. Rows are the part of it that starts at letter `start` (from 0).
    Source of the scheme: Oubounyt et al. 2019, "DeePromoter".
    """

    block: int
    start: int
    total: int
    replaced: int

    def negatives(self, positives: Int[Tensor, "row letter"], n_letters: int) -> Int[Tensor, "row letter"]:
        """A fresh negative from each row."""
        count, length = positives.shape
        lies_in = (torch.arange(self.start, self.start + length) // self.block).clamp(max=self.total)
        rank = torch.rand(count, self.total).argsort(1)
        stays = torch.full((count, 1), self.total)  # what lies behind the last candidate
        replaced = (torch.cat([rank, stays], dim=1) < self.replaced)[:, lies_in]
        return torch.where(replaced, torch.randint(n_letters, positives.shape), positives)

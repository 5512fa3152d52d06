"""What people put around torch's layers, under any name: embeddings, positions, a projection.

Roles are told from shapes first (a matrix with a bias beside it is no embedding) and from words in the name second;
what stays open is asked.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Source
from transformer.checkpoint.foreign.questions import Answers, choice
from transformer.checkpoint.safe.contents import Shape

_POSITION = re.compile(r"pos|(?:^|[._])pe(?:$|[._])", re.IGNORECASE)
_PROJECTION = re.compile(
    r"gener|proj|head|logit|vocab|(?:^|[._])(?:fc|out|output|linear|classifier)\d*[._]", re.IGNORECASE
)
_EMBEDDING = re.compile(r"emb|tok|word|lut|voc", re.IGNORECASE)
_TARGET = re.compile(r"tgt|trg|target|dec|out", re.IGNORECASE)
_SOURCE = re.compile(r"src|source|enc|inp", re.IGNORECASE)

TIED = "tied"
"""The answer that the projection is the target's embedding itself."""


@dataclass(frozen=True)
class Table:
    """Rows that are added to positions: a parameter (`learned`) or a buffer (`stored`)."""

    source: Source
    length: int
    kind: str


@dataclass(frozen=True)
class Ends:
    """The tensors around the layers by role. `matrices` are as wide as the model, and have no bias beside them."""

    matrices: tuple[str, ...]
    biased: tuple[str, ...]
    tables: tuple[Table, ...]


def find_ends(shapes: Mapping[str, Shape], used: Iterable[str], d_model: int) -> Ends:
    """The tensors that are not part of a layer and are as wide as the model, by what their shapes tell."""
    taken = set(used)
    free = {name: shape for name, shape in shapes.items() if name not in taken}
    tables = {name: table for name, shape in free.items() if (table := _table(name, shape, d_model))}
    wide = [name for name, shape in free.items() if len(shape) == 2 and shape[1] == d_model and name not in tables]
    biased = tuple(name for name in wide if free.get(bias_of(name)) == (free[name][0],))
    return Ends(tuple(name for name in wide if name not in biased), biased, tuple(tables.values()))


def projection(ends: Ends, answers: Answers) -> str | None:
    """The tensor that scores the target's vocabulary; None if its embedding does. Asked where it is not clear."""
    if ends.biased:
        return ends.biased[-1]
    last = ends.matrices[-1] if len(ends.matrices) > 1 else TIED
    named = [name for name in ends.matrices[1:] if _PROJECTION.search(name) and not _EMBEDDING.search(name)]
    if len(named) == 1:
        return named[0]
    plain = len(ends.matrices) > 2 or not _EMBEDDING.search(last)
    options = dict.fromkeys([last if plain else TIED, TIED, *ends.matrices[1:]])
    text = "Which tensor scores the target's vocabulary?"
    found = choice(answers, "projection", text, tuple(options), "from the order of the file")
    return None if found == TIED else found


def source_and_target(embeddings: Mapping[str, int], answers: Answers, target_vocab: int | None) -> tuple[str, str]:
    """Which embedding reads the source and which the target; one alone reads both.

    `embeddings` gives the rows of each, `target_vocab` those of the projection. Asked where nothing tells.
    """
    names = tuple(embeddings)
    if len(names) == 1:
        return names[0], names[0]
    fitting = [name for name in names if embeddings[name] == target_vocab]
    called = [name for name in names if _TARGET.search(name) and not _SOURCE.search(name)]
    target = fitting[0] if len(fitting) == 1 else next(iter(called), None)
    source = next((name for name in names if _SOURCE.search(name) and name != target), None)
    if target and (source or len(names) == 2):
        return source or next(name for name in names if name != target), target
    why = "from the order of the file"
    source = choice(answers, "source_embedding", "Which tensor embeds the source?", names, why)
    others = tuple(name for name in names if name != source)
    return source, choice(answers, "target_embedding", "Which tensor embeds the target?", others, why)


def head_maps(after: Mapping[str, Shape], d_model: int) -> list[str]:
    """The linear maps after the layers that follow one another: the first is as wide as the model."""
    free = {name: shape for name, shape in after.items() if name.endswith("weight") and len(shape) == 2}
    names: list[str] = []
    width = d_model
    while (name := next((name for name, shape in free.items() if shape[1] == width), None)) is not None:
        names.append(name)
        width = free.pop(name)[0]
    return names


def head_options(after: Mapping[str, Shape], d_model: int, vocab: int, answers: Answers) -> dict[str, Any]:
    """The part of an encoder's config that says what comes after its layers; empty where nothing of it is run."""
    names = head_maps(after, d_model)
    if not names:
        return {}
    widths = tuple(after[name][0] for name in names)
    others = set(after) - {tensor for name in names for tensor in (name, bias_of(name))}
    usual = "none" if others else "each" if widths[-1] == vocab else "mean"
    why = "other tensors stand there too" if others else "one score a token" if usual == "each" else "one for the whole"
    options = tuple(dict.fromkeys([usual, "each", "mean", "first", "last", "none"]))
    reads = choice(
        answers, "head", "Which states does the map after the layers read (none: leave it out)?", options, why
    )
    if reads == "none":
        return {}
    between = "relu"
    if len(names) > 1:
        text = "What bends the numbers between the maps after the layers?"
        between = choice(answers, "head_activation", text, ("relu", "gelu", "tanh"), "the most common one")
    return {"head": widths, "head_reads": reads, "head_activation": between}


def bias_of(name: str) -> str:
    """What the bias beside a weight is called."""
    return f"{name.removesuffix('weight')}bias"


def _table(name: str, shape: Shape, d_model: int) -> Table | None:
    """A positional table: named like one, d_model wide; perhaps with an axis for the batch."""
    if not _POSITION.search(name) or not shape or shape[-1] != d_model:
        return None
    kind = "learned" if name.endswith("weight") else "stored"
    if len(shape) == 2:
        return Table(Source(name), shape[0], kind)
    if len(shape) == 3 and 1 in shape[:2]:
        axis = 0 if shape[0] == 1 else 1
        return Table(Source(name, extra_axis=axis), shape[1 - axis], kind)
    return None

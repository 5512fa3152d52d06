"""What a layout is: a published way to name tensors, and how its tensors become ours."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ....safe.contents import Shape


@dataclass(frozen=True)
class Source:
    """Where one of our tensors comes from: a foreign tensor, one of `parts` equal blocks of its rows.

    Without a `name`, the original has no such tensor, and ours is zero (a layer without bias). Ours may be it
    `transposed`, or some of its `width` columns: `runs` gives first and past-the-last of each run, in our order. Axes
    of length 1 that only one of the two has are no difference.
    """

    name: str | None
    part: int = 0
    parts: int = 1
    transposed: bool = False
    runs: tuple[tuple[int, int], ...] = ()
    width: int = 0

    def needs(self, ours: Shape, found: Shape | None) -> Shape:
        """The shape that the foreign tensor must have for ours of shape `ours`: `found`, if that will do."""
        shape = (ours[0], self.width) if self.runs else (ours[0] * self.parts, *ours[1:])
        shape = shape[::-1] if self.transposed else shape
        return shape if found is None or _without_ones(found) != _without_ones(shape) else found

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """Our tensor, cut from the foreign one."""
        if self.name is None:
            return torch.zeros(ours, dtype=torch.float64)  # as exact as the others, whatever these are
        tensor = tensors[self.name]
        if self.runs:
            return torch.cat([tensor[:, first:last] for first, last in self.runs], dim=1)
        tensor = tensor.T if self.transposed else tensor
        return tensor.chunk(self.parts)[self.part].reshape(ours)


def _without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


Sources = dict[str, Source]
"""Our tensors by name."""

SIDES = ("source", "target")
TABLE = "positions.table"
"""How the names of our tables of positions end."""


@dataclass(frozen=True)
class Fit:
    """How a file would become one of our models: its config, and where each of its tensors comes from.

    `copies` names foreign tensors that hold the same numbers as another one; `ignored` those that play no part in
    what the model computes, each with the reason. `doubt` says of tensors without a part why they cannot be passed
    over.
    """

    architecture: str
    config: Any
    sources: Mapping[str, Source]
    reasons: tuple[str, ...]
    copies: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    doubt: str = ""


def root_of(names: Iterable[str], sign: str) -> str | None:
    """What stands before the first name that `sign` (a regular expression) matches to its end; None if none does."""
    pattern, end = re.compile(rf"(?P<root>(?:.*\.)?){sign}"), sign.rpartition(".")[2]
    return next((found["root"] for name in names if name.endswith(end) and (found := pattern.fullmatch(name))), None)


def layer_count(names: Iterable[str], prefix: str) -> int:
    """How many different layer numbers follow `prefix`; at least 1."""
    numbers = {name[len(prefix) :].partition(".")[0] for name in names if name.startswith(prefix)}
    return max(1, sum(number.isdigit() for number in numbers))


def size(shapes: Mapping[str, Shape], *places: tuple[str, int]) -> int:
    """The first size that can be read off: each place is a tensor and one of its axes. At least 1.

    Where none is there, the answer is 1: the report will then show the tensors that are missing.
    """
    return next((max(1, shapes[name][axis]) for name, axis in places if len(shapes.get(name, ())) > axis), 1)


def sizes_of(sources: Mapping[str, Source], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The sizes in the config of a Transformer, read off the tensors that become ours; 1 as for `size`."""

    def length_of(axis: int, *ours: str) -> int:
        there = (sources[one] for one in ours if one in sources)
        return size(shapes, *((str(one.name), 1 - axis if one.transposed else axis) for one in there))

    depths = {half: layer_count(sources, f"{half}.") for half in ("encoder", "decoder")}
    first = "encoder" if "encoder.0.self_attention.query.weight" in sources else "decoder"
    queries = f"{first}.0.self_attention.query.weight"
    found = {
        "d_model": length_of(1, "embedding.weight", "source_embedding.weight", queries),
        "d_ff": length_of(0, f"{first}.0.feed_forward.widen.weight"),
    }
    tables = [str(source.name) for name, source in sources.items() if name.endswith(TABLE)]
    rows = [max(1, math.prod(shapes.get(table, ())[:-1])) for table in tables]
    found |= {"max_length": rows[0]} if rows else {}
    found |= {"target_length": rows[-1]} if rows[1:] and rows[0] != rows[-1] else {}
    if "source_embedding.weight" not in sources:
        return found | {"vocab": length_of(0, "embedding.weight"), "n_layers": depths[first]}
    found |= {f"{side}_vocab": length_of(0, f"{side}_embedding.weight", "source_embedding.weight") for side in SIDES}
    return found | {f"n_{half}_layers": depth for half, depth in depths.items()}


def linear(
    ours: str,
    theirs: str,
    suffixes: tuple[str, str] = ("weight", "bias"),
    *,
    bias: bool = True,
    transposed: bool = False,
) -> Sources:
    """A linear map (or a norm) under another name; `suffixes` are theirs. Without a `bias` of theirs, ours is zero."""
    return {
        f"{ours}.weight": Source(f"{theirs}.{suffixes[0]}", transposed=transposed),
        f"{ours}.bias": Source(f"{theirs}.{suffixes[1]}" if bias else None),
    }


def linears(ours: str, theirs: str, names: Mapping[str, str], *suffixes: Any, **lay: Any) -> Sources:
    """Linear maps and norms whose names, here and there, begin with `ours` and `theirs`; the rest as for `linear`."""
    found = (linear(f"{ours}{mine}", f"{theirs}{name}", *suffixes, **lay) for mine, name in names.items())
    return {name: source for one in found for name, source in one.items()}


def attention(ours: str, theirs: str, output: str, *, bias: bool, transposed: bool = False) -> Sources:
    """An attention whose query, key and value are one matrix, called `theirs` up to `weight` and `bias`.

    `output` is the full name of the map after it. Without biases ours has none either.
    """
    found = linear(f"{ours}.output", output, transposed=transposed)
    for part, name in enumerate(("query", "key", "value")):
        found[f"{ours}.{name}.weight"] = Source(f"{theirs}weight", part, parts=3, transposed=transposed)
        found[f"{ours}.{name}.bias"] = Source(f"{theirs}bias", part, parts=3)
    return {name: source for name, source in found.items() if bias or name.endswith("weight")}

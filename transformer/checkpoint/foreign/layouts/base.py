"""What a layout is: a published way to name tensors, and how its tensors become ours."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint.foreign.questions import Answers
from transformer.messages import Message
from transformer.safe.contents import Contents, Shape

_PLAIN_END = re.compile(r"(?:(?<!\\)\w|\\\.)*$")


@dataclass(frozen=True)
class Source:
    """Where one of our tensors comes from: a foreign tensor, one of `parts` equal blocks of its rows.

    `extra_axis` is the place of an axis of length 1 that the foreign tensor has and ours has not; as a `vector`, it is
    the one row of ours. Without a `name`, the original has no such tensor, and ours are these `rows`, or zero (a layer
    without bias). Ours may be it `transposed`, or some of its `width` columns: `runs` gives first and past-the-last of
    each run, in our order.
    """

    name: str | None
    part: int = 0
    parts: int = 1
    extra_axis: int | None = None
    transposed: bool = False
    vector: bool = False
    runs: tuple[tuple[int, int], ...] = ()
    width: int = 0
    rows: Tensor | None = field(default=None, compare=False)

    def needs(self, ours: Shape) -> dict[str, Shape]:
        """The foreign tensors that ours of shape `ours` is made of, with the shapes that they must have."""
        return dict.fromkeys(self.names, self._foreign_shape(ours))

    @property
    def names(self) -> tuple[str, ...]:
        """The foreign tensors that ours is made of."""
        return () if self.name is None else (self.name,)

    def _foreign_shape(self, ours: Shape) -> Shape:
        if self.vector or self.runs:
            return ours[1:] if self.vector else (ours[0], self.width)
        shape = (ours[0] * self.parts, *ours[1:])
        shape = shape[::-1] if self.transposed else shape
        return shape if self.extra_axis is None else (*shape[: self.extra_axis], 1, *shape[self.extra_axis :])

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """Our tensor, cut from the foreign one."""
        if self.name is None:
            return torch.zeros(ours) if self.rows is None else self.rows
        tensor = tensors[self.name]
        if self.runs:
            return torch.cat([tensor[:, first:last] for first, last in self.runs], dim=1)
        if self.extra_axis is not None:
            tensor = tensor.squeeze(self.extra_axis)
        tensor = tensor.T if self.transposed else tensor
        tensor = tensor[None] if self.vector else tensor
        return tensor.chunk(self.parts)[self.part] if self.parts > 1 else tensor


@dataclass(frozen=True)
class Fit:
    """How a file would become one of our models: its config, and where each of its tensors comes from.

    `copies` names foreign tensors that hold the same numbers as another one; `ignored` those that play no part in
    what the model computes, each with the reason. `doubts` says of tensors without a part why they cannot be passed
    over: they might act before the last attention. `assumed`
    says what a config that came along says was assumed when it was written.
    """

    architecture: str
    config: Any
    sources: Mapping[str, Source]
    reasons: tuple[str, ...]
    copies: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A published way to name tensors: what it is called in reports and on a page.

    `fit` says how contents would become our model, as well as can be told; None when nothing looks like this layout.
    """

    name: str
    title: str
    fit: Callable[[Contents, Answers], Fit | None]


def root_of(names: Iterable[str], sign: str) -> str | None:
    """What stands before the first name that `sign` (a regular expression) matches to its end; None if none does."""
    pattern, end = re.compile(rf"(?P<root>(?:.*\.)?){sign}"), _ending(sign)
    return next((found["root"] for name in names if name.endswith(end) and (found := pattern.fullmatch(name))), None)


def _ending(sign: str) -> str:
    """The plain text that all names end with which `sign` matches: most names are passed over by it, quickly."""
    found = _PLAIN_END.search(sign)
    return found[0].replace("\\.", ".") if found else ""


def layer_count(names: Iterable[str], prefix: str) -> int:
    """How many different layer numbers follow `prefix`."""
    numbers = {name[len(prefix) :].partition(".")[0] for name in names if name.startswith(prefix)}
    return sum(number.isdigit() for number in numbers)


def size(shapes: Mapping[str, Shape], *places: tuple[str, int]) -> int:
    """The first size that can be read off: each place is a tensor and one of its axes. At least 1.

    Where none is there, the answer is 1: the report will then show the tensors that are missing.
    """
    for name, axis in places:
        if len(shapes.get(name, ())) > axis:
            return max(1, shapes[name][axis])
    return 1


def lengths(source: int, target: int) -> dict[str, int]:
    """What a config says of tables of positions: how many rows the source's has, and the target's where they differ."""
    return {"max_length": max(1, source), "target_length": 0 if source == target else max(1, target)}


def two_tables(config: Any) -> tuple[str, ...]:
    """That source and target have tables of positions of two lengths, which each keeps to itself."""
    if not config.target_length:
        return ()
    return (Message("reason_two_tables", source=config.max_length, target=config.target_length),)


def linear(
    ours: str, theirs: str, weight: str = "weight", bias: str = "bias", has_bias: bool = True
) -> dict[str, Source]:
    """A linear map (or a norm) under another name; without a bias of theirs, ours is zero."""
    return {
        f"{ours}.weight": Source(f"{theirs}.{weight}"),
        f"{ours}.bias": Source(f"{theirs}.{bias}" if has_bias else None),
    }

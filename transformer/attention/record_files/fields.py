"""The values of a record file's table: each is checked where it is read, and a refusal names its place."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from ...messages import Message, NoMessageError, unpacked_message
from ...safe.limits import is_text, refused, shown
from ..interventions.value import Intervention

VERSION = 1
"""The version that is written, and the newest that is read."""

KEY = "heedmap"
"""The name of the JSON table in the metadata of the safetensors file."""

MOST_SITES = 4_096
MOST_SITE_CHARACTERS = 500
MOST_HEADS = 4_096
MOST_POSITIONS = 65_536
"""Queries or keys of one site: four times the longest run that the pages show."""

MOST_NOTES = 100
"""Notes of one site."""

MOST_MESSAGE_PARTS = 50_000
"""Codes, texts and numbers of all messages (notes, names and labels of axes) of one file."""

MOST_CHANGED_POSITIONS = 5_000_000
"""Numbers (heads, rows, keys, weights) of the interventions of all maps: each is looked at where one is shown."""

ROUNDING = 1e-3
"""How far outside 0 to 1 weights may lie, for what half precision may add."""

MOST_AXES, MOST_COUNT, MOST_NUMBER = 4, 2**40, 1e300
BOOL = (torch.bool,)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

Read = TypeVar("Read")


def kind_name(dtype: torch.dtype) -> str:
    """What messages and headers call a kind of number: `float32`."""
    return str(dtype).removeprefix("torch.")


def finite(least: float, most: float) -> bool:
    """Neither NaN nor infinity."""
    return math.isfinite(least) and math.isfinite(most)


def below_infinity(least: float, most: float) -> bool:
    """No NaN, and no plus infinity: minus infinity hides a key."""
    return not math.isnan(least) and most < math.inf


@dataclass(eq=False)
class RecordFile:
    """A file that is read: its name in messages, its tensors, which of them were named or checked, and what is left."""

    name: str
    tensors: Mapping[str, Tensor]
    used: set[str] = field(default_factory=set)
    checked: set[Any] = field(default_factory=set)
    parts_left: list[int] = field(default_factory=lambda: [MOST_MESSAGE_PARTS])
    positions_left: int = MOST_CHANGED_POSITIONS
    interventions: tuple[Intervention, ...] = ()

    def refuse(self, code: str, /, **fields: object) -> NoReturn:
        """Refuse the file, by its name."""
        raise refused(code, self.name, Message("remedy_save_record"), **fields)


@dataclass(frozen=True, eq=False)
class Field:
    """A value of the table, and the path to it (`heedmap.sites[3].source.scale`)."""

    value: Any
    path: str
    file: RecordFile

    def wrong(self, expected: str, **fields: object) -> NoReturn:
        """Refuse the file: something else is expected here."""
        self.file.refuse("record_entry", place=self.path, expected=Message(f"expected_{expected}", **fields))

    def table(self, *known: str) -> "Field":
        """This, which has to be a table of some of the `known` names."""
        if not isinstance(self.value, dict) or not self.value.keys() <= set(known):
            self.wrong("table", names=known)
        return self

    def at(self, name: str) -> "Field":
        """What stands at a name of the table; null where nothing does."""
        return Field(self.value.get(name), f"{self.path}.{name}", self.file)

    def optional(self, name: str, read: Callable[["Field"], Read]) -> Read | None:
        """What is read of a name of the table; None where nothing, or null, stands there."""
        found = self.at(name)
        return None if found.value is None else read(found)

    def items(self, most: int, least: int = 0) -> list["Field"]:
        """The values of a list of at most so many."""
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            self.wrong("list", least=least, most=most)
        return [Field(item, f"{self.path}[{i}]", self.file) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that can be written."""
        if not isinstance(self.value, str) or not is_text(self.value):
            self.wrong("text")
        return self.value

    def said(self) -> str:
        """A text, or a message of the catalogue; one that the catalogue does not know becomes its English text."""
        if not isinstance(self.value, dict):
            return self.text()
        self.table("code", "fields", "text")
        try:
            message = unpacked_message(self.value, self.file.parts_left)
        except NoMessageError:
            return self.at("text").text()
        return message if is_text(message) else self.at("text").text()

    def choice(self, choices: Collection[str]) -> str:
        """One of some words."""
        if not isinstance(self.value, str) or self.value not in choices:
            self.wrong("choice", choices=tuple(choices))
        return self.value

    def yes(self) -> bool:
        """True or false; false where it is missing."""
        if self.value is not None and type(self.value) is not bool:
            self.wrong("yes_or_no")
        return bool(self.value)

    def count(self, most: int = MOST_COUNT, least: int = 0) -> int:
        """A whole number."""
        if type(self.value) is not int or not least <= self.value <= most:
            self.wrong("count", least=least, most=most)
        return self.value

    def counts(self, most: int, most_items: int) -> tuple[int, ...]:
        """A list of whole numbers, none above `most`."""
        values = self.value
        if not isinstance(values, list) or len(values) > most_items:
            self.wrong("list", least=0, most=most_items)
        if not all(type(value) is int and 0 <= value <= most for value in values):
            self.wrong("counts", most=most)
        return tuple(values)

    def number(self) -> float:
        """A number that is neither NaN nor infinite."""
        if type(self.value) not in {int, float} or not abs(self.value) < MOST_NUMBER:
            self.wrong("number")
        return float(self.value)

    def tensor(
        self,
        shape: tuple[int | None, ...],
        dtypes: tuple[torch.dtype, ...] = FLOATS,
        check: Callable[[float, float], bool] | None = finite,
    ) -> Tensor:
        """The tensor that is named here, of this shape (None: any size from 1) and one of these kinds.

        `check` says of its extremes whether it may have them.
        """
        named, order = self, None
        if isinstance(self.value, dict):
            named, order = self.table("tensor", "order").at("tensor"), self.at("order").counts(MOST_AXES, MOST_AXES)
        name = named.text()
        tensor, stated = self.file.tensors.get(name), {"tensor": shown(name), "place": self.path}
        if tensor is None:
            self.file.refuse("record_tensor_missing", **stated)
        self.file.used.add(name)
        if order is not None:
            if sorted(order) != list(range(tensor.dim())):
                self.at("order").wrong("order", count=tensor.dim())
            tensor = tensor.permute([order.index(axis) for axis in range(len(order))])
        if tensor.dim() != len(shape) or not all(
            found == size if size is not None else found > 0 for found, size in zip(tensor.shape, shape, strict=True)
        ):
            sizes = (" x ".join("?" if n is None else str(n) for n in one) for one in (tensor.shape, shape))
            self.file.refuse("record_tensor_shape", **stated, **dict(zip(("found", "expected"), sizes, strict=True)))
        if tensor.dtype not in dtypes:
            kinds = tuple(map(kind_name, dtypes))
            self.file.refuse("record_tensor_kind", **stated, found=kind_name(tensor.dtype), expected=kinds)
        if check is not None and (name, check) not in self.file.checked:
            if not check(*(float(one) for one in tensor.aminmax())):
                self.file.refuse("record_tensor_not_finite", **stated)
            self.file.checked.add((name, check))
        return tensor

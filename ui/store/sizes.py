"""What a value takes: the bytes that it keeps alive, of Python, NumPy and PyTorch, as the allocator counts them."""

import gc
import sys
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from heedmap.runs.memory import OWN_PAGES

SMALL = 4096
"""Bytes below which a buffer is only added up: what is worth sharing is larger."""

UNIT, PAGE = 16, 4096
"""Bytes of which an allocation takes a multiple; a block of `OWN_PAGES` or more takes pages, and one page more."""

ARRAY, TENSOR = 2 * UNIT, 512
"""Bytes that the blocks of an array take besides what NumPy says, and a tensor besides its numbers: what stands for it
and for its storage in Python and in C++."""


@dataclass
class Size:
    """Bytes that a value keeps alive: of its large buffers, by where they lie, and of all that is small together."""

    buffers: dict[int, int] = field(default_factory=dict)
    rest: int = 0

    @property
    def n_bytes(self) -> int:
        """All of them."""
        return sum(self.buffers.values()) + self.rest

    def add(self, place: int, n_bytes: int) -> None:
        """Count what the allocator takes for so many bytes at a place."""
        taken = n_bytes + -n_bytes % UNIT if n_bytes < OWN_PAGES else n_bytes + -n_bytes % PAGE + PAGE
        if n_bytes < SMALL:
            self.rest += taken
        else:
            self.buffers[place] = taken


def size_of(value: object) -> Size:
    """What a value keeps alive.

    Two values that share a tensor, or are views of one array, name the same buffer; a view counts with the whole of
    what it looks at. Classes, modules and what functions find in their module are the program's and count nothing; what
    a library holds outside of Python (a tokenizer written in Rust) is not seen. About 0.3 us an object.
    """
    found, seen, reached = Size(), set[int](), [value]
    while reached:  # all objects of one distance at once, most of which Python's own loops can do
        new = {id(one): one for one in reached if id(one) not in seen}
        seen.update(new)
        kinds = {kind: _measured(kind) for kind in set(map(type, new.values()))}
        plain = [one for one in new.values() if kinds[type(one)] == "plain"]
        sizes = list(map(sys.getsizeof, plain))
        found.rest += sum(size + -size % UNIT for size in sizes if size < SMALL)
        for one, size in zip(plain, sizes, strict=True):
            if size >= SMALL:
                found.add(id(one), size)
        reached = [one for one in gc.get_referents(*plain) if not (type(one) is dict and "__builtins__" in one)]
        for one in new.values():
            if kinds[type(one)] == "special":
                reached += _count(one, found)
    return found


def _measured(kind: type) -> str:
    """How objects of a type are measured: special are those whose bytes or whose references Python does not know."""
    if issubclass(kind, type | ModuleType):
        return "of the program"
    return "special" if issubclass(kind, torch.Tensor | np.ndarray | FunctionType) else "plain"


def _count(one: Any, found: Size) -> list[Any]:
    """Count the bytes of a tensor, an array or a function alone; returns what it refers to.

    The names of the module that a function was written in are the program's.
    """
    if isinstance(one, torch.Tensor):
        found.rest += TENSOR
        found.add(one.untyped_storage().data_ptr(), one.untyped_storage().nbytes())
        return []
    if isinstance(one, np.ndarray):
        if one.base is None:
            found.rest += sys.getsizeof(one) - one.nbytes + ARRAY
            found.add(one.ctypes.data, one.nbytes)
        else:
            found.add(id(one), sys.getsizeof(one))
        return [one.base, *(one.flat if one.dtype.hasobject else ())]
    found.add(id(one), sys.getsizeof(one))
    return [one.__closure__, one.__defaults__, one.__kwdefaults__]

"""How much memory a value holds: the buffers that it reaches, each once, whoever else reaches them too."""

import gc
import sys
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Literal

import numpy as np
import torch

from transformer.runs.memory import OWN_PAGES

SMALL = 4096
"""Bytes below which a buffer is only added up: what is worth sharing is larger."""

UNIT = 16
"""Bytes of which an allocation takes a multiple, in Python's own pools as from the C library."""

PAGE = 4096
"""Bytes of which a block of `OWN_PAGES` or more takes a multiple, and one page more."""

ARRAY = 2 * UNIT
"""Bytes that the blocks of an array take besides what NumPy says."""

TENSOR = 512
"""Bytes that a tensor takes besides its numbers: what stands for it in Python and in C++, and for its storage."""

LEAVES = frozenset({str, bytes, int, float, bool, complex, type(None)})
"""Types whose objects refer to no other."""

Kind = Literal["of the program", "leaf", "holder", "special"]
"""How objects of a type are measured; special are those whose bytes or whose references Python does not know."""


@dataclass
class Size:
    """Bytes that a value keeps alive: of its large buffers, by where they lie, and of all that is small together."""

    buffers: dict[int, int] = field(default_factory=dict)
    rest: int = 0

    @property
    def n_bytes(self) -> int:
        """All of them."""
        return sum(self.buffers.values()) + self.rest


def size_of(value: object) -> Size:
    """What a value keeps alive: tensors, arrays, texts, objects of Python.

    Two values that share a tensor, or are views of one array, name the same buffer; a view counts with the whole of
    what it looks at. Classes, modules and what functions find in their module are the program's and count nothing; what
    a library holds outside of Python (a tokenizer written in Rust) is not seen. About 0.3 us an object.
    """
    found, seen, reached, kinds = Size(), set[int](), [value], dict[type, Kind]()
    while reached:  # all objects of one distance at once, most of which Python's own loops can do
        new = {id(one): one for one in reached if id(one) not in seen}
        seen.update(new)
        for kind in {type(one) for one in new.values()} - kinds.keys():
            kinds[kind] = _kind(kind)
        plain = [one for one in new.values() if kinds[type(one)] in ("leaf", "holder")]
        sizes = list(map(sys.getsizeof, plain))
        found.rest += sum(size + -size % UNIT for size in sizes if size < SMALL)
        found.buffers.update((id(one), _taken(size)) for one, size in zip(plain, sizes, strict=True) if size >= SMALL)
        reached = gc.get_referents(*(one for one in plain if kinds[type(one)] == "holder"))
        reached = [one for one in reached if not (type(one) is dict and "__builtins__" in one)]
        for one in new.values():
            if kinds[type(one)] == "special":
                _count(one, found)
                reached += _reached(one)
    return found


def _kind(kind: type) -> Kind:
    if issubclass(kind, type | ModuleType):
        return "of the program"
    if issubclass(kind, torch.Tensor | np.ndarray | FunctionType):
        return "special"
    return "leaf" if kind in LEAVES else "holder"


def _count(one: Any, found: Size) -> None:
    """Count the bytes that are a tensor's, an array's or a function's alone."""
    place, n_bytes, itself = id(one), sys.getsizeof(one), 0
    if isinstance(one, torch.Tensor):
        storage = one.untyped_storage()
        place, n_bytes, itself = storage.data_ptr(), storage.nbytes(), TENSOR
    elif isinstance(one, np.ndarray) and one.base is None:
        place, n_bytes, itself = one.ctypes.data, one.nbytes, n_bytes - one.nbytes + ARRAY
    found.rest += itself
    if n_bytes >= SMALL:
        found.buffers[place] = _taken(n_bytes)
    else:
        found.rest += _taken(n_bytes)


def _taken(n_bytes: int) -> int:
    """What the allocator takes for so many bytes."""
    return n_bytes + -n_bytes % UNIT if n_bytes < OWN_PAGES else n_bytes + -n_bytes % PAGE + PAGE


def _reached(one: Any) -> list[Any]:
    """What they refer to, without the names of the module that a function was written in."""
    if isinstance(one, torch.Tensor):
        return []
    if isinstance(one, np.ndarray):
        return [one.base, *(one.flat if one.dtype.hasobject else ())]
    return [one.__closure__, one.__defaults__, one.__kwdefaults__]

"""How much memory a value holds: the buffers that it reaches, each once, whoever else reaches them too."""

import gc
import sys
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

SMALL = 4096
"""Bytes below which a buffer is only added up: what is worth sharing is larger."""


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
    a library holds outside of Python (a tokenizer written in Rust) is not seen. About 1 us an object.
    """
    found, seen, waiting = Size(), set[int](), [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType):
            continue
        seen.add(id(one))
        place, n_bytes = _own(one)
        if n_bytes >= SMALL:
            found.buffers[place] = n_bytes
        else:
            found.rest += n_bytes
        waiting += _reached(one)
    return found


def _own(one: Any) -> tuple[int, int]:
    """Where the bytes of an object lie that are its alone, and how many they are."""
    if isinstance(one, torch.Tensor):
        storage = one.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    if isinstance(one, np.ndarray) and one.base is None:
        return one.ctypes.data, one.nbytes
    return id(one), sys.getsizeof(one)


def _reached(one: Any) -> list[Any]:
    """What an object refers to, without the names of the module that a function was written in."""
    if isinstance(one, torch.Tensor):
        return []
    if isinstance(one, np.ndarray):
        return [one.base, *(one.flat if one.dtype.hasobject else ())]
    if isinstance(one, FunctionType):
        return [one.__closure__, one.__defaults__, one.__kwdefaults__]
    return [found for found in gc.get_referents(one) if not (type(found) is dict and "__builtins__" in found)]

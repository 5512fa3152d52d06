"""Which tensors of a checkpoint are one matrix in several places."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from transformer.checkpoint.inspect.statistics import all_alike, go_on, slices
from transformer.safe.contents import Shape

_Memory = tuple[Shape, torch.dtype, int, tuple[int, ...]]
_Kind = tuple[Shape, torch.dtype]


def tied_groups(tensors: Mapping[str, Tensor], between: Callable[[], None] = go_on) -> tuple[tuple[str, ...], ...]:
    """Names that hold the same numbers in the same shape: one matrix in two places. All numbers alike do not count.

    Tensors in the same memory are one without a look at their numbers; only different memory of one shape is compared,
    by its fingerprint. `between` is called between slices; what it raises ends the work.
    """
    kinds: dict[_Kind, dict[_Memory, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if tensor.numel() > 1:
            memory = (shape, tensor.dtype, tensor.data_ptr(), tensor.stride())
            kinds[shape, tensor.dtype][memory].append(name)
    groups: dict[object, list[str]] = defaultdict(list)
    for memories in kinds.values():
        for memory, names in memories.items():
            tensor = tensors[names[0]].detach()
            if (len(names) > 1 or len(memories) > 1) and not all_alike(tensor, between):
                groups[_content(tensor, between) if len(memories) > 1 else memory] += names
    order = {name: place for place, name in enumerate(tensors)}
    tied = [tuple(sorted(names, key=order.__getitem__)) for names in groups.values() if len(names) > 1]
    return tuple(sorted(tied, key=lambda names: order[names[0]]))


def _content(tensor: Tensor, between: Callable[[], None]) -> tuple[Shape, torch.dtype, str]:
    """Shape, kind and fingerprint of a tensor's numbers."""
    digest = hashlib.sha256()
    for numbers in slices(tensor):
        between()
        digest.update(numbers.contiguous().view(torch.uint8).numpy().data)
    return tuple(tensor.shape), tensor.dtype, digest.hexdigest()

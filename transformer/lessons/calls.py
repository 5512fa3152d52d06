"""What modules are called with, kept for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def calls(*modules: nn.Module) -> Iterator[dict[nn.Module, tuple[Any, ...]]]:
    """The arguments of each module's last call inside the block."""
    seen: dict[nn.Module, tuple[Any, ...]] = {}

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen[module] = arguments

    handles = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()

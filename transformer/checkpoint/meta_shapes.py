"""The shapes of a model's parameters, without memory for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from transformer.nn.positions import FORMULAS
from transformer.safe.contents import Shape


class _Unfilled(TorchFunctionMode):
    """Skips `nn.init.normal_`, as a meta tensor has nothing to fill."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        return options["tensor"] if func is nn.init.normal_ else func(*args, **options)


def meta_shapes(model: type[nn.Module], config: Any) -> dict[str, Shape]:
    """The shape of each parameter of our model, without taking memory for it.

    Arithmetic on the meta device would make torch import its compiler (3 s). So nothing is filled, and a formula's
    table, which is no parameter, is not computed.
    """
    computed = getattr(config, "positions", None) in FORMULAS
    lean = replace(config, positions="stored", max_length=1) if computed else config
    with torch.device("meta"), _Unfilled():
        shapes = {name: tuple(p.shape) for name, p in model(lean).named_parameters()}
    return {name: shape for name, shape in shapes.items() if not (computed and name.endswith("positions.table"))}

"""Layers that run several times (ALBERT's): a module for each run, so that each can be watched by its name."""

import copy
from typing import Any

from torch import nn


def set_layers_apart(net: nn.Module) -> None:
    """Give layers that run several times a module for each run.

    Their weights stay the very same tensors: nothing is copied, and a change of one is a change of all.
    """
    for module in net.modules():
        if type(module).__name__ != "AlbertTransformer":
            continue
        several: Any = module
        groups, n_layers = several.albert_layer_groups, several.config.num_hidden_layers
        runs = [groups[int(i / (n_layers / len(groups)))] for i in range(n_layers)]  # as the library counts them
        several.albert_layer_groups = nn.ModuleList(_twin(group) for group in runs)
        several.config = copy.copy(several.config)
        several.config.num_hidden_groups = n_layers


def _twin(module: nn.Module) -> nn.Module:
    """Another module of the same tensors."""
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    configs = {id(part.config): part.config for part in module.modules() if hasattr(part, "config")}
    return copy.deepcopy(module, {**shared, **configs})

"""Families with attention code of their own: it is replaced by the function that may be watched.

The library's attention interface does not reach them. What they compute is a softmax of scaled scores under a mask, so
the fused attention computes it too; whether it does is found out by `probing`, as for every family.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from transformer.checkpoint.huggingface.attention import NAME
from transformer.checkpoint.huggingface.library import library
from transformer.checkpoint.huggingface.whole_attention import WHOLE

Mask = Callable[[Any, Tensor, Tensor, Tensor | None], Tensor | None]
"""From a module, its queries, its keys and the mask that it got to the mask that its scores get, which is added."""


def _as_given(module: Any, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor | None:  # noqa: ARG001
    return mask


def _in_a_window(module: Any, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor | None:
    """GPT-Neo hides by a table of its own, which in every other layer is a window."""
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    visible = module.bias[:, :, n_keys - n_queries : n_keys, :n_keys]
    own = torch.zeros_like(visible, dtype=query.dtype).masked_fill(~visible, torch.finfo(query.dtype).min)
    return own if mask is None else (own + mask).clamp(min=torch.finfo(query.dtype).min)


OWN: Final[dict[str, tuple[Callable[[Any], float], Mask]]] = {
    "GPTJAttention": (lambda module: 1 / float(module.scale_attn), _as_given),
    "GPTNeoSelfAttention": (lambda module: 1.0, _in_a_window),  # noqa: ARG005
    "CodeGenAttention": (lambda module: 1 / float(module.scale_attn), _as_given),
    "GPTNeoXJapaneseAttention": (lambda module: 1 / float(module.norm_factor), _as_given),
}
"""Attention modules by class: the factor of their scores, and their mask. Each computes in a method `_attn`."""


def adopt(net: nn.Module) -> bool:
    """Let the attention of a model run through the function that may be watched; whether it has any that is known."""
    attend = library().AttentionInterface()[NAME]
    found = False
    for module in net.modules():
        name = type(module).__name__
        if name in OWN:
            module.__dict__["_attn"] = _watched(module, attend, *OWN[name])
        elif name in WHOLE:
            module.__dict__["forward"] = partial(WHOLE[name], module, attend)
        found |= name in OWN or "forward" in module.__dict__
    return found


def abandon(net: nn.Module) -> None:
    """Let its own attention run again."""
    for module in net.modules():
        module.__dict__.pop("_attn", None)
        module.__dict__.pop("forward", None)


def _watched(
    module: nn.Module, attend: Callable[..., tuple[Tensor, None]], scaling: Callable[[Any], float], masked: Mask
) -> Callable[..., tuple[Tensor, None]]:
    def attention(
        query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        """The fused attention, which like the family's own computes in single precision and ends as its values are."""
        single = query.float(), key.float(), value.float()
        mask = masked(module, single[0], single[1], attention_mask)
        output, _ = attend(module, *single, mask, scaling=scaling(module), is_causal=mask is None)
        return output.transpose(1, 2).to(value.dtype), None

    return attention


def set_layers_apart(net: nn.Module) -> None:
    """Give layers that run several times (ALBERT's) a module for each run, so that each can be watched by its name.

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

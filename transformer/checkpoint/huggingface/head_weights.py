"""The weights of single heads in another library's model: what makes queries, keys and values, and what writes them."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.checkpoint.huggingface.attention import SITE
from transformer.checkpoint.huggingface.model import HuggingFaceModel
from transformer.sites import Site

SEPARATE = (
    ("query", "key", "value", "output.dense"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("q", "k", "v", "o"),
)
"""What families call the four maps of an attention; a name with a dot stands beside the module, not in it."""

JOINT = ("c_attn", "c_proj")
"""What GPT-2 calls one map of queries, keys and values, one after the other, and the output."""


class HeadWeights(NamedTuple):
    """The four maps of one attention, head by head. Heads that share keys and values have the same ones."""

    query: Float[Tensor, "head d_k d_model"]
    key: Float[Tensor, "head d_k d_memory"]
    value: Float[Tensor, "head d_v d_memory"]
    output: Float[Tensor, "head d_v d_model"]


def head_weights(model: HuggingFaceModel) -> dict[Site, HeadWeights]:
    """The weights of each attention by site, in float64; without those whose maps have names that are not known here.

    Nothing is known of models that are recorded eagerly. Rotations by position (Llama) stand between queries and keys
    and are no part of these weights, nor are biases and norms.
    """
    found = {}
    for name, module in model.net.named_modules():
        site = getattr(module, SITE, None)
        maps = None if site is None else _maps(model.net, name, module)
        if site is not None and maps is not None:
            split = _split(maps, module, model.net.config)
            if split is not None:
                found[Site(site)] = split
    return {site: found[site] for site in model.sites if site in found}


def _maps(net: nn.Module, name: str, module: nn.Module) -> tuple[Tensor, ...] | None:
    """Four matrices of (outputs, inputs), whichever way the family keeps them."""
    beside = dict(net.named_modules())
    holder = name.rpartition(".")[0]
    for names in SEPARATE:
        parts = [beside.get(f"{holder if '.' in one else name}.{one}") for one in names]
        if all(isinstance(part, nn.Linear) for part in parts):
            return tuple(part.weight for part in parts if isinstance(part, nn.Linear))
    joint, output = (getattr(module, one, None) for one in JOINT)
    if joint is None or output is None:
        return None
    query, key, value = joint.weight.T.chunk(3)  # a Conv1D keeps inputs first
    return query, key, value, output.weight.T


def _split(maps: tuple[Tensor, ...], module: nn.Module, config: Any) -> HeadWeights | None:
    """The matrices head by head; None where their sizes say otherwise than the config."""
    d_head = next((size for one in ("head_dim", "attention_head_size") if (size := getattr(module, one, None))), None)
    d_head = d_head or getattr(module, "key_value_proj_dim", None) or getattr(config, "d_kv", None)
    if not isinstance(d_head, int) or any(len(one) % d_head for one in maps[:3]):
        return None
    query, key, value = (one.detach().double().unflatten(0, (-1, d_head)) for one in maps[:3])
    output = maps[3].detach().double().T.unflatten(0, (-1, d_head))
    shared = len(query) // max(1, len(key))
    if len(output) != len(query) or shared * len(key) != len(query) or len(key) != len(value):
        return None
    key, value = (torch.repeat_interleave(one, shared, dim=0) for one in (key, value))
    return HeadWeights(query, key, value, output)

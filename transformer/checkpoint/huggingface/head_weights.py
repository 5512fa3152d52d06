"""The weights of single heads in another library's model: what makes queries, keys and values, and what writes them."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.checkpoint.huggingface.model import HuggingFaceModel
from transformer.sites import Site

SEPARATE = (
    ("query", "key", "value", "output.dense"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("q", "k", "v", "o"),
    ("query", "key", "value", "dense"),
)
"""What families call the four maps of an attention; a name with a dot stands beside the module, not in it."""

JOINT = (
    ("c_attn", "c_proj"), ("query_key_value", "dense"), ("Wqkv", "Wo"), ("Wqkv", "out_proj"), ("qkv_proj", "o_proj"),
    ("qkv_proj", "out_proj"),
)  # fmt: skip
"""What families call one map of queries, keys and values, and the output."""

HEAD_BY_HEAD = frozenset({"BloomAttention", "GPTNeoXAttention", "GPTNeoXJapaneseAttention", "PersimmonAttention"})
"""Attention modules whose joint map has a query, a key and a value of one head side by side."""

ONE_AFTER_THE_OTHER = frozenset({"GPT2Attention", "ModernBertAttention", "MptAttention", "Phi3Attention"})
"""Those whose joint map has all queries, then all keys, then all values."""

CORES = 4
"""Into how many blocks CodeGen parts its joint map, each with queries, values and keys of a quarter of the heads."""


class HeadWeights(NamedTuple):
    """The four maps of one attention, head by head. Heads that share keys and values have the same ones."""

    query: Float[Tensor, "head d_k d_model"]
    key: Float[Tensor, "head d_k d_memory"]
    value: Float[Tensor, "head d_v d_memory"]
    output: Float[Tensor, "head d_v d_model"]


def head_weights(model: HuggingFaceModel) -> dict[Site, HeadWeights]:
    """The weights of each attention by site, in float64; without those whose maps have names that are not known here.

    Nothing is known of models whose attention is kept as they return it. Rotations by position (Llama) stand between
    queries and keys and are no part of these weights, nor are biases and norms.
    """
    found = {}
    names = {id(module): name for name, module in model.net.named_modules()}
    for site, module in model.attending().items():
        maps = _maps(model.net, names[id(module)], module)
        split = None if maps is None else _split(maps, module, model.net.config)
        if split is not None:
            found[site] = split
    return found


def _maps(net: nn.Module, name: str, module: nn.Module) -> tuple[Tensor, ...] | None:
    """Four matrices of (outputs, inputs), whichever way the family keeps them."""
    beside = dict(net.named_modules())
    holder = name.rpartition(".")[0]
    for names in SEPARATE:
        parts = [beside.get(f"{holder if '.' in one else name}.{one}") for one in names]
        if all(isinstance(part, nn.Linear) for part in parts):
            return tuple(part.weight for part in parts if isinstance(part, nn.Linear))
    for joined, written in JOINT:
        joint, output = (getattr(module, one, None) for one in (joined, written))
        if joint is not None and output is not None:
            turned = not isinstance(joint, nn.Linear)  # a Conv1D keeps inputs first
            weights = joint.weight.T if turned else joint.weight
            parted = _parted(weights, module)
            return None if parted is None else (*parted, output.weight.T if turned else output.weight)
    return None


def _parted(joint: Tensor, module: Any) -> tuple[Tensor, Tensor, Tensor] | None:
    """The rows of a joint map that make queries, keys and values, heads in their order, as the family splits them.

    None for a family that is not known here: sizes do not tell.
    """
    family, width, d_model = type(module).__name__, _width(module, module), joint.shape[1]
    if width is None:
        return None
    if family == "FalconAttention":
        groups = module.num_kv_heads if module.new_decoder_architecture or not module.multi_query else 1
        rows = joint.view(groups, -1, width, d_model)
        query, key, value = rows[:, :-2], rows[:, -2], rows[:, -1]
    elif family in HEAD_BY_HEAD or (family == "GPTBigCodeAttention" and not module.multi_query):
        query, key, value = joint.view(-1, 3, width, d_model).unbind(1)
    elif family == "CodeGenAttention":
        query, value, key = joint.view(CORES, 3, -1, d_model).unbind(1)
    elif family not in ONE_AFTER_THE_OTHER | {"GPTBigCodeAttention"}:
        return None
    else:
        shared = module.num_heads if family == "GPTBigCodeAttention" else getattr(module, "num_key_value_groups", 1)
        keys = len(joint) // (shared + 2)
        query, key, value = joint.split([shared * keys, keys, keys])
    return query.reshape(-1, d_model), key.reshape(-1, d_model), value.reshape(-1, d_model)


def _width(module: Any, config: Any) -> int | None:
    """How wide a head's queries are."""
    names = ("head_dim", "attention_head_size", "head_size", "key_value_proj_dim")
    found = next((size for one in names if (size := getattr(module, one, None))), None) or getattr(config, "d_kv", None)
    return found if isinstance(found, int) else None


def _split(maps: tuple[Tensor, ...], module: nn.Module, config: Any) -> HeadWeights | None:
    """The matrices head by head; None where their sizes say otherwise than the config."""
    d_head = _width(module, config)
    if d_head is None or any(len(one) % d_head for one in maps[:3]):
        return None
    query, key, value = (one.detach().double().unflatten(0, (-1, d_head)) for one in maps[:3])
    output = maps[3].detach().double().T.unflatten(0, (-1, d_head))
    shared = len(query) // max(1, len(key))
    if len(output) != len(query) or shared * len(key) != len(query) or len(key) != len(value):
        return None
    key, value = (torch.repeat_interleave(one, shared, dim=0) for one in (key, value))
    return HeadWeights(query, key, value, output)

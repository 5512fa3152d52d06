"""The forward passes of attention modules that families write out by themselves, with the softmax given away.

Each is called with its module, with `attend` (the fused attention that may be watched), and with what the family hands
its module. What is added to the scores goes beside the mask, so that each is kept in its own small form: ALiBi as one
number a head and key (Press et al. 2022), relative positions as diagonals.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from transformer.attention.masks_and_biases import PositionVectors, diagonals_of
from transformer.errors import CheckpointError

Attend = Callable[..., tuple[Tensor, None]]
"""From a module, queries, keys, values and a mask to heads side by side: (batch, query, head, d_v)."""

Forward = Callable[..., tuple[Tensor, None]]
"""A module's pass, after the module itself and what attends."""


def _by_head(made: Tensor, width: int) -> Tensor:
    """What a projection made, as (batch, head, position, width)."""
    return made.unflatten(-1, (-1, width)).transpose(1, 2)


def _with_past(layer: int | None, key: Tensor, value: Tensor, past: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of all that was read; the library's cache grows by the new ones."""
    own = getattr(past, "self_attention_cache", past)
    return (key, value) if own is None else own.update(key, value, layer)


def roformer(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    sinusoidal_pos: Tensor | None = None,
    past_key_values: Any = None,
    **others: Any,  # noqa: ARG001  (weights that are asked for)
) -> tuple[Tensor, None]:
    """RoFormer's, alone: queries and keys are turned, with `rotary_value` values too."""
    made = (module.query(hidden_states), module.key(hidden_states), module.value(hidden_states))
    parts = [_by_head(one, module.attention_head_size) for one in made]
    if sinusoidal_pos is not None:
        turned = parts if module.rotary_value else parts[:2]
        parts[: len(turned)] = module.apply_rotary_position_embeddings(sinusoidal_pos, *turned)
    query, (key, value) = parts[0], _with_past(module.layer_idx, parts[1], parts[2], past_key_values)
    output, _ = attend(module, query, key, value, attention_mask, is_causal=False)
    return output.flatten(2), None


def as_bert(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    encoder_hidden_states: Tensor | None = None,
    past_key_values: Any = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """BERT's own form, which several families wrote out again."""
    if encoder_hidden_states is not None:
        raise CheckpointError("attention_of_its_own", family=type(module).__name__)  # across stacks it stays eager
    made = (module.query(hidden_states), module.key(hidden_states), module.value(hidden_states))
    query, key, value = (_by_head(one, module.attention_head_size) for one in made)
    key, value = _with_past(module.layer_idx, key, value, past_key_values)
    output, _ = attend(module, query, key, value, attention_mask, is_causal=False)
    return output.flatten(2), None


def mpnet(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """MPNet's: a bias by distance, shared by all layers."""
    width = module.attention_head_size
    query, key, value = (_by_head(made(hidden_states), width) for made in (module.q, module.k, module.v))
    bias = None if position_bias is None else position_bias[:1]  # the library writes it out for each sentence
    output, _ = attend(module, query, key, value, attention_mask, is_causal=False, position_bias=bias)
    return module.o(output.flatten(2)), None


def as_bart(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    key_value_states: Tensor | None = None,
    past_key_values: Any = None,
    attention_mask: Tensor | None = None,
    attn_prompt: Any = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """BART's own form, to the text itself or to what an encoder made, which the library's cache keeps from then on."""
    if attn_prompt is not None:
        raise CheckpointError("attention_of_its_own", family=type(module).__name__)  # keys that are no tokens
    query = _by_head(module.q_proj(hidden_states), module.head_dim)
    read, layer = hidden_states if key_value_states is None else key_value_states, module.layer_idx
    crossed = None if key_value_states is None else getattr(past_key_values, "cross_attention_cache", None)
    if crossed is not None and past_key_values.is_updated.get(layer):
        key, value = crossed.layers[layer].keys, crossed.layers[layer].values
    else:
        key, value = (_by_head(made(read), module.head_dim) for made in (module.k_proj, module.v_proj))
        if crossed is not None:
            key, value = crossed.update(key, value, layer)
            past_key_values.is_updated[layer] = True
        elif key_value_states is None:
            key, value = _with_past(layer, key, value, past_key_values)
    output, _ = attend(module, query, key, value, attention_mask, is_causal=False)
    return module.out_proj(output.flatten(2)), None


def xlm(
    module: Any,
    attend: Attend,
    input: Tensor,  # noqa: A002  (the library's name for it)
    mask: Tensor,
    kv: Tensor | None = None,
    cache: Any = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """XLM's and FlauBERT's, alone: a mask that marks what is seen, of keys or cell by cell."""
    if kv is not None:
        raise CheckpointError("attention_of_its_own", family=type(module).__name__)
    made = (module.q_lin(input), module.k_lin(input), module.v_lin(input))
    query, key, value = (_by_head(one, module.head_dim) for one in made)
    key, value = _with_past(module.layer_id, key, value, cache)
    seen = (mask != 0)[:, None] if mask.dim() == 3 else (mask != 0)[:, None, None]
    output, _ = attend(module, query, key, value, seen.expand(-1, 1, query.shape[2], -1), is_causal=False)
    return module.out_lin(output.flatten(2)), None


def bloom(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    residual: Tensor,
    alibi: Tensor,
    attention_mask: Tensor | None,
    layer_past: Any = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """Bloom's: queries, keys and values of a head side by side, and ALiBi by the position of the key."""
    query, key, value = module._reshape(module.query_key_value(hidden_states))
    key, value = _with_past(module.layer_idx, key, value, layer_past)
    bias = alibi.unflatten(0, (-1, module.num_heads))
    output, _ = attend(
        module, query, key, value, attention_mask, scaling=module.inv_norm_factor, is_causal=False, position_bias=bias
    )
    return module.dense(output.flatten(2)) + residual, None


def falcon(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    alibi: Tensor | None,
    attention_mask: Tensor | None,
    position_ids: Tensor | None = None,  # noqa: ARG001  (what stands for them is below)
    layer_past: Any = None,
    use_cache: bool = False,  # noqa: ARG001
    output_attentions: bool = False,  # noqa: ARG001
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """Falcon's, in its three forms: a key a head, one for all, or one for each group; turned, or with ALiBi.

    With ALiBi the mask holds it already, scaled as the scores are.
    """
    from transformers.models.falcon.modeling_falcon import apply_rotary_pos_emb

    split = module._split_heads(module.query_key_value(hidden_states))
    query, key, value = (one.transpose(1, 2) for one in split)
    bias = None
    if alibi is not None and attention_mask is not None:
        bias = alibi * module.inv_norm_factor
        attention_mask = attention_mask[:, :1] > torch.finfo(attention_mask.dtype).min / 2
    elif position_embeddings is not None:
        query, key = apply_rotary_pos_emb(query, key, *position_embeddings)
    key, value = _with_past(module.layer_idx, key, value, layer_past)
    module.num_key_value_groups = query.shape[1] // key.shape[1]  # where the fused attention looks for it
    output, _ = attend(module, query, key, value, attention_mask, is_causal=False, position_bias=bias)
    return module.dense(output.flatten(2)), None


def mend(net: nn.Module) -> None:
    """Let Falcon's own eager attention add ALiBi once: the library's adds it twice, its fused one does not."""
    for module in net.modules():
        if type(module).__name__ == "FalconAttention":
            module.__dict__["forward"] = partial(_without_the_second, module.forward)


def _without_the_second(forward: Callable[..., Any], hidden_states: Tensor, alibi: Tensor | None, **others: Any) -> Any:
    return forward(hidden_states, alibi=None if alibi is None else torch.zeros_like(alibi), **others)


def mpt(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    position_bias: Tensor | None,
    past_key_values: Any = None,
    attention_mask: Tensor | None = None,
    **others: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """MPT's: projections that may be clipped, and ALiBi by how far the key lies from the end of the text."""
    joint = module.Wqkv(hidden_states)
    if module.clip_qkv:
        joint = joint.clamp(min=-module.clip_qkv, max=module.clip_qkv)
    query, key, value = (_by_head(one, module.head_dim) for one in joint.chunk(3, dim=2))
    key, value = _with_past(module.layer_idx, key, value, past_key_values)
    bias = None if position_bias is None else position_bias[None, :, -1:, -key.shape[2] :]
    seen = None if attention_mask is None else ~attention_mask
    output, _ = attend(
        module, query, key, value, seen, scaling=module.softmax_scale, is_causal=seen is None, position_bias=bias
    )
    return module.out_proj(output.flatten(2)), None


def deberta(
    module: Any,
    attend: Attend,
    hidden_states: Tensor,
    attention_mask: Tensor,
    output_attentions: bool = False,  # noqa: ARG001
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, None]:
    """DeBERTa's, all versions: queries and keys match each other, and vectors of how far they are apart."""
    if query_states is not None or getattr(module, "talking_head", False):
        raise CheckpointError("attention_of_its_own", family=type(module).__name__)
    first = hasattr(module, "in_proj")
    if first:
        made = _by_head(module.in_proj(hidden_states), 3 * module.attention_head_size)
        query, key, value = made.chunk(3, dim=-1)  # of a head side by side
        query = query + _by_head(module.q_bias[None, None], module.attention_head_size)
        value = value + _by_head(module.v_bias[None, None], module.attention_head_size)
    else:
        projections = (module.query_proj, module.key_proj, module.value_proj)
        query, key, value = (_by_head(project(hidden_states), module.attention_head_size) for project in projections)
    positions, parts = None, 1 + len({"c2p", "p2c"} & set(module.pos_att_type))
    if module.relative_attention and rel_embeddings is not None and relative_pos is not None and parts > 1:
        positions = _positions(module, first, query.shape[2], relative_pos, rel_embeddings)
    seen = attention_mask.bool().any(-2, keepdim=True).expand(-1, -1, query.shape[2], -1)
    scale = (query.shape[-1] * (1 + len(module.pos_att_type) if first else parts)) ** -0.5
    output, _ = attend(module, query, key, value, seen, scaling=scale, is_causal=False, positions=positions)
    return output.flatten(2), None


def _positions(
    module: Any, first: bool, length: int, relative_pos: Tensor, rel_embeddings: Tensor
) -> PositionVectors | None:
    """The vectors of relative positions, by the names that the first version gives them or the later ones."""
    if first:
        most, span = module.max_relative_positions, min(length, module.max_relative_positions)
        vectors, names = rel_embeddings[most - span : most + span], ("pos_proj", "pos_q_proj")
    else:
        span = module.pos_ebd_size
        shared = module.share_att_key
        vectors = rel_embeddings[: 2 * span]
        names = ("key_proj", "query_proj") if shared else ("pos_key_proj", "pos_query_proj")
    width, types = module.attention_head_size, module.pos_att_type
    keys = _by_head(getattr(module, names[0])(vectors)[None], width)[0] if "c2p" in types else None
    queries = _by_head(getattr(module, names[1])(vectors)[None], width)[0] if "p2c" in types else None
    apart = diagonals_of(relative_pos.reshape(relative_pos.shape[-2:]))
    return PositionVectors(keys, queries, (apart.long() + span).clamp(0, 2 * span - 1), length)


WHOLE: Final[dict[str, Forward]] = {
    "BloomAttention": bloom,
    "DisentangledSelfAttention": deberta,
    "FalconAttention": falcon,
    "MPNetSelfAttention": mpnet,
    "MptAttention": mpt,
    "MultiHeadAttention": xlm,
    "RoFormerSelfAttention": roformer,
    **dict.fromkeys(
        ("BigBirdSelfAttention", "MegatronBertSelfAttention", "RemBertSelfAttention", "TapasSelfAttention"), as_bert
    ),
    **dict.fromkeys(("MvpAttention", "NllbMoeAttention", "TrOCRAttention", "XGLMAttention"), as_bart),
}
"""Attention modules by class, whose whole forward pass is replaced: they have no method for the softmax alone."""

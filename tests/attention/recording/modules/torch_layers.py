"""PyTorch's own layers in all their settings: nn.MultiheadAttention alone, nn.Transformer, its encoder and decoder."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import CASES, Brute, Case, Sizes, causal, dots, joined, ready, split
from tests.attention.recording.modules.encoders import encoder_layer
from tests.attention.recording.modules.vision import decoder_layer


def alone(brute: Brute, m: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor) -> Tensor:
    """`nn.MultiheadAttention` with all that it may add, batch first; `added` is (batch, 1 or head, query, key)."""
    weights = (
        m.in_proj_weight.chunk(3)
        if m.in_proj_weight is not None
        else (m.q_proj_weight, m.k_proj_weight, m.v_proj_weight)
    )
    biases = m.in_proj_bias.chunk(3) if m.in_proj_bias is not None else (0.0, 0.0, 0.0)
    q, k, v = (t @ w.T + b for t, w, b in zip((q, k, v), weights, biases, strict=True))
    if m.bias_k is not None:
        k, v = (torch.cat([t, row.repeat(len(t), 1, 1)], 1) for t, row in ((k, m.bias_k), (v, m.bias_v)))
    if m.add_zero_attn:
        k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
    more = k.shape[1] - added.shape[3]
    heads = [split(t, m.num_heads) for t in (q, k, v)]
    return m.out_proj(
        joined(brute.mix("MultiheadAttention", dots(heads[0], heads[1]) + F.pad(added, (0, more)), heads[2]))
    )


def multihead(
    *,
    padding: str = "",
    mask: str = "",
    need: bool = True,
    average: bool = True,
    unbatched: bool = False,
    **options: Any,
) -> Callable[[Sizes], Case]:
    def build(s: Sizes) -> Case:
        kdim, vdim = options.get("kdim", 0) and s.d + 1, options.get("vdim", 0) and s.d + 3
        sizes = {name: size for name, size in (("kdim", kdim), ("vdim", vdim)) if size}
        first = options.get("batch_first", True)
        model = ready(nn.MultiheadAttention(s.d, s.heads, **(options | sizes | {"batch_first": first, "dropout": 0.1})))
        batch = 1 if unbatched else s.batch
        q, k, v = s.x[:batch], torch.randn(batch, s.keys, kdim or s.d), torch.randn(batch, s.keys, vdim or s.d)
        if not sizes:
            v = k
        added, padded, table = torch.zeros(batch, 1, s.queries, s.keys), None, None
        if padding:
            padded = torch.arange(s.keys)[None] >= torch.randint(3, s.keys, (batch, 1))
            added = added + torch.zeros(batch, 1, 1, s.keys).masked_fill(padded[:, None, None], -torch.inf)
            padded = torch.zeros(padded.shape).masked_fill(padded, -torch.inf) if padding == "float" else padded
        if mask:
            shape = (batch * s.heads, s.queries, s.keys) if mask == "3-d" else (s.queries, s.keys)
            hidden = torch.rand(shape) > 0.6
            hidden[..., 0] = False
            table = torch.randn(shape) if mask == "float" else hidden
            over = table if mask == "float" else torch.zeros(shape).masked_fill(hidden, -torch.inf)
            added = added + (over.view(batch, s.heads, s.queries, s.keys) if mask == "3-d" else over)

        def form(t: Tensor) -> Tensor:
            return t[0] if unbatched else t if first else t.transpose(0, 1)

        given = None if padded is None else padded[0] if unbatched else padded
        same = form(k)

        def reference(brute: Brute) -> Any:
            output = form(alone(brute, model, q, k, v, added))
            weights = brute.weights["MultiheadAttention"]
            weights = weights.mean(1) if average else weights
            return (output, weights[0] if unbatched else weights) if need else (output,)

        inputs = (form(q), same, same if not sizes else form(v), given, need, table, average)
        return Case(model, inputs, reference)

    return build


CASES |= {
    "multihead_attention": multihead(),
    "multihead_attention_positions_first": multihead(batch_first=False),
    "multihead_attention_without_weights": multihead(need=False, padding="bool"),
    "multihead_attention_weights_by_head": multihead(average=False, mask="bool"),
    "multihead_attention_zero_key": multihead(add_zero_attn=True, padding="bool"),
    "multihead_attention_learned_key": multihead(add_bias_kv=True, mask="bool"),
    "multihead_attention_both_keys": multihead(add_bias_kv=True, add_zero_attn=True, batch_first=False, need=False),
    "multihead_attention_other_widths": multihead(kdim=1, vdim=1, batch_first=False),
    "multihead_attention_no_bias": multihead(bias=False, need=False, mask="float"),
    "multihead_attention_masks_by_head": multihead(mask="3-d", padding="bool"),
    "multihead_attention_float_masks": multihead(mask="float", padding="float"),
    "multihead_attention_unbatched": multihead(unbatched=True, padding="bool"),
}


def transformer(
    *, batch_first: bool, norm_first: bool, padding: bool, is_causal: bool = False
) -> Callable[[Sizes], Case]:
    def build(s: Sizes) -> Case:
        model = nn.Transformer(s.d, s.heads, 2, 1, 2 * s.d + 1, batch_first=batch_first, norm_first=norm_first)
        model, x, y = ready(model), s.x, s.y
        pad = torch.arange(s.keys)[None] >= torch.randint(3, s.keys, (s.batch, 1)) if padding else None
        hidden = torch.zeros(s.batch, 1, 1, s.keys)
        hidden = hidden.masked_fill(pad[:, None, None], -torch.inf) if pad is not None else hidden

        def form(t: Tensor) -> Tensor:
            return t if batch_first else t.transpose(0, 1)

        def reference(brute: Brute) -> Tensor:
            memory = y
            for i, layer in enumerate(model.encoder.layers):
                memory = encoder_layer(brute, f"encoder.layers.{i}", layer, memory, hidden)
            memory = model.encoder.norm(memory)
            out = decoder_layer(
                brute, "decoder.layers.0", model.decoder.layers[0], x, memory, causal(s.queries), hidden
            )
            return form(model.decoder.norm(out))

        later = nn.Transformer.generate_square_subsequent_mask(s.queries)
        later = later.isinf() if padding else later
        inputs = (form(y), form(x), None, later, None, pad, None, pad, None, is_causal or None)
        return Case(model, inputs, reference, fused=True)

    return build


for batch_first, norm_first, padding in product((False, True), repeat=3):
    words = (
        "batch" if batch_first else "positions",
        "norm_first" if norm_first else "norm_last",
        "padded" if padding else "whole",
    )
    build = transformer(batch_first=batch_first, norm_first=norm_first, padding=padding, is_causal=norm_first)
    CASES["transformer_" + "_".join(words)] = build


def stack(*, norm_first: bool, nested: bool, mask: bool, training: bool) -> Callable[[Sizes], Case]:
    """`nn.TransformerEncoder`, whose fast path runs in eval without gradients."""

    def build(s: Sizes) -> Case:
        layer = nn.TransformerEncoderLayer(s.d, s.heads, 2 * s.d + 1, 0.0, batch_first=True, norm_first=norm_first)
        found = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        model, x = ready(found), s.x
        for parameter in model.parameters():
            parameter.requires_grad_(training)
        model.train(training)
        pad = torch.arange(s.queries)[None] >= torch.randint(3, s.queries, (s.batch, 1))
        pad[0] = False
        over = causal(s.queries) if mask else None
        hidden = torch.zeros(s.batch, 1, 1, s.queries).masked_fill(pad[:, None, None], -torch.inf)

        def reference(brute: Brute) -> Tensor:
            h = x
            for i, one in enumerate(model.layers):
                h = encoder_layer(brute, f"layers.{i}", one, h, hidden + (0.0 if over is None else over))
            return h

        return Case(model, (x, over.isinf() if over is not None else None, pad), reference, fused=True, padded=pad)

    return build


for norm_first, nested, mask, training in (
    (False, True, False, False),
    (False, False, True, False),
    (True, False, True, False),
    (False, False, False, True),
    (True, False, False, True),
):
    words = (
        "norm_first" if norm_first else "norm_last",
        "nested" if nested else "flat",
        "masked" if mask else "padded",
    )
    build = stack(norm_first=norm_first, nested=nested, mask=mask, training=training)
    CASES["_".join(("encoder", *words, "training" if training else "evaluating"))] = build

"""Encoders of texts and pictures in the words of their authors, and PyTorch's own layers in all their settings."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import (
    CASES,
    Brute,
    Case,
    Lambda,
    Sizes,
    Table,
    case,
    causal,
    dots,
    joined,
    linears,
    multi_head,
    ready,
    split,
)


def time_first(m: Any, query: Tensor, key: Tensor, key_padding_mask: Tensor) -> Tensor:
    """fairseq: positions first, (batch * heads, query, key), softmax in float and back."""
    tgt_len, bsz, embed_dim = query.size()
    head_dim = embed_dim // m.num_heads
    q = m.q_proj(query) * head_dim**-0.5
    q = q.contiguous().view(tgt_len, bsz * m.num_heads, head_dim).transpose(0, 1)
    k = m.k_proj(key).contiguous().view(-1, bsz * m.num_heads, head_dim).transpose(0, 1)
    v = m.v_proj(key).contiguous().view(-1, bsz * m.num_heads, head_dim).transpose(0, 1)
    weights = torch.bmm(q, k.transpose(1, 2)).view(bsz, m.num_heads, tgt_len, -1)
    weights = weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
    weights = F.softmax(weights.view(bsz * m.num_heads, tgt_len, -1), dim=-1).type_as(weights)
    attn = torch.bmm(F.dropout(weights, p=0.1, training=m.training), v)
    return m.out_proj(attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim))


@case
def time_first_heads_in_the_batch(s: Sizes) -> Case:
    parts = linears(s.d, "q_proj k_proj v_proj out_proj")
    model, x, y, padding = ready(Lambda(time_first, num_heads=s.heads, **parts)), s.x, s.y, s.padding(s.keys)

    def reference(brute: Brute) -> Tensor:
        q, k, v = (split(f(t), s.heads) for f, t in ((model.q_proj, x), (model.k_proj, y), (model.v_proj, y)))
        scores = dots(q, k).masked_fill(padding[:, None, None], -torch.inf)
        return model.out_proj(joined(brute.mix("Lambda", scores, v))).transpose(0, 1)

    return Case(model, (x.transpose(0, 1), y.transpose(0, 1), padding), reference, flat="batch")


@case
def latents_attend_twice(s: Sizes) -> Case:
    """Perceiver: latents attend to the inputs, then to themselves, in one module's forward."""

    def attend(*qkv: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (s.heads, -1)).transpose(1, 2) for t in qkv)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def perceive(m: Any, x: Tensor) -> Tensor:
        z = m.latents.w.unsqueeze(0).expand(x.shape[0], -1, -1)
        z = z + attend(m.to_q(z), *m.to_kv(x).chunk(2, dim=-1))
        return z + attend(*m.to_qkv(z).chunk(3, dim=-1))

    parts = linears(s.d, "to_q") | linears(s.d, "to_kv", 2 * s.d) | linears(s.d, "to_qkv", 3 * s.d)
    model, y = ready(Lambda(perceive, latents=Table(s.queries, s.d), **parts)), s.y

    def reference(brute: Brute) -> Tensor:
        z = model.latents.w[None].repeat(s.batch, 1, 1)
        k, v = (split(t, s.heads) for t in model.to_kv(y).chunk(2, -1))
        z = z + joined(brute.mix("Lambda#1", dots(split(model.to_q(z), s.heads), k), v))
        q, k, v = (split(t, s.heads) for t in model.to_qkv(z).chunk(3, -1))
        return z + joined(brute.mix("Lambda#2", dots(q, k), v))

    return Case(model, (y,), reference)


def fed(layer: Any, t: Tensor) -> Tensor:
    return layer.linear2(layer.linear1(t).clamp(min=0))


def encoder_layer(brute: Brute, site: str, layer: Any, x: Tensor, added: Any = 0.0) -> Tensor:
    """One `nn.TransformerEncoderLayer`, batch first, with its ReLU."""

    def own(t: Tensor) -> Tensor:
        return multi_head(brute, f"{site}.self_attn", layer.self_attn, t, t, added)

    if layer.norm_first:
        x = x + own(layer.norm1(x))
        return x + fed(layer, layer.norm2(x))
    x = layer.norm1(x + own(x))
    return layer.norm2(x + fed(layer, x))


def decoder_layer(brute: Brute, site: str, layer: Any, x: Tensor, memory: Tensor, own: Any, cross: Any = 0.0) -> Tensor:
    """One `nn.TransformerDecoderLayer`, batch first, with its ReLU."""

    def mixed(t: Tensor, kind: str) -> Tensor:
        to, added = (t, own) if kind == "self_attn" else (memory, cross)
        return multi_head(brute, f"{site}.{kind}", getattr(layer, kind), t, to, added)

    if layer.norm_first:
        x = x + mixed(layer.norm1(x), "self_attn")
        x = x + mixed(layer.norm2(x), "multihead_attn")
        return x + fed(layer, layer.norm3(x))
    x = layer.norm1(x + mixed(x, "self_attn"))
    x = layer.norm2(x + mixed(x, "multihead_attn"))
    return layer.norm3(x + fed(layer, x))


def alone(brute: Brute, m: Any, q: Tensor, k: Tensor, v: Tensor, added: Tensor) -> Tensor:
    """`nn.MultiheadAttention` with all that it may add, batch first; `added` is (batch, 1 or head, query, key)."""
    apart = (m.q_proj_weight, m.k_proj_weight, m.v_proj_weight)
    weights = apart if m.in_proj_weight is None else m.in_proj_weight.chunk(3)
    biases = m.in_proj_bias.chunk(3) if m.in_proj_bias is not None else (0.0, 0.0, 0.0)
    q, k, v = (t @ w.T + b for t, w, b in zip((q, k, v), weights, biases, strict=True))
    if m.bias_k is not None:
        k, v = (torch.cat([t, row.repeat(len(t), 1, 1)], 1) for t, row in ((k, m.bias_k), (v, m.bias_v)))
    if m.add_zero_attn:
        k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
    more = k.shape[1] - added.shape[3]
    q, k, v = (split(t, m.num_heads) for t in (q, k, v))
    return m.out_proj(joined(brute.mix("MultiheadAttention", dots(q, k) + F.pad(added, (0, more)), v)))


def multihead(
    *, padding: str = "", mask: str = "", need: bool = True, average: bool = True, unbatched: bool = False, **more: Any
) -> Callable[[Sizes], Case]:
    def build(s: Sizes) -> Case:
        kdim, vdim = more.get("kdim", 0) and s.d + 1, more.get("vdim", 0) and s.d + 3
        sizes = {name: size for name, size in (("kdim", kdim), ("vdim", vdim)) if size}
        first = more.get("batch_first", True)
        model = ready(nn.MultiheadAttention(s.d, s.heads, **(more | sizes | {"batch_first": first, "dropout": 0.1})))
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
    "multihead_attention_without_weights": multihead(need=False, padding="bool"),
    "multihead_attention_both_keys": multihead(add_bias_kv=True, add_zero_attn=True, batch_first=False, need=False),
    "multihead_attention_other_widths": multihead(kdim=1, vdim=1, batch_first=False),
    "multihead_attention_no_bias": multihead(bias=False, need=False, mask="float"),
    "multihead_attention_masks_by_head": multihead(mask="3-d", padding="bool"),
    "multihead_attention_float_masks": multihead(mask="float", padding="float"),
    "multihead_attention_unbatched": multihead(unbatched=True, padding="bool"),
}


def transformer(first: bool) -> Callable[[Sizes], Case]:
    """`nn.Transformer`: batch first, norm first and padded, or none of the three."""

    def build(s: Sizes) -> Case:
        model = ready(nn.Transformer(s.d, s.heads, 2, 1, 2 * s.d + 1, batch_first=first, norm_first=first))
        x, y = s.x, s.y
        pad = s.padding(s.keys) if first else None
        hidden = torch.zeros(s.batch, 1, 1, s.keys)
        hidden = hidden.masked_fill(pad[:, None, None], -torch.inf) if pad is not None else hidden

        def form(t: Tensor) -> Tensor:
            return t if first else t.transpose(0, 1)

        def reference(brute: Brute) -> Tensor:
            memory = y
            for i, layer in enumerate(model.encoder.layers):
                memory = encoder_layer(brute, f"encoder.layers.{i}", layer, memory, hidden)
            memory, layer = model.encoder.norm(memory), model.decoder.layers[0]
            out = decoder_layer(brute, "decoder.layers.0", layer, x, memory, causal(s.queries), hidden)
            return form(model.decoder.norm(out))

        later = nn.Transformer.generate_square_subsequent_mask(s.queries)
        inputs = (form(y), form(x), None, later.isinf() if first else later, None, pad, None, pad, None, first or None)
        return Case(model, inputs, reference)

    return build


CASES |= {"transformer_batch_first": transformer(True), "transformer_positions_first": transformer(False)}


def stack(*, norm_first: bool, nested: bool, mask: bool, training: bool) -> Callable[[Sizes], Case]:
    """`nn.TransformerEncoder`, whose fast path runs in eval without gradients."""

    def build(s: Sizes) -> Case:
        layer = nn.TransformerEncoderLayer(s.d, s.heads, 2 * s.d + 1, 0.0, batch_first=True, norm_first=norm_first)
        found = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)
        model, x = ready(found), s.x
        for parameter in model.parameters():
            parameter.requires_grad_(training)
        model.train(training)
        pad = s.padding(s.queries)
        pad[0] = False
        over = causal(s.queries) if mask else None
        hidden = torch.zeros(s.batch, 1, 1, s.queries).masked_fill(pad[:, None, None], -torch.inf)

        def reference(brute: Brute) -> Tensor:
            h = x
            for i, one in enumerate(model.layers):
                h = encoder_layer(brute, f"layers.{i}", one, h, hidden + (0.0 if over is None else over))
            return h

        return Case(model, (x, over.isinf() if over is not None else None, pad), reference, padded=pad)

    return build


CASES |= {
    "encoder_norm_last_nested_padded_evaluating": stack(norm_first=False, nested=True, mask=False, training=False),
    "encoder_norm_first_flat_masked_evaluating": stack(norm_first=True, nested=False, mask=True, training=False),
    "encoder_norm_last_flat_padded_training": stack(norm_first=False, nested=False, mask=False, training=True),
}

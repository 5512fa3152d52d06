"""PyTorch's own layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import CASES, Brute, Case, Sizes, case, causal, dots, joined, ready, split


def multi_head(brute: Brute, site: str, m: Any, q: Tensor, k: Tensor, added: Tensor) -> Tensor:
    """`nn.MultiheadAttention` with all that it may add, batch first; `added` goes onto the scores of the given keys."""
    biases = (0.0,) * 3 if m.in_proj_bias is None else m.in_proj_bias.chunk(3)
    q, k, v = (t @ w.T + b for t, w, b in zip((q, k, k), m.in_proj_weight.chunk(3), biases, strict=True))
    if m.bias_k is not None:
        k, v = (torch.cat([t, row.repeat(len(t), 1, 1)], 1) for t, row in ((k, m.bias_k), (v, m.bias_v)))
    if m.add_zero_attn:
        k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
    q, k, v = (split(t, m.num_heads) for t in (q, k, v))
    return m.out_proj(joined(brute.mix(site, dots(q, k) + F.pad(added, (0, k.shape[2] - added.shape[3])), v)))


def multihead(
    *, padding: bool = False, mask: str = "", need: bool = False, unbatched: bool = False, **more: Any
) -> Callable[[Sizes], Case]:
    """`nn.MultiheadAttention` alone; a mask is of numbers, or hides cells of each head ("by head")."""

    def build(s: Sizes) -> Case:
        model = ready(nn.MultiheadAttention(s.d, s.heads, batch_first=True, dropout=0.1, **more))
        batch = 1 if unbatched else s.batch
        q, k, added, padded, table = s.x[:batch], s.y[:batch], torch.zeros(batch, 1, s.queries, s.keys), None, None
        if padding:
            padded = s.padding(s.keys)[:batch]
            added = added.masked_fill(padded[:, None, None], -torch.inf)
        if mask == "numbers":
            table = torch.randn(s.queries, s.keys)
            added = added + table
        elif mask:
            table = torch.rand(batch * s.heads, s.queries, s.keys) > 0.6
            table[..., 0] = False
            added = added.masked_fill(table.view(batch, s.heads, s.queries, s.keys), -torch.inf)

        def form(t: Any) -> Any:
            return t[0] if unbatched and t is not None else t

        def reference(brute: Brute) -> Any:
            output = form(multi_head(brute, "MultiheadAttention", model, q, k, added))
            return (output, form(brute.weights["MultiheadAttention"].mean(1))) if need else (output,)

        return Case(model, (form(q), form(k), form(k), form(padded), need, table), reference)

    return build


CASES |= {
    "multihead_attention": multihead(need=True),
    "multihead_attention_more_keys": multihead(add_bias_kv=True, add_zero_attn=True, padding=True),
    "multihead_attention_masks_by_head": multihead(mask="by head", padding=True, need=True),
    "multihead_attention_fused_masks_by_head": multihead(mask="by head", padding=True),
    "multihead_attention_no_bias": multihead(mask="numbers", bias=False),
    "multihead_attention_float_mask": multihead(mask="numbers", padding=True),
    "multihead_attention_unbatched": multihead(unbatched=True, padding=True, need=True),
}


def fed(layer: Any, t: Tensor) -> Tensor:
    return layer.linear2(layer.linear1(t).clamp(min=0))


@case
def transformer(s: Sizes) -> Case:
    """`nn.Transformer`, norm first, of a padded source."""
    model = ready(nn.Transformer(s.d, s.heads, 2, 1, 2 * s.d + 1, batch_first=True, norm_first=True))
    x, y, pad = s.x, s.y, s.padding(s.keys)
    hidden = torch.zeros(s.batch, 1, 1, s.keys).masked_fill(pad[:, None, None], -torch.inf)

    def reference(brute: Brute) -> Tensor:
        memory = y
        for i, layer in enumerate(model.encoder.layers):
            t = layer.norm1(memory)
            memory = memory + multi_head(brute, f"encoder.layers.{i}.self_attn", layer.self_attn, t, t, hidden)
            memory = memory + fed(layer, layer.norm2(memory))
        memory, layer = model.encoder.norm(memory), model.decoder.layers[0]
        t = layer.norm1(x)
        h = x + multi_head(brute, "decoder.layers.0.self_attn", layer.self_attn, t, t, causal(s.queries)[None, None])
        t = layer.norm2(h)
        h = h + multi_head(brute, "decoder.layers.0.multihead_attn", layer.multihead_attn, t, memory, hidden)
        return model.decoder.norm(h + fed(layer, layer.norm3(h)))

    later = nn.Transformer.generate_square_subsequent_mask(s.queries).isinf()
    return Case(model, (y, x, None, later, None, pad, None, pad, None, True), reference)


@case
def encoder_with_a_fast_path(s: Sizes) -> Case:
    """`nn.TransformerEncoder`, norm last, whose fast path with nested tensors runs in eval without gradients."""
    layer = nn.TransformerEncoderLayer(s.d, s.heads, 2 * s.d + 1, 0.0, batch_first=True)
    model, x, pad = ready(nn.TransformerEncoder(layer, 2)).requires_grad_(False), s.x, s.padding(s.queries)
    pad[0] = False
    hidden = torch.zeros(s.batch, 1, 1, s.queries).masked_fill(pad[:, None, None], -torch.inf)

    def reference(brute: Brute) -> Tensor:
        h = x
        for i, one in enumerate(model.layers):
            h = one.norm1(h + multi_head(brute, f"layers.{i}.self_attn", one.self_attn, h, h, hidden))
            h = one.norm2(h + fed(one, h))
        return h

    return Case(model, (x, None, pad), reference, padded=pad)

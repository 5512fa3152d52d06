"""Encoders: the Annotated Transformer, d2l.ai, BERT, fairseq, shared layers, Perceiver, PyTorch's own layers."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, causal, dots, joined, multi_head, ready, split


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, dropout: Any = None) -> tuple[Tensor, Tensor]:
    """The function of The Annotated Transformer."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, v), p_attn


class Annotated(nn.Module):
    def __init__(self, h: int, d: int) -> None:
        super().__init__()
        self.d_k, self.h, self.dropout = d // h, h, nn.Dropout(p=0.1)
        self.attn: Tensor | None = None
        self.linears = nn.ModuleList(nn.Linear(d, d) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Any = None) -> Tensor:
        q, k, v = (
            lin(x).view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, self.attn = attention(q, k, v, mask=mask, dropout=self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(x.size(0), -1, self.h * self.d_k))


class AnnotatedPair(nn.Module):
    def __init__(self, h: int, d: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        self.encoder["self_attn"] = Annotated(h, d)
        self.decoder["self_attn"], self.decoder["src_attn"] = Annotated(h, d), Annotated(h, d)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        m = src + self.encoder["self_attn"](src, src, src, src_mask)
        x = tgt + self.decoder["self_attn"](tgt, tgt, tgt, tgt_mask)
        return x + self.decoder["src_attn"](x, m, m, src_mask)


@case
def annotated_transformer(s: Sizes) -> Case:
    model, x, y = ready(AnnotatedPair(s.heads, s.d)), s.x, s.y
    real = torch.rand(s.batch, 1, 1, s.keys) > 0.3
    real[..., 0] = True
    past = torch.tril(torch.ones(1, 1, s.queries, s.queries))

    def of(brute: Brute, site: str, a: Any, q: Tensor, k: Tensor, added: Tensor) -> Tensor:
        parts = [split(lin(t), s.heads) for lin, t in zip(a.linears, (q, k, k), strict=False)]
        return a.linears[3](joined(brute.mix(site, dots(parts[0], parts[1]) + added, parts[2])))

    def reference(brute: Brute) -> Tensor:
        hidden = torch.where(real, 0.0, -torch.inf)
        m = y + of(brute, "encoder.self_attn", model.encoder["self_attn"], y, y, hidden)
        t = x + of(brute, "decoder.self_attn", model.decoder["self_attn"], x, x, causal(s.queries))
        return t + of(brute, "decoder.src_attn", model.decoder["src_attn"], t, m, hidden)

    return Case(model, (y, x, real, past), reference)


class MaskedDots(nn.Module):
    """Dive into Deep Learning: lengths, -1e6, heads inside the batch."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, valid_lens: Tensor) -> Tensor:
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        shape = scores.shape
        scores = scores.reshape(-1, shape[-1])
        lens = torch.repeat_interleave(valid_lens, shape[1])
        scores[~(torch.arange(shape[-1])[None, :] < lens[:, None])] = -1e6
        self.attention_weights = F.softmax(scores.reshape(shape), dim=-1)
        return torch.bmm(self.attention_weights, v)


class DiveIn(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.num_heads, self.attention = heads, MaskedDots()
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def transpose_qkv(self, x: Tensor) -> Tensor:
        x = x.reshape(x.shape[0], x.shape[1], self.num_heads, -1).permute(0, 2, 1, 3)
        return x.reshape(-1, x.shape[2], x.shape[3])

    def forward(self, x: Tensor, y: Tensor, valid_lens: Tensor) -> Tensor:
        q, k, v = self.transpose_qkv(self.W_q(x)), self.transpose_qkv(self.W_k(y)), self.transpose_qkv(self.W_v(y))
        out = self.attention(q, k, v, torch.repeat_interleave(valid_lens, self.num_heads, dim=0))
        out = out.reshape(-1, self.num_heads, out.shape[1], out.shape[2]).permute(0, 2, 1, 3)
        return self.W_o(out.reshape(out.shape[0], out.shape[1], -1))


@case
def dive_into_deep_learning(s: Sizes) -> Case:
    model, x, y, lens = ready(DiveIn(s.d, s.heads)), s.x, s.y, torch.randint(2, s.keys, (s.batch,))

    def reference(brute: Brute) -> Tensor:
        q, k, v = (split(w(t), s.heads) for w, t in ((model.W_q, x), (model.W_k, y), (model.W_v, y)))
        hidden = torch.zeros(s.batch, 1, 1, s.keys)
        for b in range(s.batch):
            hidden[b, ..., lens[b] :] = -torch.inf
        return model.W_o(joined(brute.mix("attention", dots(q, k) + hidden, v)))

    return Case(model, (x, y, lens), reference, flat="batch")


class BertSelf(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.heads, self.dropout = heads, nn.Dropout(0.1)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        return x.view(*x.size()[:-1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.transpose_for_scores(f(x)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + mask
        context = torch.matmul(self.dropout(nn.Softmax(dim=-1)(scores)), v).permute(0, 2, 1, 3).contiguous()
        return context.view(*context.size()[:-2], -1)


class BertLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": BertSelf(d, heads), "output": nn.Linear(d, d)})
        self.norm = nn.LayerNorm(d)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.norm(x + self.attention["output"](self.attention["self"](x, mask)))


class Shared(nn.Module):
    """ALBERT: one layer, called several times."""

    def __init__(self, d: int, heads: int, times: int) -> None:
        super().__init__()
        self.layer, self.times = BertLayer(d, heads), times

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        mask = (1.0 - real[:, None, None, :].to(x.dtype)) * -10000.0
        for _ in range(self.times):
            x = self.layer(x, mask)
        return x


def bert(s: Sizes, times: int) -> Case:
    model, x, real = ready(Shared(s.d, s.heads, times)), s.x, torch.rand(s.batch, s.queries) > 0.3
    real[:, 0] = True
    a = model.layer.attention["self"]

    def reference(brute: Brute) -> Tensor:
        h = x
        for i in range(times):
            q, k, v = (split(f(h), s.heads) for f in (a.query, a.key, a.value))
            scores = dots(q, k) + torch.where(real, 0.0, -torch.inf)[:, None, None]
            name = "layer.attention.self" + (f"#{i + 1}" if times > 1 else "")
            h = model.layer.norm(h + model.layer.attention["output"](joined(brute.mix(name, scores, v))))
        return h

    return Case(model, (x, real), reference)


@case
def bert_with_an_added_mask(s: Sizes) -> Case:
    return bert(s, 1)


@case
def one_layer_called_three_times(s: Sizes) -> Case:
    return bert(s, 3)


class TimeFirst(nn.Module):
    """fairseq: positions first, (batch * heads, query, key), softmax in float and back."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))
        self.num_heads, self.head_dim, self.scaling = heads, d // heads, (d // heads) ** -0.5

    def forward(self, query: Tensor, key: Tensor, key_padding_mask: Tensor) -> Tensor:
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = self.k_proj(key).contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = self.v_proj(key).contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        weights = torch.bmm(q, k.transpose(1, 2)).view(bsz, self.num_heads, tgt_len, -1)
        weights = weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
        weights = F.softmax(weights.view(bsz * self.num_heads, tgt_len, -1), dim=-1).type_as(weights)
        attn = torch.bmm(F.dropout(weights, p=0.1, training=self.training), v)
        return self.out_proj(attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim))


@case
def time_first_heads_in_the_batch(s: Sizes) -> Case:
    model, x, y = ready(TimeFirst(s.d, s.heads)), s.x, s.y
    padding = torch.arange(s.keys)[None] >= torch.randint(3, s.keys + 1, (s.batch, 1))

    def reference(brute: Brute) -> Tensor:
        q, k, v = (split(f(t), s.heads) for f, t in ((model.q_proj, x), (model.k_proj, y), (model.v_proj, y)))
        scores = dots(q, k).masked_fill(padding[:, None, None], -torch.inf)
        return model.out_proj(joined(brute.mix("TimeFirst", scores, v))).transpose(0, 1)

    return Case(model, (x.transpose(0, 1), y.transpose(0, 1), padding), reference, flat="batch")


class Perceiver(nn.Module):
    """Latents attend to the inputs, then to themselves, in one module's forward."""

    def __init__(self, d: int, heads: int, latents: int) -> None:
        super().__init__()
        self.latents, self.heads = nn.Parameter(torch.randn(latents, d)), heads
        self.to_q, self.to_kv, self.to_qkv = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, 3 * d)

    def forward(self, x: Tensor) -> Tensor:
        z = self.latents.unsqueeze(0).expand(x.shape[0], -1, -1)
        z = z + self.attend(self.to_q(z), *self.to_kv(x).chunk(2, dim=-1))
        return z + self.attend(*self.to_qkv(z).chunk(3, dim=-1))

    def attend(self, *qkv: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@case
def latents_attend_twice(s: Sizes) -> Case:
    model, y = ready(Perceiver(s.d, s.heads, s.queries)), s.y

    def reference(brute: Brute) -> Tensor:
        z = model.latents[None].repeat(s.batch, 1, 1)
        k, v = (split(t, s.heads) for t in model.to_kv(y).chunk(2, -1))
        z = z + joined(brute.mix("Perceiver#1", dots(split(model.to_q(z), s.heads), k), v))
        q, k, v = (split(t, s.heads) for t in model.to_qkv(z).chunk(3, -1))
        return z + joined(brute.mix("Perceiver#2", dots(q, k), v))

    return Case(model, (y,), reference, fused=True)


class ConvStem(nn.Module):
    """Genomics: convolution, class token, PyTorch's encoder, a classifier on the token."""

    def __init__(self, d: int, heads: int, norm_first: bool) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv1d(4, d, 3, padding=1), nn.BatchNorm1d(d)
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d + 1, norm_first=norm_first, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.fc = nn.Linear(d, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn(self.conv(x)).transpose(1, 2)
        return self.fc(self.encoder(torch.cat([self.cls.expand(len(h), -1, -1), h], 1))[:, 0])


def encoder_layer(brute: Brute, site: str, layer: Any, x: Tensor, added: Any = 0.0) -> Tensor:
    """One `nn.TransformerEncoderLayer`, batch first, with its ReLU."""

    def own(t: Tensor) -> Tensor:
        return multi_head(brute, f"{site}.self_attn", layer.self_attn, t, t, added)

    def feed(t: Tensor) -> Tensor:
        return layer.linear2(layer.linear1(t).clamp(min=0))

    if layer.norm_first:
        x = x + own(layer.norm1(x))
        return x + feed(layer.norm2(x))
    x = layer.norm1(x + own(x))
    return layer.norm2(x + feed(x))


def conv_stem(s: Sizes, norm_first: bool) -> Case:
    model, x = ready(ConvStem(s.d, s.heads, norm_first)), torch.randn(s.batch, 4, s.queries)

    def reference(brute: Brute) -> Tensor:
        h = torch.cat([model.cls.repeat(s.batch, 1, 1), model.bn(model.conv(x)).transpose(1, 2)], 1)
        for i, layer in enumerate(model.encoder.layers):
            h = encoder_layer(brute, f"encoder.layers.{i}", layer, h)
        last: Any = model.encoder.norm
        return model.fc(last(h)[:, 0])

    return Case(model, (x,), reference, fused=True)


@case
def convolution_class_token_encoder(s: Sizes) -> Case:
    return conv_stem(s, norm_first=False)


@case
def convolution_class_token_encoder_norm_first(s: Sizes) -> Case:
    return conv_stem(s, norm_first=True)


class Graph(nn.Module):
    """Graph attention (Veličković et al. 2018) on a dense adjacency, additive scores by broadcasting."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.W, self.heads = nn.Linear(d, d, bias=False), heads
        self.a_src, self.a_dst = (
            nn.Parameter(torch.randn(heads, d // heads)),
            nn.Parameter(torch.randn(heads, d // heads)),
        )

    def forward(self, h: Tensor, adj: Tensor) -> Tensor:
        g = self.W(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        e = F.leaky_relu(
            (g * self.a_src[:, None]).sum(-1).unsqueeze(-1) + (g * self.a_dst[:, None]).sum(-1).unsqueeze(-2)
        )
        alpha = torch.softmax(torch.where(adj[:, None] > 0, e, torch.full_like(e, -9e15)), dim=-1)
        return F.elu(torch.matmul(alpha, g)).transpose(1, 2).flatten(2)


@case
def graph_attention(s: Sizes) -> Case:
    model, x = ready(Graph(s.d, s.heads)), s.x
    adj = (torch.rand(s.batch, s.queries, s.queries) > 0.4).double() + torch.eye(s.queries)

    def reference(brute: Brute) -> Tensor:
        g = split(model.W(x), s.heads)
        src, dst = torch.einsum("bhnd,hd->bhn", g, model.a_src), torch.einsum("bhnd,hd->bhn", g, model.a_dst)
        e = src[..., :, None] + dst[..., None, :]
        e = torch.where(e > 0, e, 0.01 * e).masked_fill(adj[:, None] == 0, -torch.inf)
        mixed = brute.mix("Graph", e, g)
        return joined(torch.where(mixed > 0, mixed, mixed.exp() - 1))

    return Case(model, (x, adj), reference)

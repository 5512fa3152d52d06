"""Attention over pixels and patches: Vision Transformers, windows, channels-first self-attention, image encoders."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, causal, dots, joined, multi_head, ready, split


class PatchAttention(nn.Module):
    def __init__(self, d: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.qkv, self.proj, self.num_heads, self.fused = nn.Linear(d, 3 * d), nn.Linear(d, d), heads, fused
        self.q_norm, self.scale = nn.LayerNorm(d // heads), (d // heads) ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        q = self.q_norm(q)
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            x = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class PatchTransformer(nn.Module):
    """A Vision Transformer in timm's style: fused projection, class token, position table."""

    def __init__(self, d: int, heads: int, places: int) -> None:
        super().__init__()
        self.patch_embed, self.cls_token = nn.Conv2d(3, d, 3, stride=3), nn.Parameter(torch.randn(1, 1, d))
        self.pos_embed = nn.Parameter(torch.randn(1, places + 1, d))
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm1": nn.LayerNorm(d), "attn": PatchAttention(d, heads, fused=i == 0)}) for i in range(2)
        )
        self.head = nn.Linear(d, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patch_embed(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = x + block["attn"](block["norm1"](x))
        return self.head(x[:, 0])


@case
def vision_transformer(s: Sizes) -> Case:
    model, image = ready(PatchTransformer(s.d, s.heads, 6)), torch.randn(s.batch, 3, 6, 9)

    def reference(brute: Brute) -> Tensor:
        patches = [model.patch_embed(image)[:, :, i, j] for i in range(2) for j in range(3)]
        x = torch.stack([model.cls_token[0].repeat(s.batch, 1), *patches], 1) + model.pos_embed
        for i, block in enumerate(model.blocks):
            q, k, v = (split(t, s.heads) for t in block["attn"].qkv(block["norm1"](x)).chunk(3, -1))
            mixed = brute.mix(f"blocks.{i}.attn", dots(block["attn"].q_norm(q), k), v)
            x = x + block["attn"].proj(joined(mixed))
        return model.head(x[:, 0])

    return Case(model, (image,), reference)


class Windows(nn.Module):
    """A Swin block: windows, shifted by half a window with a mask, a table of relative positions."""

    def __init__(self, d: int, heads: int, width: int, shift: int) -> None:
        super().__init__()
        self.qkv, self.proj, self.heads, self.width, self.shift = (
            nn.Linear(d, 3 * d),
            nn.Linear(d, d),
            heads,
            width,
            shift,
        )
        self.table = nn.Parameter(torch.randn((2 * width - 1) ** 2, heads))

    def index(self) -> Tensor:
        places = torch.stack(torch.meshgrid(torch.arange(self.width), torch.arange(self.width), indexing="ij")).flatten(
            1
        )
        apart = places[:, :, None] - places[:, None, :] + self.width - 1
        return apart[0] * (2 * self.width - 1) + apart[1]

    def windows(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.width, self.width, w // self.width, self.width, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.width**2, c)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        regions = torch.zeros(1, h, w, 1)
        cuts = (slice(0, -self.width), slice(-self.width, -self.shift), slice(-self.shift, None))
        for i, rows in enumerate(cuts):
            for j, columns in enumerate(cuts):
                regions[:, rows, columns] = 3 * i + j
        regions = self.windows(regions).squeeze(-1)
        mask = (regions.unsqueeze(1) != regions.unsqueeze(2)).double() * -100.0
        parts = self.windows(torch.roll(x, (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(parts).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attn = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        attn = attn + self.table[self.index().view(-1)].view(self.width**2, self.width**2, -1).permute(2, 0, 1)
        attn = attn.view(b, -1, self.heads, *attn.shape[2:]) + mask.unsqueeze(1).unsqueeze(0)
        attn = F.softmax(attn.view(-1, self.heads, *attn.shape[3:]), dim=-1)
        y = self.proj((attn @ v).transpose(1, 2).reshape(-1, self.width**2, c))
        y = y.view(b, h // self.width, w // self.width, self.width, self.width, c).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(y.reshape(b, h, w, c), (self.shift, self.shift), (1, 2))


@case
def shifted_windows(s: Sizes) -> Case:
    width, high, wide = 3, 6, 9
    model, x = ready(Windows(s.d, s.heads, width, 1)), torch.randn(s.batch, high, wide, s.d)

    def zone(place: int, size: int) -> int:
        return int(place >= size - width) + int(place >= size - 1)

    def reference(brute: Brute) -> Tensor:
        moved = {(i, j): ((i + 1) % high, (j + 1) % wide) for i in range(high) for j in range(wide)}
        windows = [
            [(a + i, b + j) for i in range(width) for j in range(width)]
            for a in range(0, high, width)
            for b in range(0, wide, width)
        ]
        many, biases = [], []
        for window in windows:  # a place sees those of its window that were its neighbours before the shift
            many.append(torch.stack([x[:, moved[place][0], moved[place][1]] for place in window], 1))
            bias = torch.zeros(1, s.heads, width**2, width**2)
            for row, (a, b) in enumerate(window):
                for column, (c, d) in enumerate(window):
                    bias[0, :, row, column] = model.table[(a - c + width - 1) * (2 * width - 1) + b - d + width - 1]
                    zones = [zone(i, high) + 3 * zone(j, wide) for i, j in ((a, b), (c, d))]
                    bias[0, :, row, column] += -100.0 * (zones[0] != zones[1])
            biases.append(bias)
        h = torch.stack(many, 1).flatten(0, 1)
        q, k, v = (split(t, s.heads) for t in model.qkv(h).chunk(3, -1))
        y = model.proj(joined(brute.mix("Windows", dots(q, k) + torch.cat(biases).repeat(s.batch, 1, 1, 1), v)))
        y, out = y.unflatten(0, (s.batch, -1)), torch.zeros_like(x)
        for i, window in enumerate(windows):
            for p, place in enumerate(window):
                out[:, moved[place][0], moved[place][1]] = y[:, i, p]
        return out

    return Case(model, (x,), reference)


class ChannelsFirst(nn.Module):
    """SAGAN: queries and keys by 1x1 convolutions, values on the left of the product."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query_conv, self.key_conv = nn.Conv2d(channels, channels // 2, 1), nn.Conv2d(channels, channels // 2, 1)
        self.value_conv, self.gamma, self.softmax = (
            nn.Conv2d(channels, channels, 1),
            nn.Parameter(torch.ones(1)),
            nn.Softmax(dim=-1),
        )

    def forward(self, x: Tensor) -> Tensor:
        b, c, w, h = x.size()
        query = self.query_conv(x).view(b, -1, w * h).permute(0, 2, 1)
        attention = self.softmax(torch.bmm(query, self.key_conv(x).view(b, -1, w * h)))
        out = torch.bmm(self.value_conv(x).view(b, -1, w * h), attention.permute(0, 2, 1))
        return self.gamma * out.view(b, c, w, h) + x


@case
def values_on_the_left(s: Sizes) -> Case:
    model, x = ready(ChannelsFirst(s.d)), torch.randn(s.batch, s.d, 3, 5) * 0.2

    def reference(brute: Brute) -> Tensor:
        q, k, v = (
            f(x).flatten(2).transpose(1, 2)[:, None] for f in (model.query_conv, model.key_conv, model.value_conv)
        )
        mixed = brute.mix("ChannelsFirst", dots(q, k, 1.0), v)
        return model.gamma * mixed[:, 0].transpose(1, 2).reshape(x.shape) + x

    return Case(model, (x,), reference)


class NonLocal(nn.Module):
    """Wang et al. 2018, embedded Gaussian, keys and values pooled to fewer places."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.theta, self.g, self.W = (nn.Conv2d(channels, channels, 1) for _ in range(3))
        self.phi, self.pool = nn.Conv2d(channels, channels, 1), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        b, c = x.shape[:2]
        g_x = self.pool(self.g(x)).view(b, c, -1).permute(0, 2, 1)
        f = torch.matmul(self.theta(x).view(b, c, -1).permute(0, 2, 1), self.pool(self.phi(x)).view(b, c, -1))
        y = torch.matmul(F.softmax(f, dim=-1), g_x).permute(0, 2, 1).contiguous()
        return self.W(y.view(b, c, *x.shape[2:])) + x


@case
def non_local_block(s: Sizes) -> Case:
    model, x = ready(NonLocal(s.d)), torch.randn(s.batch, s.d, 4, 6) * 0.2

    def reference(brute: Brute) -> Tensor:
        def rows(t: Tensor) -> Tensor:
            return t.flatten(2).transpose(1, 2)[:, None]

        k, v = rows(model.pool(model.phi(x))), rows(model.pool(model.g(x)))
        mixed = brute.mix("NonLocal", dots(rows(model.theta(x)), k, 1.0), v)[:, 0]
        return model.W(mixed.transpose(1, 2).reshape(x.shape)) + x

    return Case(model, (x,), reference)


class GlobalContext(nn.Module):
    """GCNet: one softmax over all pixels pools them to one vector, which is added everywhere."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_mask, self.add = nn.Conv2d(channels, 1, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.size()
        mask = self.conv_mask(x).view(b, 1, h * w).softmax(dim=2).unsqueeze(-1)
        return x + self.add(torch.matmul(x.view(b, c, h * w).unsqueeze(1), mask).view(b, c, 1, 1))


@case
def pixels_pooled_to_one(s: Sizes) -> Case:
    model, x = ready(GlobalContext(s.d)), torch.randn(s.batch, s.d, 3, 5)

    def reference(brute: Brute) -> Tensor:
        pixels = x.flatten(2).transpose(1, 2)
        scores = (pixels @ model.conv_mask.weight[0, :, 0, 0] + model.conv_mask.bias)[:, None, None]
        return x + model.add(brute.mix("GlobalContext", scores, pixels[:, None])[:, 0, 0, :, None, None])

    return Case(model, (x,), reference)


class Captioner(nn.Module):
    """A CNN whose regions are the memory of PyTorch's Transformer decoder."""

    def __init__(self, vocab: int, d: int, heads: int) -> None:
        super().__init__()
        self.cnn, self.embed, self.fc = nn.Conv2d(3, d, 3, stride=3), nn.Embedding(vocab, d), nn.Linear(d, vocab)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, heads, 2 * d + 1, batch_first=True), 2)

    def forward(self, image: Tensor, words: Tensor) -> Tensor:
        memory = self.cnn(image).flatten(2).permute(0, 2, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.fc(self.decoder(self.embed(words), memory, tgt_mask=mask))


def decoder_layer(brute: Brute, site: str, layer: Any, x: Tensor, memory: Tensor, own: Any, cross: Any = 0.0) -> Tensor:
    """One `nn.TransformerDecoderLayer`, batch first, with its ReLU."""

    def mixed(t: Tensor, kind: str) -> Tensor:
        to, added = (t, own) if kind == "self_attn" else (memory, cross)
        return multi_head(brute, f"{site}.{kind}", getattr(layer, kind), t, to, added)

    def feed(t: Tensor) -> Tensor:
        return layer.linear2(layer.linear1(t).clamp(min=0))

    if layer.norm_first:
        x = x + mixed(layer.norm1(x), "self_attn")
        x = x + mixed(layer.norm2(x), "multihead_attn")
        return x + feed(layer.norm3(x))
    x = layer.norm1(x + mixed(x, "self_attn"))
    x = layer.norm2(x + mixed(x, "multihead_attn"))
    return layer.norm3(x + feed(x))


@case
def captions_with_a_transformer(s: Sizes) -> Case:
    model, words, image = ready(Captioner(s.vocab, s.d, s.heads)), s.ids, torch.randn(s.batch, 3, 6, 12)

    def reference(brute: Brute) -> Tensor:
        memory = model.cnn(image).flatten(2).transpose(1, 2)
        x = model.embed.weight[words]
        for i, layer in enumerate(model.decoder.layers):
            x = decoder_layer(brute, f"decoder.layers.{i}", layer, x, memory, causal(s.queries))
        return model.fc(x)

    return Case(model, (image, words), reference, fused=True)


class Detector(nn.Module):
    """DETR's decoder: learned object queries; positions are added to queries and keys, not to values."""

    def __init__(self, d: int, heads: int, objects: int) -> None:
        super().__init__()
        self.query_embed, self.pos = nn.Embedding(objects, d), nn.Parameter(torch.randn(1, 64, d))
        self.self_attn = nn.MultiheadAttention(d, heads, batch_first=True, dropout=0.1)
        self.multihead_attn = nn.MultiheadAttention(d, heads, batch_first=True, dropout=0.1)

    def forward(self, memory: Tensor) -> Tensor:
        places = self.query_embed.weight.unsqueeze(0).repeat(len(memory), 1, 1)
        tgt = torch.zeros_like(places)
        tgt = tgt + self.self_attn(tgt + places, tgt + places, value=tgt + 1)[0]
        keys = memory + self.pos[:, : memory.shape[1]]
        return tgt + self.multihead_attn(query=tgt + places, key=keys, value=memory, need_weights=False)[0]


@case
def object_queries(s: Sizes) -> Case:
    model, y = ready(Detector(s.d, s.heads, s.queries)), s.y

    def reference(brute: Brute) -> Tensor:
        def mixed(name: str, *qkv: Tensor) -> Tensor:
            m = getattr(model, name)
            rows = zip(qkv, m.in_proj_weight.chunk(3), m.in_proj_bias.chunk(3), strict=True)
            q, k, v = (split(t @ w.T + b, s.heads) for t, w, b in rows)
            return m.out_proj(joined(brute.mix(name, dots(q, k), v)))

        places = model.query_embed.weight[None].repeat(s.batch, 1, 1)
        tgt = mixed("self_attn", places, places, torch.ones_like(places))
        return tgt + mixed("multihead_attn", tgt + places, y + model.pos[:, : s.keys], y)

    return Case(model, (y,), reference)


class Reduced(nn.Module):
    """Pyramid Vision Transformer: keys and values from a strided convolution, so fewer keys than queries."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.q, self.kv, self.sr, self.heads = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Conv2d(d, d, 2, stride=2), heads

    def forward(self, x: Tensor, high: int, wide: int) -> Tensor:
        b, n, c = x.shape
        q = self.q(x).reshape(b, n, self.heads, -1).permute(0, 2, 1, 3)
        few = self.sr(x.permute(0, 2, 1).reshape(b, c, high, wide)).reshape(b, c, -1).permute(0, 2, 1)
        kv = self.kv(few).reshape(b, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = torch.baddbmm(
            torch.zeros(1), q.flatten(0, 1), kv[0].flatten(0, 1).mT, beta=0, alpha=1 / math.sqrt(q.shape[-1])
        )
        attn = attn.view(b, self.heads, n, -1).softmax(dim=-1)
        return torch.einsum("...qk,...kd->...qd", attn, kv[1]).transpose(1, 2).reshape(b, n, c)


@case
def fewer_keys_by_convolution(s: Sizes) -> Case:
    model, x = ready(Reduced(s.d, s.heads)), torch.randn(s.batch, 24, s.d)

    def reference(brute: Brute) -> Tensor:
        few = model.sr(x.transpose(1, 2).reshape(s.batch, s.d, 4, 6)).flatten(2).transpose(1, 2)
        k, v = (split(t, s.heads) for t in model.kv(few).chunk(2, -1))
        return joined(brute.mix("Reduced", dots(split(model.q(x), s.heads), k), v))

    return Case(model, (x, 4, 6), reference)

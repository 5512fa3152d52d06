"""T5 written from its paper (Raffel et al. 2020, section 2.1) with the names that its files have; attention by hand.

No biases; a norm by the root of the mean square before each sub-layer; scores are not divided, and get a number a head
for the bucket of key - query. Buckets: half of them (all, where only the past is seen) are for each direction; half of
those are exact distances, the others grow logarithmically up to `reach`, and the last one holds all beyond.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, split

ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def bucket(distance: int, count: int, reach: int, both: bool) -> int:
    """The bucket of key - query = `distance`."""
    first = 0
    if both:
        count //= 2
        first = count if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    exact = count // 2
    if distance < exact:
        return first + distance
    grown = exact + int(math.log(distance / exact) / math.log(reach / exact) * (count - exact))
    return first + min(count - 1, grown)


class Norm(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


class T5(Original):
    def __init__(
        self, vocab: int, d: int, d_kv: int, heads: int, d_ff: int, layers: tuple[int, int], **more: int | str
    ):
        super().__init__()
        self.heads, self.act, self.reach = heads, ACTS[str(more.get("act", "relu"))], int(more.get("reach", 128))
        self.gated, self.own_tables, self.buckets = more.get("gated", 0), more.get("own_tables", 0), more["buckets"]
        self.scaled = more.get("scaled", 1)
        self.shared = nn.Embedding(vocab, d)
        for name, count in zip(("encoder", "decoder"), layers, strict=True):
            if count:
                stack = Original()
                stack.block = nn.ModuleList(
                    self.one(name, i, d, d_kv * heads, d_ff) for i in range(count)
                )  # fmt: skip
                stack.final_layer_norm = Norm(d)
                self.add_module(name, stack)
        if more.get("untied"):
            self.lm_head = nn.Linear(d, vocab, bias=False)

    def one(self, stack: str, i: int, d: int, width: int, d_ff: int) -> Original:
        block, parts = Original(), []
        for kind in ("SelfAttention", *(("EncDecAttention",) if stack == "decoder" else ())):
            part, attention = Original(), Original()
            for name in "qkv":
                attention.add_module(name, nn.Linear(d, width, bias=False))
            attention.o = nn.Linear(width, d, bias=False)
            if kind == "SelfAttention" and (i == 0 or self.own_tables):
                attention.relative_attention_bias = nn.Embedding(self.buckets, self.heads)
            part.add_module(kind, attention)
            part.layer_norm = Norm(d)
            parts.append(part)
        part, net = Original(), Original()
        for name in ("wi_0", "wi_1") if self.gated else ("wi",):
            net.add_module(name, nn.Linear(d, d_ff, bias=False))
        net.wo = nn.Linear(d_ff, d, bias=False)
        part.DenseReluDense, part.layer_norm = net, Norm(d)
        block.layer = nn.ModuleList([*parts, part])
        return block

    def attend(self, own: Original, x: Tensor, memory: Tensor, bias: Tensor | float) -> tuple[Tensor, Tensor]:
        q, k, v = (split(own.get_submodule(n)(y), self.heads) for n, y in (("q", x), ("k", memory), ("v", memory)))
        weights = (q @ k.transpose(-1, -2) + bias).softmax(-1)
        return own.o((weights @ v).transpose(1, 2).flatten(2)), weights

    def stack(self, name: str, ids: Tensor, memory: Tensor | None, maps: Maps) -> Tensor:
        stack, n = getattr(self, name), ids.shape[1]
        both, x = name == "encoder", self.shared(ids)
        places = torch.tensor([
            [bucket(key - query, self.buckets, self.reach, both) for key in range(n)] for query in range(n)
        ])  # fmt: skip
        hidden = torch.zeros(n, n, dtype=x.dtype)
        if not both:
            hidden = torch.full((n, n), -torch.inf, dtype=x.dtype).triu(1)
        for i, block in enumerate(stack.block):
            own = stack.block[i if self.own_tables else 0].layer[0].SelfAttention.relative_attention_bias
            bias = own(places).permute(2, 0, 1)[None] + hidden
            first, *rest = block.layer
            h = first.layer_norm(x)
            found, maps[f"{name}.{i}.self"] = self.attend(first.SelfAttention, h, h, bias)
            x = x + found
            if memory is not None:
                cross, *rest = rest
                found, maps[f"{name}.{i}.cross"] = self.attend(cross.EncDecAttention, cross.layer_norm(x), memory, 0.0)
                x = x + found
            net, h = rest[0].DenseReluDense, rest[0].layer_norm(x)
            x = x + net.wo(self.act(net.wi_0(h)) * net.wi_1(h) if self.gated else self.act(net.wi(h)))
        return stack.final_layer_norm(x)

    def forward(self, source: Tensor, target: Tensor | None = None) -> Maps:
        maps: Maps = {}
        memory = self.stack("encoder", source, None, maps)
        if target is None:
            return maps | {"hidden": memory}
        x = self.stack("decoder", target, memory, maps)
        x = x * x.shape[-1] ** -0.5 if self.scaled else x
        scores = self.lm_head(x) if hasattr(self, "lm_head") else x @ self.shared.weight.T
        return maps | {"log_probs": scores.log_softmax(-1)}

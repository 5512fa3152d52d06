"""Published models as functions: what they compute in float64 from weights that are drawn as they are used.

One run gives both, what the original makes of ids and its state_dict, under the names of its authors. Recurrent pairs
go step by step, as tutorials write them.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, attend, past, real, split, table


@dataclass
class Sizes:
    """Sizes of a small model; those that are drawn are all different."""

    source: int = 23
    target: int = 19
    layers: int = 2
    d_model: int = 12
    heads: int = 3
    d_ff: int = 10
    d_k: int = 0
    d_v: int = 0
    draw: random.Random = field(default_factory=random.Random)

    @classmethod
    def drawn(cls, seed: int) -> "Sizes":
        draw = random.Random(seed)
        heads, layers = draw.choice([1, 2, 3, 5]), draw.choice([1, 2])
        half = draw.randint(1, 4)
        source, target, d_ff = draw.sample(sorted({*range(11, 53)} - {2 * heads * half}), 3)
        d_k, d_v = draw.sample(sorted({*range(2, 11)} - {2 * half, heads}), 2)
        return cls(source, target, layers, 2 * heads * half, heads, d_ff, d_k, d_v, draw)


class Drawn:
    """Weights by name, each drawn when it is first asked for: in float32, as files hold them, and used in float64."""

    def __init__(self) -> None:
        self.state: dict[str, Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        if name not in self.state:
            self.state[name] = 0.4 * torch.randn(shape)
        return self.state[name].double()

    def linear(self, name: str, x: Tensor, out: int, bias: bool = True) -> Tensor:
        y = x @ self(f"{name}.weight", out, x.shape[-1]).T
        return y + self(f"{name}.bias", out) if bias else y

    def norm(self, name: str, x: Tensor, eps: float = 1e-5, bias: bool = True) -> Tensor:
        width = x.shape[-1:]
        gain, shift = self(f"{name}.weight", *width), self(f"{name}.bias", *width) if bias else None
        return F.layer_norm(x, width, gain, shift, eps)

    def positions(self, name: str, x: Tensor, rows: int = 40) -> Tensor:
        """Rows of a sinusoidal table that is stored as a buffer with an axis for the batch."""
        self.state.setdefault(name, table(rows, x.shape[-1])[None].float())
        return x + self.state[name][:, : x.shape[1]].double()


def annotated(w: Drawn, s: Sizes, source: Tensor, target: Tensor, attended: Any = attend) -> Maps:
    """The Annotated Transformer: norms of its own before each sub-layer and after each stack."""
    maps: Maps = {}

    def norm(name: str, x: Tensor) -> Tensor:
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)
        return w(f"{name}.a_2", s.d_model) * x + w(f"{name}.b_2", s.d_model)

    def look(name: str, x: Tensor, memory: Tensor, visible: Tensor, site: str) -> Tensor:
        reads = enumerate((x, memory, memory))
        q, k, v = (split(w.linear(f"{name}.linears.{i}", one, s.d_model), s.heads) for i, one in reads)
        mixed, maps[site] = attended(q, k, v, visible)
        return w.linear(f"{name}.linears.3", mixed, s.d_model)

    def stack(side: str, embedding: str, ids: Tensor, visible: Tensor, memory: Tensor | None = None) -> Tensor:
        rows = w(f"{embedding}.0.lut.weight", s.source if memory is None else s.target, s.d_model)
        x = w.positions(f"{embedding}.1.pe", rows[ids] * s.d_model**0.5)
        for i in range(s.layers):
            name, last = f"{side}.layers.{i}", 1 if memory is None else 2
            normed = norm(f"{name}.sublayer.0.norm", x)
            x = x + look(f"{name}.self_attn", normed, normed, visible, f"{side}.{i}.self")
            if memory is not None:
                normed = norm(f"{name}.sublayer.1.norm", x)
                x = x + look(f"{name}.src_attn", normed, memory, real(source), f"{side}.{i}.cross")
            inner = w.linear(f"{name}.feed_forward.w_1", norm(f"{name}.sublayer.{last}.norm", x), s.d_ff).relu()
            x = x + w.linear(f"{name}.feed_forward.w_2", inner, s.d_model)
        return norm(f"{side}.norm", x)

    memory = stack("encoder", "src_embed", source, real(source))
    x = stack("decoder", "tgt_embed", target, past(target), memory)
    return maps | {"log_probs": w.linear("generator.proj", x, s.target).log_softmax(-1)}


def jadore(w: Drawn, s: Sizes, source: Tensor, target: Tensor, tied: bool = False, scale: str = "none") -> Maps:
    """jadore801120's: a norm after the embeddings and after each sub-layer, maps without biases, d_k and d_v free."""
    maps: Maps = {}

    def look(name: str, x: Tensor, memory: Tensor, visible: Tensor, site: str) -> Tensor:
        parts = (("w_qs", x, s.d_k), ("w_ks", memory, s.d_k), ("w_vs", memory, s.d_v))
        q, k, v = (split(w.linear(f"{name}.{one}", y, s.heads * n, bias=False), s.heads) for one, y, n in parts)
        mixed, maps[site] = attend(q, k, v, visible)
        return w.norm(f"{name}.layer_norm", w.linear(f"{name}.fc", mixed, s.d_model, bias=False) + x, 1e-6)

    def stack(side: str, name: str, ids: Tensor, visible: Tensor, memory: Tensor | None = None) -> Tensor:
        rows = w(f"{side}.{name}.weight", s.source if memory is None else s.target, s.d_model)
        x = w.positions(f"{side}.position_enc.pos_table", rows[ids] * (s.d_model**0.5 if scale == "emb" else 1))
        x = w.norm(f"{side}.layer_norm", x, 1e-6)
        for i in range(s.layers):
            layer = f"{side}.layer_stack.{i}"
            x = look(f"{layer}.slf_attn", x, x, visible, f"{side}.{i}.self")
            if memory is not None:
                x = look(f"{layer}.enc_attn", x, memory, real(source), f"{side}.{i}.cross")
            inner = w.linear(f"{layer}.pos_ffn.w_1", x, s.d_ff).relu()
            x = w.norm(f"{layer}.pos_ffn.layer_norm", w.linear(f"{layer}.pos_ffn.w_2", inner, s.d_model) + x, 1e-6)
        return x

    memory = stack("encoder", "src_word_emb", source, real(source))
    x = stack("decoder", "trg_word_emb", target, past(target), memory)
    if tied:
        w.state["trg_word_prj.weight"] = w.state["decoder.trg_word_emb.weight"]
    scores = w.linear("trg_word_prj", x, s.target, bias=False) * (s.d_model**-0.5 if scale == "prj" else 1)
    return maps | {"log_probs": scores.log_softmax(-1)}


def kmer(w: Drawn, s: Sizes, letters: Tensor) -> Maps:
    """The k-mer classifier: windows of two widths, norms after the sub-layers, a mean, a small classifier."""
    maps: Maps = {}
    x = w.positions("pe.pe", w("embed.weight", s.source, s.d_model)[letters] * s.d_model**0.5).transpose(1, 2)
    convolutions = (
        F.conv1d(x, w(f"{name}.weight", s.d_model, s.d_model, width), w(f"{name}.bias", s.d_model))
        for name, width in (("kmer_aggregation.convs.0", 2), ("kmer_aggregation.convs.1", 5))
    )
    x = w.norm("kmer_aggregation.norm", torch.cat(list(convolutions), 2).transpose(1, 2))
    for i in range(s.layers):
        name = f"layers.{i}"
        inside = x @ w(f"{name}.attn.in_proj_weight", 3 * s.d_model, s.d_model).T
        inside = inside + w(f"{name}.attn.in_proj_bias", 3 * s.d_model)
        q, k, v = (split(part, s.heads) for part in inside.chunk(3, -1))
        mixed, maps[f"encoder.{i}.self"] = attend(q, k, v, None)
        x = w.norm(f"{name}.norm_1", x + w.linear(f"{name}.attn.out_proj", mixed, s.d_model))
        inner = w.linear(f"{name}.ff.linear_1", x, s.d_ff).relu()
        x = w.norm(f"{name}.norm_2", x + w.linear(f"{name}.ff.linear_2", inner, s.d_model))
    hidden = w.linear("decoder.linear_1", w.norm("norm", x).mean(1), s.d_k).relu()
    return maps | {"logits": w.linear("decoder.classifier", hidden, s.d_v)}


def gpt(
    w: Drawn, s: Sizes, ids: Tensor, *, bias: bool = True, mini: bool = False, relu: bool = False,
    norm_first: bool = True, divided_by: str = "d_head",
) -> Maps:  # fmt: skip
    """nanoGPT's and minGPT's (`mini`: GELU by a tanh, stored masks, scores of their own); forks choose otherwise.

    Scores are divided by the root of a head's width, of the model's (`d_model`), or by `nothing`.
    """
    maps: Maps = {}
    n, d, rows = ids.shape[1], s.d_model, 17
    widen = {"d_head": 1.0, "d_model": s.heads**-0.5, "nothing": (d / s.heads) ** 0.5}[divided_by]
    tokens = w("transformer.wte.weight", s.source, d)
    x = tokens[ids] + w("transformer.wpe.weight", rows, d)[:n]

    def residual(norm: str, x: Tensor, inside: Callable[[Tensor], Tensor]) -> Tensor:
        return x + inside(w.norm(norm, x, bias=bias)) if norm_first else w.norm(norm, x + inside(x), bias=bias)

    for i in range(s.layers):
        name, site = f"transformer.h.{i}", f"decoder.{i}.self"

        def look(x: Tensor, name: str = name, site: str = site) -> Tensor:
            q, k, v = (split(part, s.heads) for part in w.linear(f"{name}.attn.c_attn", x, 3 * d, bias).chunk(3, -1))
            mixed, maps[site] = attend(q * widen, k, v, torch.ones(n, n, dtype=torch.bool).tril())
            return w.linear(f"{name}.attn.c_proj", mixed, d, bias)

        def think(x: Tensor, name: str = name) -> Tensor:
            x = w.linear(f"{name}.mlp.c_fc", x, 4 * d, bias)
            x = x.relu() if relu else F.gelu(x, approximate="tanh" if mini else "none")
            return w.linear(f"{name}.mlp.c_proj", x, d, bias)

        if mini:
            w.state[f"{name}.attn.bias"] = torch.ones(1, 1, rows, rows).tril()
        x = residual(f"{name}.ln_2", residual(f"{name}.ln_1", x, look), think)
    x = w.norm("transformer.ln_f", x, bias=bias)
    if not mini:
        w.state["lm_head.weight"] = w.state["transformer.wte.weight"]
    return maps | {"log_probs": w.linear("lm_head", x, s.source, bias=False).log_softmax(-1)}


IDS = torch.tensor([[7, 30, 2, 7, 19, 11, 0, 5]])


@dataclass(frozen=True)
class Fork:
    """A model under nanoGPT's names that may compute something else: 31 words, and what it makes of `IDS`."""

    state: dict[str, Tensor]
    maps: Maps
    answers: dict[str, Any]
    """The truth about it."""


def fork(heads: int, bias: bool = True, **choices: Any) -> Fork:
    """A fork with a ReLU, its numbers drawn at random."""
    w, sizes = Drawn(), Sizes(source=31, d_model=6 * heads, heads=heads)
    maps = gpt(w, sizes, IDS, bias=bias, relu=True, **choices)
    told = {"norm_first": True, "divided_by": "d_head", **choices}
    answers = {"n_heads": heads, "norm_first": told["norm_first"], "scores_divided_by": told["divided_by"]}
    return Fork(w.state, maps, answers | {"activation": "relu", "pad_id": -1})


def annotated_weights() -> dict[str, Tensor]:
    """A state_dict of The Annotated Transformer."""
    w = Drawn()
    annotated(w, Sizes(), torch.tensor([[1]]), torch.tensor([[1]]))
    return w.state


READ, WRITTEN, HIDDEN = 31, 37, 13
"""Words that recurrent pairs read and write, and the width of their states."""


def net(w: Drawn, name: str, kind: Any, reads: int, layers: int, both: bool = False) -> Any:
    """One of torch's recurrent nets with weights that are drawn."""
    made = kind(reads, HIDDEN, layers, bidirectional=both).double()
    for one, parameter in made.named_parameters():
        parameter.data = w(f"{name}.{one}", *parameter.shape)
    return made


def steps(step: Callable[[Tensor, Any], tuple[Tensor, Any, Tensor]], state: Any, target: Tensor) -> Maps:
    """Every step's weights and log-probabilities, of inputs (batch, position); the originals have the batch second."""
    found = []
    for token in target.T:
        logits, state, weights = step(token, state)
        found.append((logits, weights))
    logits, weights = (torch.stack(parts, 1) for parts in zip(*found, strict=True))
    return {"log_probs": logits.log_softmax(-1), "decoder.cross": weights[:, None]}


def d2l(w: Drawn, source: Tensor, target: Tensor, layers: int = 2, of_encoder: int | None = None) -> Maps:
    d = 11
    reader = net(w, "encoder.rnn", nn.GRU, d, of_encoder or layers)
    outputs, state = reader(w("encoder.embedding.weight", READ, d)[source.T])
    writer, keys = net(w, "decoder.rnn", nn.GRU, d + HIDDEN, layers), outputs.permute(1, 0, 2)

    def step(token: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query = w.linear("decoder.attention.W_q", state[-1][:, None], HIDDEN, bias=False)
        features = torch.tanh(query[:, :, None] + w.linear("decoder.attention.W_k", keys, HIDDEN, bias=False)[:, None])
        weights = w.linear("decoder.attention.w_v", features, 1, bias=False).squeeze(-1).softmax(-1)
        embedded = w("decoder.embedding.weight", WRITTEN, d)[token]
        x = torch.cat((torch.bmm(weights, keys), embedded[:, None]), dim=-1)
        output, state = writer(x.permute(1, 0, 2), state)
        return w.linear("decoder.dense", output[0], WRITTEN), state, weights[:, 0]

    return steps(step, state[-layers:], target)


def chatbot(w: Drawn, source: Tensor, target: Tensor, method: str, name: str = "gru", layers: int = 2) -> Maps:
    kind = {"gru": nn.GRU, "lstm": nn.LSTM}[name]
    reader = net(w, f"encoder.{name}", kind, HIDDEN, layers, both=True)
    outputs, state = reader(w("encoder.embedding.weight", READ, HIDDEN)[source.T])
    outputs = outputs[:, :, :HIDDEN] + outputs[:, :, HIDDEN:]
    writer = net(w, f"decoder.{name}", kind, HIDDEN, layers)
    state = tuple(h[:layers] for h in state) if name == "lstm" else state[:layers]

    def energies(hidden: Tensor) -> Tensor:
        if method == "general":
            return torch.sum(hidden * w.linear("decoder.attn.attn", outputs, HIDDEN), dim=2)
        if method == "concat":
            both = torch.cat((hidden.expand(len(outputs), -1, -1), outputs), 2)
            return torch.sum(w("decoder.attn.v", HIDDEN) * w.linear("decoder.attn.attn", both, HIDDEN).tanh(), dim=2)
        return torch.sum(hidden * outputs, dim=2)

    def step(token: Tensor, state: Any) -> tuple[Tensor, Any, Tensor]:
        output, state = writer(w("decoder.embedding.weight", WRITTEN, HIDDEN)[token[None]], state)
        weights = energies(output).t().softmax(1)
        context = weights[:, None].bmm(outputs.transpose(0, 1))[:, 0]
        joined = torch.tanh(w.linear("decoder.concat", torch.cat((output[0], context), 1), HIDDEN))
        return w.linear("decoder.out", joined, WRITTEN), state, weights

    return steps(step, state, target)


def stacked(w: Drawn, source: Tensor, target: Tensor, layers: int = 3) -> Maps:
    """The first generation of PyTorch's tutorial with several layers."""
    reader, writer = (net(w, f"{half}.gru", nn.GRU, HIDDEN, layers) for half in ("encoder", "decoder"))
    outputs, state = reader(w("encoder.embedding.weight", READ, HIDDEN)[source.T])

    def step(token: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = w("decoder.embedding.weight", WRITTEN, HIDDEN)[token]
        weights = w.linear("decoder.attn", torch.cat((embedded, state[0]), 1), 9).softmax(1)
        context = torch.einsum("bs,sbh->bh", weights[:, : len(outputs)], outputs)
        mixed = torch.relu(w.linear("decoder.attn_combine", torch.cat((embedded, context), 1), HIDDEN))
        output, state = writer(mixed[None], state)
        return w.linear("decoder.out", output[0], WRITTEN), state, weights

    return steps(step, state, target)

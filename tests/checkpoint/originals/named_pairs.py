"""Encoder-decoders of well-known repositories: a state_dict under their names, and what their code computes with it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, attend, split, table

State = dict[str, Tensor]


@dataclass(frozen=True)
class Spelling:
    """How a repository writes it. `encoder` and `decoder`: (norm, attention) pairs and (norm, widen, narrow)."""

    encoder: str
    decoder: str
    attends: tuple[tuple[str, str], ...]
    decodes: tuple[tuple[str, str], ...]
    nets: tuple[str, str]
    net_norms: tuple[str, str]
    maps: tuple[str, str, str, str]
    embeddings: tuple[str, str]
    scores: str
    gain: str = "weight"
    shift: str = "bias"
    ends: tuple[str, str] | None = None
    tables: tuple[str, str] | None = None
    table_axes: str = ""
    first_row: int = 0
    formula: Callable[[int, int], Tensor] = table
    pre_norm: bool = False
    scaled: bool = True
    eps: float = 1e-5
    deviation: bool = False
    convolutions: bool = False
    shared: bool = False
    score_bias: bool = True
    logit_scale: float = 1.0
    extra: tuple[str, ...] = field(default=())


def halves(length: int, d: int, start: int = 0) -> Tensor:
    """Tensor2Tensor's table, sines before cosines, from row `start` on."""
    half = d // 2
    angle = torch.arange(start, start + length)[:, None] * torch.exp(
        torch.arange(half).double() * -(math.log(10_000) / (half - 1))
    )
    return torch.cat([angle.sin(), angle.cos()], 1)


REPOSITORIES = {
    "bentrevett": Spelling(
        "encoder.layers", "decoder.layers", (("self_attn_layer_norm", "self_attention"),),
        (("self_attn_layer_norm", "self_attention"), ("enc_attn_layer_norm", "encoder_attention")),
        ("positionwise_feedforward.fc_1", "positionwise_feedforward.fc_2"), ("ff_layer_norm", "ff_layer_norm"),
        ("fc_q", "fc_k", "fc_v", "fc_o"), ("encoder.tok_embedding.weight", "decoder.tok_embedding.weight"),
        "decoder.fc_out", tables=("encoder.pos_embedding.weight", "decoder.pos_embedding.weight"),
    ),
    "hyunwoongko": Spelling(
        "encoder.layers", "decoder.layers", (("norm1", "attention"),),
        (("norm1", "self_attention"), ("norm2", "enc_dec_attention")), ("ffn.linear1", "ffn.linear2"),
        ("norm2", "norm3"), ("w_q", "w_k", "w_v", "w_concat"),
        ("encoder.emb.tok_emb.weight", "decoder.emb.tok_emb.weight"), "decoder.linear", gain="gamma", shift="beta",
        scaled=False, eps=1e-12,
    ),
    "sam-lynn-evans": Spelling(
        "encoder.layers", "decoder.layers", (("norm_1", "attn"),), (("norm_1", "attn_1"), ("norm_2", "attn_2")),
        ("ff.linear_1", "ff.linear_2"), ("norm_2", "norm_3"), ("q_linear", "k_linear", "v_linear", "out"),
        ("encoder.embed.embed.weight", "decoder.embed.embed.weight"), "out", gain="alpha",
        ends=("encoder.norm", "decoder.norm"), tables=("encoder.pe.pe", "decoder.pe.pe"), table_axes="batch first",
        pre_norm=True, eps=1e-6, deviation=True,
    ),
    "opennmt": Spelling(
        "encoder.transformer", "decoder.transformer_layers", (("layer_norm", "self_attn"),),
        (("layer_norm_1", "self_attn"), ("layer_norm_2", "context_attn")), ("feed_forward.w_1", "feed_forward.w_2"),
        ("feed_forward.layer_norm", "feed_forward.layer_norm"),
        ("linear_query", "linear_keys", "linear_values", "final_linear"),
        ("encoder.embeddings.make_embedding.emb_luts.0.weight", "decoder.embeddings.make_embedding.emb_luts.0.weight"),
        "generator.0", ends=("encoder.layer_norm", "decoder.layer_norm"),
        tables=("encoder.embeddings.make_embedding.pe.pe", "decoder.embeddings.make_embedding.pe.pe"),
        table_axes="batch second", pre_norm=True, eps=1e-6,
    ),
    "bart": Spelling(  # fairseq, whose files hold two counters
        "encoder.layers", "decoder.layers", (("self_attn_layer_norm", "self_attn"),),
        (("self_attn_layer_norm", "self_attn"), ("encoder_attn_layer_norm", "encoder_attn")), ("fc1", "fc2"),
        ("final_layer_norm", "final_layer_norm"), ("q_proj", "k_proj", "v_proj", "out_proj"),
        ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "decoder.output_projection",
        formula=lambda length, d: halves(length, d, 2), score_bias=False,
        extra=("encoder.version", "encoder.embed_positions._float_tensor"),
    ),
    "jadore-2018": Spelling(
        "encoder.layer_stack", "decoder.layer_stack", (("slf_attn.layer_norm", "slf_attn"),),
        (("slf_attn.layer_norm", "slf_attn"), ("enc_attn.layer_norm", "enc_attn")), ("pos_ffn.w_1", "pos_ffn.w_2"),
        ("pos_ffn.layer_norm", "pos_ffn.layer_norm"), ("w_qs", "w_ks", "w_vs", "fc"),
        ("encoder.src_word_emb.weight", "decoder.tgt_word_emb.weight"), "tgt_word_prj",
        tables=("encoder.position_enc.weight", "decoder.position_enc.weight"), first_row=1, scaled=False,
        convolutions=True, shared=True, score_bias=False, logit_scale=18**-0.5,
    ),
}  # fmt: skip


class Pair:
    """One of the repositories' models at random: 18 wide, 2 layers that read and 3 that write."""

    def __init__(self, spelling: Spelling, heads: int = 3):
        self.spelling, self.heads, self.d, self.d_ff = spelling, heads, 18, 23
        self.vocabs = (31, 31) if spelling.shared else (31, 37)
        self.state: State = {}
        self._declare()

    def __call__(self, source: Tensor, target: Tensor) -> Maps:
        s, maps = self.spelling, Maps()
        memory = self._embed(source, 0)
        for i in range(2):
            memory = self._layer(f"{s.encoder}.{i}", s.attends, s.net_norms[0], memory, [None], f"encoder.{i}", maps)
        memory = self._norm(memory, s.ends[0]) if s.ends and s.ends[0] else memory
        x, past = self._embed(target, 1), torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).tril()
        for i in range(3):
            x = self._layer(f"{s.decoder}.{i}", s.decodes, s.net_norms[1], x, [past, memory], f"decoder.{i}", maps)
        x = self._norm(x, s.ends[1]) if s.ends and s.ends[1] else x
        logits = self._linear(x, s.scores) * s.logit_scale
        return maps | {"log_probs": logits.log_softmax(-1)}

    def _declare(self) -> None:
        s, d = self.spelling, self.d
        for name, vocab in zip(s.embeddings, self.vocabs, strict=True):
            self.state[name] = torch.randn(vocab, d)
        if s.shared:
            self.state[s.embeddings[1]] = self.state[s.embeddings[0]]
        for i, name in enumerate(s.tables or ()):
            rows = torch.randn(29 - 2 * i, d)
            axis = {"": None, "batch first": 0, "batch second": 1}[s.table_axes]
            self.state[name] = rows if axis is None else rows.unsqueeze(axis)
        for stack, parts, norm, count in (
            (s.encoder, s.attends, s.net_norms[0], 2), (s.decoder, s.decodes, s.net_norms[1], 3),
        ):  # fmt: skip
            for start in (f"{stack}.{i}." for i in range(count)):
                for own, attention in parts:
                    for name in s.maps:
                        self._map(f"{start}{attention}.{name}", d, d)
                    self._gains(f"{start}{own}")
                self._map(f"{start}{s.nets[0]}", self.d_ff, d, s.convolutions)
                self._map(f"{start}{s.nets[1]}", d, self.d_ff, s.convolutions)
                self._gains(f"{start}{norm}")
        for name in filter(None, s.ends or ()):
            self._gains(name)
        self._map(s.scores, self.vocabs[1], d)
        if not s.score_bias:
            del self.state[f"{s.scores}.bias"]
        if s.shared:
            self.state[f"{s.scores}.weight"] = self.state[s.embeddings[1]]
        for name in s.extra:
            self.state[name] = torch.tensor([3.0])

    def _map(self, name: str, rows: int, columns: int, convolution: bool = False) -> None:
        weight = torch.randn(rows, columns) * 0.3
        self.state |= {
            f"{name}.weight": weight[..., None] if convolution else weight,
            f"{name}.bias": torch.randn(rows),
        }

    def _gains(self, name: str) -> None:
        s = self.spelling
        self.state |= {f"{name}.{s.gain}": torch.randn(self.d), f"{name}.{s.shift}": torch.randn(self.d)}

    def _of(self, name: str) -> Tensor:
        return self.state[name].double()

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight = self._of(f"{name}.weight")
        bias = f"{name}.bias"
        return F.linear(
            x, weight.squeeze(-1) if weight.ndim == 3 else weight, self._of(bias) if bias in self.state else None
        )

    def _norm(self, x: Tensor, name: str) -> Tensor:
        s = self.spelling
        centred = x - x.mean(-1, keepdim=True)
        spread = (
            x.std(-1, keepdim=True) + s.eps if s.deviation else (centred.pow(2).mean(-1, keepdim=True) + s.eps).sqrt()
        )
        return centred / spread * self._of(f"{name}.{s.gain}") + self._of(f"{name}.{s.shift}")

    def _embed(self, ids: Tensor, side: int) -> Tensor:
        s = self.spelling
        x = self._of(s.embeddings[side])[ids] * (math.sqrt(self.d) if s.scaled else 1)
        rows = self._of(s.tables[side]).squeeze() if s.tables else s.formula(ids.shape[1], self.d)
        return x + rows[s.first_row : s.first_row + ids.shape[1]]

    def _layer(
        self, path: str, parts: tuple[tuple[str, str], ...], net_norm: str, x: Tensor, sees: list[Tensor | None],
        site: str, maps: Maps,
    ) -> Tensor:  # fmt: skip
        s = self.spelling
        for (norm, attention), seen, kind in zip(parts, sees, ("self", "cross"), strict=False):
            h = self._norm(x, f"{path}.{norm}") if s.pre_norm else x
            read, visible = (h, seen) if kind == "self" else (seen, None)
            assert read is not None
            query, key, value, output = (f"{path}.{attention}.{name}" for name in s.maps)
            q, k, v = (split(self._linear(*of), self.heads) for of in ((h, query), (read, key), (read, value)))
            mixed, maps[f"{site}.{kind}"] = attend(q, k, v, visible)
            x = x + self._linear(mixed, output)
            x = x if s.pre_norm else self._norm(x, f"{path}.{norm}")
        h = self._norm(x, f"{path}.{net_norm}") if s.pre_norm else x
        x = x + self._linear(self._linear(h, f"{path}.{s.nets[0]}").relu(), f"{path}.{s.nets[1]}")
        return x if s.pre_norm else self._norm(x, f"{path}.{net_norm}")

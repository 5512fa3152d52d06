"""x-transformers (lucidrains): an `Encoder` or a `Decoder` of its TransformerWrapper, with what names and shapes tell.

Layers lie in one list, attention and feed-forward nets in turn. Norms stand before a sub-layer (`0.0`) or after the sum
(`0.2`). Newer versions keep the gain of a layer's norm less 1, and multiply positions by d_model^-0.5, like scores
that the embedding makes. Rotary positions, norms by the root of the mean square and gated nets are in `x_rotary`. What
has a tensor and no place here (relative positions, memories, cross-attention) is refused by name; what has none is
asked.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Fit, Source, root_of, size
from transformer.checkpoint.foreign.questions import Answers, choice, heads_question, norm_eps, special_id
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.errors import ConfigError
from transformer.messages import Message
from transformer.models.encoder import EncoderConfig

LAYERS = "attn_layers.layers."
NET = "net."
"""What AutoregressiveWrapper, which is for decoders, puts before all names."""

BEFORE, AFTER = "0.0", "0.2"
"""Where the norm of a sub-layer lies in its list: before it, or after the sum."""


@dataclass(frozen=True)
class Changed(Source):
    """A foreign tensor times a number, and a number more."""

    times: float = 1.0
    plus: float = 0.0

    def take(self, tensors: Mapping[str, Tensor], ours: Shape) -> Tensor:
        """In double precision before it is rounded to ours."""
        found = super().take(tensors, ours)
        return (found.double() * self.times + self.plus).to(found.dtype)


class XTransformers:
    """A stack of layers between an embedding and scores of the vocabulary."""

    name = "x-transformers"
    title: str = Message("title_x_transformers")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; what is left is asked."""
        root = root_of(contents.shapes, r"attn_layers\.layers\.0\.1\.to_q\.weight")
        if root is None or not any(f"{root}{name}" in contents.shapes for name in EMBEDDINGS):
            return None
        if has_newer_parts(contents.shapes, root):
            return None
        return _Found(contents, root, answers).fit()

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        attention = [f"{LAYERS}0.1.to_{part}.weight" for part in ("q", "k", "v", "out")]
        net = [f"{LAYERS}1.1.ff.{place}.{kind}" for place in ("0.0", "2") for kind in ("weight", "bias")]
        norms = [f"{LAYERS}{i}.{BEFORE}.gamma" for i in range(2)]
        return [*EMBEDDINGS, "pos_emb.emb.weight", *attention, *net, *norms, "to_logits.weight"]


EMBEDDINGS = ("token_emb.emb.weight", "token_emb.weight")
"""What the table of tokens is called; the second, in early versions."""


RATES = "attn_layers.rotary_pos_emb.inv_freq"


def has_newer_parts(shapes: Mapping[str, Shape], root: str) -> bool:
    """Whether there are rotary positions, norms by the root of the mean square, or gated nets."""
    layers = f"{root}{LAYERS}"
    signs = (f"{root}{RATES}", f"{layers}0.{BEFORE}.g", f"{layers}0.{AFTER}.g")
    return any(name in shapes for name in (*signs, *(f"{layers}1.1.{net}.0.proj.weight" for net in ("ff", "net"))))


@dataclass
class _Found:
    contents: Contents
    root: str
    answers: Answers
    sources: dict[str, Source] = field(default_factory=dict)

    @property
    def shapes(self) -> Mapping[str, Shape]:
        return self.contents.shapes

    def fit(self) -> Fit:
        shapes, root, answers = self.shapes, self.root, self.answers
        layers = f"{root}{LAYERS}"
        embedding = next(f"{root}{name}" for name in EMBEDDINGS if f"{root}{name}" in shapes)
        d_model = size(shapes, (embedding, 1))
        attentions = re.compile(rf"{re.escape(layers)}(\d+)\.1\.to_q\.weight")
        n_layers = sum(1 for name in shapes if attentions.fullmatch(name))
        inner, values = (size(shapes, (f"{layers}0.1.to_{part}.weight", 0)) for part in "qv")
        n_heads = answers.ask(heads_question(inner))
        net = next((part for part in ("ff", "net") if f"{layers}1.1.{part}.0.0.weight" in shapes), "ff")
        place = next((p for p in (BEFORE, AFTER) if self._gain(f"{layers}0.{p}")), BEFORE)
        gain = self._gain(f"{layers}0.{place}")
        offset = 0.0
        if gain.endswith("gamma"):
            around_0 = gain in self.contents.tensors and float(self.contents.tensors[gain].double().mean()) < 0.5
            why = Message("why_gains_around", around=0 if around_0 else 1)
            offset = float(choice(answers, "norm_offset", (around_0, not around_0), why))
        self.sources["embedding.weight"] = Source(embedding)
        out_bias = f"{layers}0.1.to_out.bias" in shapes
        for i in range(n_layers):
            self._layer(i, layers, place, net, offset, out_bias)
        options = self._positions(embedding, d_model)
        for name, ours, theirs in (
            ("norm_after_embedding", "embedding_norm", ("post_emb_norm",)),
            ("norm_after_stack", "encoder_norm", ("attn_layers.final_norm", "norm")),
        ):
            there = next((f"{root}{one}" for one in theirs if self._gain(f"{root}{one}")), "")
            options[name] = bool(there)
            if there:
                self._norm(ours, there, offset if "attn_layers." in there else 0.0)
        if not choice(answers, "options_off", (True, False), Message("why_original_default")):
            raise ConfigError("x_transformers_options")
        scores = f"{root}to_logits.weight"
        tied = scores not in shapes
        bias = f"{root}to_logits.bias"
        times = 1.0
        if tied and choice(answers, "scores_scaled", (bool(offset), not offset), Message("why_original_default")):
            times = d_model**-0.5
        self.sources["head.0.weight"] = Changed(embedding if tied else scores, times=times)
        self.sources["head.0.bias"] = Source(bias if bias in shapes else None)
        written = root.endswith(NET)
        why = Message("why_autoregressive") if written else Message("why_encoder")
        config = EncoderConfig(
            vocab=size(shapes, (embedding, 0)),
            d_model=d_model,
            n_heads=n_heads,
            d_k=inner // n_heads,
            d_v=max(1, values // n_heads),
            d_ff=size(shapes, (f"{layers}1.1.{net}.0.0.weight", 0)),
            n_layers=n_layers,
            norm_first=place == BEFORE,
            norm_eps=norm_eps(answers, 1e-5),
            attention_bias=out_bias,
            activation=choice(answers, "activation", ("gelu", "silu", "relu"), Message("why_original_default")),
            causal=choice(answers, "causal", (written, not written), why),
            pad_id=special_id(answers, "pad_id", -1),
            head=(size(shapes, (scores, 0), (embedding, 0)),),
            **options,
        )
        used = {name for source in self.sources.values() for name in source.names}
        doubts = {name: Message("doubt_x_transformers") for name in shapes if name not in used}
        reasons = [Message("reason_x_transformers", count=n_layers, path=layers)]
        return Fit(
            "encoder", config, self.sources, (*reasons, *((Message("reason_tied_to_tokens"),) if tied else ())),
            doubts=doubts,
        )  # fmt: skip

    def _gain(self, norm: str) -> str:
        """The name of a norm's gain; empty where there is no such norm."""
        return next((f"{norm}.{name}" for name in ("gamma", "weight") if f"{norm}.{name}" in self.shapes), "")

    def _norm(self, ours: str, theirs: str, offset: float) -> None:
        gain = self._gain(theirs) or f"{theirs}.gamma"
        self.sources[f"{ours}.weight"] = Changed(gain, plus=offset if gain.endswith("gamma") else 0.0)
        bias = f"{theirs}.bias"
        self.sources[f"{ours}.bias"] = Source(bias if bias in self.shapes else None)

    def _layer(self, i: int, layers: str, place: str, net: str, offset: float, out_bias: bool) -> None:
        """One layer: two entries of the list."""
        ours, attention, feed = f"encoder.{i}", f"{layers}{2 * i}", f"{layers}{2 * i + 1}"
        maps = (("query", "to_q"), ("key", "to_k"), ("value", "to_v"), ("output", "to_out"))
        for part, theirs in maps:
            self.sources[f"{ours}.self_attention.{part}.weight"] = Source(f"{attention}.1.{theirs}.weight")
            if out_bias:
                bias = f"{attention}.1.{theirs}.bias"
                self.sources[f"{ours}.self_attention.{part}.bias"] = Source(bias if bias in self.shapes else None)
        self._norm(f"{ours}.self_residual.norm", f"{attention}.{place}", offset)
        self._norm(f"{ours}.feed_forward_residual.norm", f"{feed}.{place}", offset)
        for part, theirs in (("widen", "0.0"), ("narrow", "2")):
            weight, bias = (f"{feed}.1.{net}.{theirs}.{kind}" for kind in ("weight", "bias"))
            self.sources[f"{ours}.feed_forward.{part}.weight"] = Source(weight)
            self.sources[f"{ours}.feed_forward.{part}.bias"] = Source(bias if bias in self.shapes else None)

    def _positions(self, embedding: str, d_model: int) -> dict[str, Any]:
        """The table of positions, where there is one; early versions do not scale it."""
        table = f"{self.root}pos_emb.emb.weight"
        if table not in self.shapes:
            return {"positions": "none"}
        newer = embedding.endswith(".emb.weight")
        scaled = choice(self.answers, "positions_scaled", (newer, not newer), Message("why_original"))
        self.sources["positions.table"] = Changed(table, times=d_model**-0.5 if scaled else 1.0)
        return {"positions": "learned", "max_length": size(self.shapes, (table, 0))}

"""x-transformers (lucidrains) with rotary positions, norms by the root of the mean square, or gated nets.

Names and lists are those of `x_transformers`. The rates of rotary positions lie in the file; which numbers are a pair,
and whether values are turned as well, changed over the years and is asked. What else has a tensor and no place here is
refused by name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Fit, Source, root_of, size
from transformer.checkpoint.foreign.layouts.x_transformers import (
    AFTER,
    BEFORE,
    EMBEDDINGS,
    LAYERS,
    NET,
    RATES,
    Changed,
    has_newer_parts,
)
from transformer.checkpoint.foreign.questions import Answers, Question, choice, heads_question, norm_eps, special_id
from transformer.checkpoint.safe.contents import Contents, Shape
from transformer.errors import ConfigError
from transformer.messages import Message
from transformer.models.rotary import RotaryConfig

_GAINS = {"g": "rms", "gamma": "torch", "weight": "torch"}
"""What a norm's gain is called, and which norm has one of that name."""


class RotaryXTransformers:
    """A stack with rotary positions, norms by the root of the mean square, or gated nets."""

    name = "x-transformers-rotary"
    title: str = Message("title_x_rotary")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes from shapes; what is left is asked."""
        shapes = contents.shapes
        root = root_of(shapes, r"attn_layers\.layers\.0\.1\.to_q\.weight")
        if root is None or not any(f"{root}{name}" in shapes for name in EMBEDDINGS):
            return None
        return _Found(contents, root, answers).fit() if has_newer_parts(shapes, root) else None

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        attention = [f"{LAYERS}0.1.to_{part}.weight" for part in ("q", "k", "v", "out")]
        net = [f"{LAYERS}1.1.ff.{place}" for place in ("0.proj.weight", "0.proj.bias", "2.weight", "2.bias")]
        norms = [f"{LAYERS}{i}.{BEFORE}.g" for i in range(2)]
        return [EMBEDDINGS[0], RATES, *attention, *net, *norms, "attn_layers.final_norm.g", "to_logits.weight"]


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
        n_heads = answers.ask(_heads(inner, size(shapes, (f"{root}{RATES}", 0)) if f"{root}{RATES}" in shapes else 0))
        net = next((one for one in ("ff", "net") if any(f"{layers}1.1.{one}.{w}" in shapes for w in _WIDE)), "ff")
        wide = next((w for w in _WIDE if f"{layers}1.1.{net}.{w}" in shapes), _WIDE[1])
        gated = wide == _WIDE[1]
        place = next((one for one in (BEFORE, AFTER) if self._gain(f"{layers}0.{one}")), BEFORE)
        gain = self._gain(f"{layers}0.{place}") or f"{layers}0.{place}.g"
        offset = self._offset(gain)
        self.sources["embedding.weight"] = Source(embedding)
        for i in range(n_layers):
            self._layer(i, layers, place, (net, wide), offset)
        options = self._turned(offset) | self._positions(embedding, d_model)
        for name, ours, theirs in (
            ("norm_after_embedding", "embedding_norm", ("post_emb_norm",)),
            ("norm_after_stack", "encoder_norm", ("attn_layers.final_norm", "norm")),
        ):
            there = next((f"{root}{one}" for one in theirs if self._gain(f"{root}{one}")), "")
            options[name] = self._norm(ours, there, offset if "attn_layers." in there else 0.0) if there else ""
        if not choice(answers, "options_off", (True, False), Message("why_original_default")):
            raise ConfigError("x_transformers_options")
        scores, bias = f"{root}to_logits.weight", f"{root}to_logits.bias"
        tied, times = scores not in shapes, 1.0
        if tied and choice(answers, "scores_scaled", (bool(offset), not offset), Message("why_original_default")):
            times = d_model**-0.5
        self.sources["head.weight"] = Changed(embedding if tied else scores, times=times)
        self.sources["head.bias"] = Source(bias if bias in shapes else None)
        written = root.endswith(NET)
        config = RotaryConfig(
            vocab=size(shapes, (embedding, 0)),
            d_model=d_model,
            n_heads=n_heads,
            d_k=inner // n_heads,
            d_v=max(1, values // n_heads),
            d_ff=size(shapes, (f"{layers}1.1.{net}.2.weight", 1)),
            n_layers=n_layers,
            writes=size(shapes, (scores, 0), (embedding, 0)),
            norm=_kind(gain),
            norm_eps=norm_eps(answers, 1e-5),
            norm_first=place == BEFORE,
            gated=gated,
            activation=choice(answers, "activation", ("gelu", "silu", "relu"), Message("why_original_default")),
            output_bias=f"{layers}0.1.to_out.bias" in shapes,
            causal=choice(
                answers, "causal", (written, not written), Message("why_autoregressive" if written else "why_encoder")
            ),
            pad_id=special_id(answers, "pad_id", -1),
            **options,
        )
        used = {name for source in self.sources.values() for name in source.names}
        doubts = {name: Message("doubt_x_transformers") for name in shapes if name not in used}
        reasons = [Message("reason_x_transformers", count=n_layers, path=layers)]
        if tied:
            reasons.append(Message("reason_tied_to_tokens"))
        return Fit("rotary", config, self.sources, tuple(reasons), doubts=doubts)

    def _gain(self, norm: str) -> str:
        """The name of a norm's gain; empty where there is no such norm."""
        return next((f"{norm}.{name}" for name in _GAINS if f"{norm}.{name}" in self.shapes), "")

    def _offset(self, gain: str) -> float:
        """1 where gains are kept less 1, as newer versions do."""
        if gain.endswith("weight"):
            return 0.0
        around_0 = gain in self.contents.tensors and float(self.contents.tensors[gain].double().mean()) < 0.5
        why = Message("why_gains_around", around=0 if around_0 else 1)
        return float(choice(self.answers, "norm_offset", (around_0, not around_0), why))

    def _norm(self, ours: str, theirs: str, offset: float) -> str:
        """Which norm it is; only nn.LayerNorm's has a bias of ours."""
        gain = self._gain(theirs) or f"{theirs}.g"
        self.sources[f"{ours}.weight"] = Changed(gain, plus=0.0 if gain.endswith("weight") else offset)
        if _kind(gain) == "torch":
            bias = f"{theirs}.bias"
            self.sources[f"{ours}.bias"] = Source(bias if bias in self.shapes else None)
        return _kind(gain)

    def _layer(self, i: int, layers: str, place: str, net: tuple[str, str], offset: float) -> None:
        """One layer: two entries of the list."""
        ours, attention, feed = f"layers.{i}", f"{layers}{2 * i}", f"{layers}{2 * i + 1}"
        for part, theirs in (("query", "to_q"), ("key", "to_k"), ("value", "to_v"), ("output", "to_out")):
            self.sources[f"{ours}.{part}.weight"] = Source(f"{attention}.1.{theirs}.weight")
        if f"{layers}0.1.to_out.bias" in self.shapes:
            self.sources[f"{ours}.output.bias"] = Source(f"{attention}.1.to_out.bias")
        self._norm(f"{ours}.attention_norm", f"{attention}.{place}", offset)
        self._norm(f"{ours}.net_norm", f"{feed}.{place}", offset)
        held, wide = net
        gated = wide == _WIDE[1]
        for kind in ("weight", "bias"):
            theirs = f"{feed}.1.{held}.{wide.removesuffix('weight')}{kind}"
            there = theirs if kind == "weight" or theirs in self.shapes else None
            parts = 2 if gated and there else 1
            self.sources[f"{ours}.widen.{kind}"] = Source(there, 0, parts)
            if gated:  # the gate is the lower half
                self.sources[f"{ours}.gate.{kind}"] = Source(there, parts - 1, parts)
            theirs = f"{feed}.1.{held}.2.{kind}"
            self.sources[f"{ours}.narrow.{kind}"] = Source(
                theirs if kind == "weight" or theirs in self.shapes else None
            )

    def _turned(self, offset: float) -> dict[str, Any]:
        """Rotary positions, if there are any: older versions pair numbers a half apart."""
        rates = f"{self.root}{RATES}"
        if rates not in self.shapes:
            return {}
        self.sources["rates"] = Source(rates)
        layouts = ("neighbours", "halves") if offset else ("halves", "neighbours")
        why = Message("why_gains_around", around=0 if offset else 1)
        return {
            "rotary": size(self.shapes, (rates, 0)),
            "rotary_halves": choice(self.answers, "rotary_pairs", layouts, why) == "halves",
            "rotary_values": choice(self.answers, "rotary_values", (False, True), Message("why_original_default")),
        }

    def _positions(self, embedding: str, d_model: int) -> dict[str, Any]:
        """The table of positions, where there is one; early versions do not scale it."""
        table = f"{self.root}pos_emb.emb.weight"
        if table not in self.shapes:
            return {"positions": "none"}
        newer = embedding.endswith(".emb.weight")
        scaled = choice(self.answers, "positions_scaled", (newer, not newer), Message("why_original"))
        self.sources["positions.table"] = Changed(table, times=d_model**-0.5 if scaled else 1.0)
        return {"positions": "learned", "max_length": size(self.shapes, (table, 0))}


def _heads(inner: int, pairs: int) -> Question:
    """How many heads there are: few enough that each has the numbers that are turned."""
    question = heads_question(inner)
    fitting = tuple(n for n in question.options if inner // n >= 2 * pairs) or question.options[:1]
    default = question.default if question.default in fitting else fitting[-1]
    return replace(question, options=fitting, default=default)


_WIDE = ("0.0.weight", "0.proj.weight")
"""The first map of a net, plain and gated."""


def _kind(gain: str) -> str:
    """Which norm has a gain of this name."""
    return _GAINS[gain.rpartition(".")[2]]

"""Layers of torch.nn.Transformer: how their tensors become ours, and where in a module they stand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from transformer.checkpoint.foreign.layouts.base import Source, linear
from transformer.checkpoint.safe.contents import Shape

_LAYER = re.compile(r"^(?P<path>.*?)(?P<index>\d+)\.self_attn\.in_proj_weight$")
_LONE_LAYER = re.compile(r"^(?P<path>(?:.*\.)?[^.\d][^.]*\.)self_attn\.in_proj_weight$")


@dataclass(frozen=True)
class Stack:
    """Layers that stand one after the other at `path` (`transformer.encoder.layers.`)."""

    path: str
    count: int
    decodes: bool

    @property
    def norm(self) -> str:
        """Where torch's own container keeps the norm after the last layer."""
        return f"{self.path.removesuffix('layers.')}norm"


def stacks(shapes: Mapping[str, Shape]) -> list[Stack]:
    """Every stack of torch's layers, in the order of the file."""
    indices: dict[str, set[str]] = {}
    for name in shapes:
        if layer := _LAYER.match(name):
            indices.setdefault(layer["path"], set()).add(layer["index"])
    return [
        Stack(path, len(found), any(f"{path}{i}.multihead_attn.in_proj_weight" in shapes for i in found))
        for path, found in indices.items()
    ]


def templates(shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Paths of single layers beside the stacks: what nn.TransformerEncoder copied, and never runs itself."""
    return tuple(layer["path"] for name in shapes if (layer := _LONE_LAYER.match(name)))


def attention(ours: str, theirs: str, bias: bool) -> dict[str, Source]:
    """torch.nn.MultiheadAttention, whose query, key and value maps are one matrix."""
    sources = {f"{ours}.output.weight": Source(f"{theirs}.out_proj.weight")}
    for part, name in enumerate(("query", "key", "value")):
        sources[f"{ours}.{name}.weight"] = Source(f"{theirs}.in_proj_weight", part, parts=3)
        if bias:
            sources[f"{ours}.{name}.bias"] = Source(f"{theirs}.in_proj_bias", part, parts=3)
    if bias:
        sources[f"{ours}.output.bias"] = Source(f"{theirs}.out_proj.bias")
    return sources


def layer(ours: str, theirs: str, decodes: bool, bias: bool) -> dict[str, Source]:
    """torch.nn.TransformerEncoderLayer or TransformerDecoderLayer."""
    kinds = {"self": "self_attn", "cross": "multihead_attn"} if decodes else {"self": "self_attn"}
    sources: dict[str, Source] = {}
    for i, (kind, name) in enumerate(kinds.items(), start=1):
        sources |= attention(f"{ours}.{kind}_attention", f"{theirs}.{name}", bias)
        sources |= linear(f"{ours}.{kind}_residual.norm", f"{theirs}.norm{i}", has_bias=bias)
    sources |= linear(f"{ours}.feed_forward.widen", f"{theirs}.linear1", has_bias=bias)
    sources |= linear(f"{ours}.feed_forward.narrow", f"{theirs}.linear2", has_bias=bias)
    return sources | linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.norm{len(kinds) + 1}", has_bias=bias)

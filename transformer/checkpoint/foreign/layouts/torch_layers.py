"""Layers of torch.nn.Transformer: how their tensors become ours, and where in a module they stand."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from transformer.checkpoint.foreign.layouts.base import Source, linear
from transformer.checkpoint.foreign.questions import Answers, choice
from transformer.messages import Message
from transformer.safe.contents import Contents, Shape

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
    crosses = tuple(f"multihead_attn.{one}_proj_weight" for one in ("in", "q"))
    return [
        Stack(path, len(found), any(f"{path}{i}.{one}" in shapes for i in found for one in crosses))
        for path, found in indices.items()
    ]


def norm_after(found: Sequence[Stack], shapes: Mapping[str, Shape], answers: Answers) -> bool:
    """Whether the norms beside the stacks stand after their last layers.

    They do in torch's own container, which holds layers and a norm alone. In a module that holds other things too, a
    `norm` may as well stand before the layers: it is asked, and without an answer it has no place.
    """
    normed = [stack for stack in found if stack.path.endswith("layers.") and f"{stack.norm}.weight" in shapes]
    open_to_doubt = [stack for stack in normed if not _torchs_own(stack, shapes)]
    if not open_to_doubt:
        return bool(normed)
    names = " + ".join(stack.norm for stack in open_to_doubt)
    text = Message("question_norm_after_stack", norms=names)
    return choice(answers, "norm_after_stack", (False, True), Message("why_norm_before"), text)


def _torchs_own(stack: Stack, shapes: Mapping[str, Shape]) -> bool:
    """Whether the module that holds the layers is torch's container: it holds nothing but them and the norm."""
    held = (stack.path, f"{stack.norm}.")
    container = stack.path.removesuffix("layers.")
    return all(name.startswith(held) for name in shapes if name.startswith(container))


def templates(contents: Contents) -> dict[str, str]:
    """Tensors of single layers beside the stacks that nn.TransformerEncoder copied, with the reason to ignore them.

    Such a layer is never trained, so that its norms are as they were made.
    """
    unused = tuple(path for path in lone_layers(contents.tensors) if _untouched(contents, path))
    return {name: Message("ignored_template") for name in contents.tensors if unused and name.startswith(unused)}


def lone_layers(names: Iterable[str]) -> tuple[str, ...]:
    """Paths of single layers beside the stacks."""
    return tuple(found["path"] for name in names if (found := _LONE_LAYER.match(name)))


def _untouched(contents: Contents, path: str) -> bool:
    """Whether a layer's norms are as they were made: gains of 1, shifts of 0."""
    norms = {name: tensor for name, tensor in contents.tensors.items() if name.startswith(f"{path}norm")}
    return bool(norms) and all(bool((t == float(name.endswith("weight"))).all()) for name, t in norms.items())


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


@dataclass(frozen=True)
class Biases:
    """Which parts of a layer have biases: its attention may have none though its norms and its net have."""

    attention: bool
    rest: bool

    @classmethod
    def of(cls, shapes: Mapping[str, Shape], layer: str) -> "Biases":
        """Those of the layer at `layer`."""
        return cls(f"{layer}.self_attn.in_proj_bias" in shapes, f"{layer}.linear1.bias" in shapes)


def layers(ours: str, stack: Stack, biases: Biases, *, has_norm: bool) -> dict[str, Source]:
    """A stack of torch.nn.TransformerEncoderLayer or TransformerDecoderLayer, and the norm after it."""
    kinds = {"self": "self_attn", "cross": "multihead_attn"} if stack.decodes else {"self": "self_attn"}
    sources: dict[str, Source] = {}
    for i in range(stack.count):
        mine, theirs = f"{ours}.{i}", f"{stack.path}{i}"
        for j, (kind, name) in enumerate(kinds.items(), start=1):
            sources |= attention(f"{mine}.{kind}_attention", f"{theirs}.{name}", biases.attention)
            sources |= linear(f"{mine}.{kind}_residual.norm", f"{theirs}.norm{j}", has_bias=biases.rest)
        for part, name in (("widen", "linear1"), ("narrow", "linear2")):
            sources |= linear(f"{mine}.feed_forward.{part}", f"{theirs}.{name}", has_bias=biases.rest)
        last = f"{theirs}.norm{len(kinds) + 1}"
        sources |= linear(f"{mine}.feed_forward_residual.norm", last, has_bias=biases.rest)
    return sources | (linear(f"{ours}_norm", stack.norm, has_bias=biases.rest) if has_norm else {})

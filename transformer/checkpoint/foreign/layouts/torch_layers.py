"""Modules around a whole nn.Transformer or a whole nn.TransformerEncoder, and one net with a plain list of layers.

Layouts: a module around nn.Transformer ("Language Translation with nn.Transformer", PyTorch tutorials); one around
nn.TransformerEncoder ("Language Modeling with nn.TransformerEncoder"), perhaps with scores of the vocabulary; and the
published encoder-only net (`embeding`, spelt so), which keeps its layers in a list and adds positions along the batch.

Around the layers, a tensor plays a role where its full name is one of `ROLES` and its shape that of the role. Shapes
alone settle one role: a linear map with a bias and a row for each token can only score the vocabulary. Nothing else is
read: a file with any other tensor is refused.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ....messages import Message
from ....nn.positions import FORMULAS
from ....nn.seq2seq import preset
from ....nn.stacks import DecoderConfig, EncoderConfig
from ....safe.contents import Contents, Shape
from ..report import Questionnaire
from .base import SIDES, Fit, Source, Sources, attention, linear, linears, root_of, size, sizes_of

UNTOLD = Message("doubt_untold")

PUBLISHED = r"embeding\.weight"
"""The sign of the published encoder-only net."""

_SIDE = ("tok_emb.embedding", "tok_emb", "embed", "embedding", "emb")
ROLES: Mapping[str, tuple[str, ...]] = {
    "source": tuple(f"src_{name}.weight" for name in _SIDE),
    "target": tuple(f"tgt_{name}.weight" for name in _SIDE),
    "tokens": ("embedding.weight", "encoder.weight", "input_emb.weight", "word_embedding.weight", "embeding.weight"),
    "scores": ("generator.weight", "linear.weight", "decoder.weight"),
    "positions": (
        "positional_encoding.pos_embedding", "positional_encoding.pe", "pos_encoder.pe", "pos_embedding",
        "pos_embedding.weight", "position_embedding.weight",
    ),
}  # fmt: skip
"""What tensors of each role are called beside the layers' module: as in PyTorch's tutorials, or as clearly."""

_NORM = ("weight", "bias")
_LAYER = re.compile(r"^(?P<path>.*?)(?P<index>\d+)\.self_attn\.in_proj_weight$")


@dataclass(frozen=True)
class Stack:
    """Layers of one `width`, one after the other at `path` (`net.encoder.layers.`); their parts may have no `bias`."""

    path: str
    count: int
    width: int
    decodes: bool
    bias: bool

    @property
    def container(self) -> str:
        """The path of the module that holds the layers, and perhaps a norm after them."""
        return self.path.removesuffix("layers.")

    @property
    def reason(self) -> Message:
        """How many layers there are, where, and how wide."""
        kind = "decoder" if self.decodes else "encoder"
        return Message(f"reason_{kind}_layers", count=self.count, path=self.path, d_model=self.width)

    def sources(self, ours: str, *, norm: bool) -> Sources:
        """Where the tensors of our stack stand, with those of a `norm` after the layers."""
        kinds = {"self": "self_attn"} | ({"cross": "multihead_attn"} if self.decodes else {})
        names = {f"{kind}_residual.norm": f"norm{i}" for i, kind in enumerate((*kinds, "feed_forward"), start=1)}
        names |= {"feed_forward.widen": "linear1", "feed_forward.narrow": "linear2"}
        found = linear(f"{ours}_norm", f"{self.container}norm", bias=self.bias) if norm else {}
        for i in range(self.count):
            for kind, name in kinds.items():
                theirs = f"{self.path}{i}.{name}"
                outs = f"{theirs}.in_proj_", f"{theirs}.out_proj"
                found |= attention(f"{ours}.{i}.{kind}_attention", *outs, bias=self.bias)
            found |= linears(f"{ours}.{i}.", f"{self.path}{i}.", names, bias=self.bias)
        return found

    def dialect(self, answers: Questionnaire) -> dict[str, Any]:
        """What is asked of any stack of torch's layers."""
        return {
            "n_heads": answers.heads(self.width),
            "norm_first": answers.choice("norm_first", (False, True), Message("why_torch")),
            "activation": answers.choice("activation", ("relu", "gelu"), Message("why_torch")),
            "attention_bias": self.bias,
            "norm_eps": answers.norm_eps(1e-5),
            "scale_embedding": answers.scaled_embedding(),
        }


def stacks_of(shapes: Mapping[str, Shape]) -> list[Stack]:
    """Every stack of torch's layers, in the order of the file."""
    indices: dict[str, set[str]] = {}
    for name in shapes:
        if layer := _LAYER.match(name):
            indices.setdefault(layer["path"], set()).add(layer["index"])
    found = []
    for path, numbers in indices.items():
        decodes = any(f"{path}{i}.multihead_attn.in_proj_weight" in shapes for i in numbers)
        width = size(shapes, (f"{path}0.self_attn.in_proj_weight", 1))
        found.append(Stack(path, len(numbers), width, decodes, f"{path}0.self_attn.in_proj_bias" in shapes))
    return found


def outside(shapes: Mapping[str, Shape], stacks: Iterable[Stack]) -> dict[str, Shape]:
    """The tensors that are of no layer."""
    paths = tuple(stack.path for stack in stacks)
    return {name: shape for name, shape in shapes.items() if not name.startswith(paths)}


class Around:
    """Which tensors outside of the `stacks` play a role beside the module at `core`; None where none does.

    Of several, the first: as the others then have no role, the file is refused.
    """

    def __init__(self, shapes: Mapping[str, Shape], stacks: Collection[Stack], core: str) -> None:
        self.shapes, self.width = outside(shapes, stacks), max(stack.width for stack in stacks)
        self.root = core[: core.rstrip(".").rfind(".") + 1]

    def embedding(self, role: str) -> str | None:
        """The table of a role's tokens."""
        return next((name for name in self._named(role, 2) if bias_of(name) not in self.shapes), None)

    def scores(self, vocab: int) -> str | None:
        """The map to a vocabulary: of such a name, or else with a bias."""
        fitting = [name for name, shape in self.shapes.items() if shape == (vocab, self.width)]
        named = [name for name in self._named("scores", 2) if name in fitting]
        biased = [name for name in fitting if self.shapes.get(bias_of(name)) == (vocab,)]
        return next(iter([*named, *biased]), None)

    def positions(self, answers: Questionnaire) -> tuple[str, str | None]:
        """How positions are told, and their table, which may have an axis for the batch; without one, it is asked."""
        batched = [name for name in self._named("positions", 3) if 1 in self.shapes[name][:2]]
        table = next(iter([*self._named("positions", 2), *batched]), None)
        if table is None:
            return answers.choice("positions", tuple(FORMULAS), Message("why_paper")), None
        return "learned" if table.endswith("weight") else "stored", table

    def _named(self, role: str, n_axes: int) -> list[str]:
        """The tensors with a name of this role, so many axes, and the width of the states."""
        there = [name for one in ROLES[role] if (name := f"{self.root}{one}") in self.shapes]
        return [name for name in there if len(shape := self.shapes[name]) == n_axes and shape[-1] == self.width]


def bias_of(name: str) -> str:
    """The name of the bias that belongs to a weight."""
    return f"{name.removesuffix('weight')}bias"


def torch_module(contents: Contents, answers: Questionnaire, _: str) -> Fit | None:
    """A module around nn.Transformer; None of anything else, and where names leave source, target or scores open.

    Sizes and depths are told by shapes; heads, activation, order of the norms and scaling are asked.
    """
    shapes, stacks = contents.shapes, {stack.path: stack for stack in stacks_of(contents.shapes)}
    core = next((path.removesuffix("encoder.layers.") for path in stacks if path.endswith("encoder.layers.")), "")
    encoder, decoder = (stacks.get(f"{core}{half}.layers.") for half in ("encoder", "decoder"))
    if encoder is None or decoder is None or len(stacks) > 2 or not f".{core}".endswith("."):
        return None
    around = Around(shapes, stacks.values(), core)
    source, target = around.embedding("source"), around.embedding("target")
    scores = around.scores(shapes[target][0]) if target else None
    if source is None or target is None or scores is None:
        return None
    shared, tied, bias = contents.same(source, target), contents.same(scores, target), bias_of(scores) in shapes
    positions, table = around.positions(answers)
    sources = {
        "source_embedding.weight": Source(source),
        **({} if shared else {"target_embedding.weight": Source(target)}),
        **({} if tied else {"projection.weight": Source(scores)}),
        **({"projection.bias": Source(bias_of(scores))} if bias else {}),
        **{f"{side}_positions.table": Source(table) for side in SIDES if table},
        **encoder.sources("encoder", norm=True),
        **decoder.sources("decoder", norm=True),
    }
    config = preset(
        "torch",
        **sizes_of(sources, shapes),
        positions=positions,
        tie_embeddings=shared,
        tie_projection=tied,
        projection_bias=bias,
        **encoder.dialect(answers),
        **answers.seq2seq_ids(),
    )
    copies = (*([target] if shared else []), *([scores] if tied else []))
    return Fit("seq2seq", config, sources, (encoder.reason, decoder.reason), copies, doubt=UNTOLD)


def torch_encoder(contents: Contents, answers: Questionnaire, root: str, *, published: bool) -> Fit | None:
    """A module around nn.TransformerEncoder, or the `published` net, whose positions lie along the batch.

    Sizes and depth are told by shapes; dialect and scaling are asked. None of anything else, and where no name says
    what embeds the tokens. One that hides the future and scores the vocabulary from each position is a decoder alone,
    unless its positions lie along the batch.
    """
    shapes, stacks = contents.shapes, stacks_of(contents.shapes)
    if len(stacks) != 1 or stacks[0].decodes or (root_of(shapes, PUBLISHED) is not None) != published:
        return None
    stack, around = stacks[0], Around(shapes, stacks, stacks[0].container)
    tokens, beside = around.embedding("tokens"), [name for name in around.shapes if name.startswith(stack.container)]
    # torch's own module holds layers and a norm alone: in any other, a norm may as well stand before the layers
    is_own = stack.path.endswith(".layers.") and {f"{stack.container}norm.{one}" for one in _NORM}.issuperset(beside)
    if tokens is None or not (stack.path == f"{root}transformer_encoder." if published else is_own):
        return None
    scores, axis = around.scores(shapes[tokens][0]), "sequence"
    positions, table = around.positions(answers)
    if table and len(shapes[table]) == 3 and shapes[table][0] > 1:
        axes = ("batch", "sequence") if published else ("sequence", "batch")
        axis = answers.choice("position_axis", axes, Message("why_published" if published else "why_tutorials"))
    dialect = stack.dialect(answers)
    why = Message("why_writes" if scores else "why_encoder")
    causal = answers.choice("causal", (False, True), why, is_open=scores is not None)
    decodes = causal and scores is not None and axis == "sequence"
    half, last = ("decoder", "projection") if decodes else ("encoder", "head.0")
    sources = {
        "embedding.weight": Source(tokens),
        **({"positions.table": Source(table)} if table else {}),
        **(linear(last, scores.removesuffix(".weight"), bias=bias_of(scores) in shapes) if scores else {}),
        **stack.sources(half, norm=bool(beside)),
    }
    options = sizes_of(sources, shapes) | dialect
    options |= {"positions": positions, "norm_after_stack": bool(beside), "pad_id": answers.special_id("pad_id", -1)}
    reasons = (stack.reason, Message("reason_no_decoder"))
    if decodes:
        return Fit("decoder", DecoderConfig.of(**options, projection_bias=True), sources, reasons, doubt=UNTOLD)
    head = (options["vocab"],) if scores else ()
    config = EncoderConfig.of(**options, position_axis=axis, causal=causal, head=head)
    return Fit("encoder", config, sources, reasons, doubt=UNTOLD)

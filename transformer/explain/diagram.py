"""The parts of a model as plain values that any page can draw: of this library's models part by part, of others layers.

A diagram has one node for every part that computes something, in the order in which a run takes them; each stands in a
stack, and most in a layer of it. Dropout is left out: it does nothing while a model is looked at. Source: Vaswani et
al. 2017, figure 1 (norm after the sum); Xiong et al. 2020, figure 1 (norm before the sub-layer).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from ..checkpoint.huggingface.model import HUGGING_FACE
from ..errors import CheckpointError
from ..nn.attention import MultiHeadAttention
from ..nn.blocks import Block, norm_kind
from ..sites import Site

NodeKind = Literal[
    "input", "embedding", "positions", "norm", "attention", "feed_forward", "sum", "convolution", "windows",
    "recurrence", "linear", "pooling", "output", "other",
]  # fmt: skip
"""What a node does. `input` stands for the ids that are read, `output` for the distribution or the states that come
out; `sum` is a residual connection; `recurrence` a recurrent net; `other` a part whose work its name alone tells."""

Norms = Literal["before", "after", "none"]
"""Where a layer's norms stand: before its sub-layers, after their sums; `none` where there is none, or nobody knows."""

Shape = tuple[str | int, ...]
"""Axes of one sequence, without the batch: sizes where they are fixed, names (`source`, `target`, `letter`, `window`)
where they follow the input."""


@dataclass(frozen=True)
class Node:
    """One part of the model.

    `name` is the path of its module, or of the place where it stands if it has none; `owns` are the names of the
    model's parameters that belong to it, `parameters` the numbers in them. A parameter that two parts share belongs to
    the first; the other one names it in `shares`. `layer` is empty around the layers. `also_reads` is the node of
    another stack that it reads too. `site` is the attention's name in records. `form` tells one part of a kind from
    another (`relu`, `sinusoidal`, `gru`), `sizes` are those that its shapes do not show (heads, d_ff).
    """

    name: str
    kind: NodeKind
    stack: str
    layer: str
    reads: Shape
    gives: Shape
    parameters: int = 0
    owns: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    site: Site | None = None
    form: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    also_reads: str = ""


@dataclass(frozen=True)
class Diagram:
    """The parts of a model in the order in which they run.

    `norms` says where the layer norms stand in a layer: `before` its sub-layers or `after` their sums. `causal` says
    whether the future is hidden from the (decoder's) self-attention.
    """

    family: str
    kind: Literal["seq2seq", "encoder", "decoder", "recurrent", "classifier"]
    norms: Norms
    causal: bool
    nodes: tuple[Node, ...]

    def __getitem__(self, name: str) -> Node:
        """The node of that name."""
        return next(node for node in self.nodes if node.name == name)

    @property
    def parameters(self) -> int:
        """Numbers in the whole model; those that parts share count once."""
        return sum(node.parameters for node in self.nodes)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every attention, in the order they run."""
        return tuple(node.site for node in self.nodes if node.site is not None)

    @property
    def stacks(self) -> tuple[str, ...]:
        """The names of the stacks, from the first to run."""
        return tuple(dict.fromkeys(node.stack for node in self.nodes))

    def layers(self, stack: str = "") -> tuple[str, ...]:
        """The names of the layers of a stack (of all), from the first to run."""
        return tuple(dict.fromkeys(node.layer for node in self.nodes if node.layer and stack in {"", node.stack}))


SCALED = "scaled"
"""The form of an embedding whose rows are multiplied by the root of d_model."""

STACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "seq2seq": {
        "encoder": ("source_embedding", "source_positions", "source_norm", "encoder", "encoder_norm"),
        "decoder": (
            "target_embedding", "target_positions", "target_norm", "decoder", "decoder_norm", "projection",
        ),
    },
    "encoder": {"encoder": ("embedding", "positions", "encoder", "encoder_norm", "head")},
    "decoder": {"decoder": ("embedding", "positions", "decoder", "decoder_norm", "projection")},
    "kmer": {
        "encoder": ("embedding", "positions", "kmers", "encoder", "encoder_norm", "pooling", "hidden", "classifier"),
    },
}  # fmt: skip
"""The modules of this library's Transformers by stack, in the order in which they run."""


def architecture(model: nn.Module) -> Diagram:
    """The model's parts with their shapes and parameters, without a run.

    Every parameter of the model stands in exactly one node.

    Raises:
        CheckpointError: a model that this library does not know.
    """
    known = str(getattr(model, "architecture", ""))
    if known in STACKS:
        return _transformer(model)
    if known == "recurrent":
        return _recurrent(model)
    if known.startswith(HUGGING_FACE):
        return _other_library(model)
    raise CheckpointError("no_diagram", model=type(model).__name__)


class _Sketch:
    """The parts of one model that have been drawn so far; what follows stands in `stack` and `layer`."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.nodes: list[Node] = []
        self.stack = self.layer = ""
        self._owned: set[str] = set()

    def part(
        self,
        name: str,
        kind: NodeKind,
        reads: Shape,
        gives: Shape | None = None,
        holds: Sequence[nn.Module | nn.Parameter] = (),
        site: Site | None = None,
        form: str = "",
        sizes: Sequence[tuple[str, int]] = (),
        also_reads: str = "",
    ) -> None:
        """A node that gives what it `reads` unless that is said; `holds` are its modules or parameters."""
        every = (module.parameters() if isinstance(module, nn.Module) else (module,) for module in holds)
        found = {self.names[id(parameter)]: parameter.numel() for one in every for parameter in one}
        owns = tuple(key for key in found if key not in self._owned)
        self._owned.update(owns)
        counted, shared = sum(found[key] for key in owns), tuple(key for key in found if key not in owns)
        place = name, kind, self.stack, self.layer, reads, reads if gives is None else gives
        self.nodes.append(Node(*place, counted, owns, shared, site, form, tuple(sizes), also_reads))

    def norm(self, name: str, module: nn.Module, shape: Shape) -> None:
        """A layer norm, where the model has one: an `nn.Identity` in its place is no part."""
        if not isinstance(module, nn.Identity):
            self.part(name, "norm", shape, holds=[module], form=norm_kind(module))


def _transformer(model: Any) -> Diagram:
    """The parts of one of this library's Transformers, stack by stack."""
    config, sketch = model.config, _Sketch(model)
    shape: Shape = ()
    memory = ""
    for stack, names in STACKS[model.architecture].items():
        sketch.stack, memory = stack, sketch.nodes[-1].name if sketch.nodes else ""
        read = "letter" if model.abilities.reads_windows else "target" if stack == "decoder" else "source"
        name, shape = "target" if read == "target" else "source", (read, config.block.d_model)
        sketch.part(name, "input", (read,), sizes=[("vocab", getattr(model, names[0]).num_embeddings)])
        for name in names:
            shape = _drawn(sketch, name, getattr(model, name), shape, config, memory)
    end = "softmax" if model.architecture != "encoder" else "logits" if config.head else "states"
    sketch.part("output", "output", shape, form=end)
    kind: Any = "classifier" if model.abilities.reads_windows else model.architecture
    causal = getattr(config, "causal", not model.abilities.reads_windows)
    norms: Norms = "before" if config.block.norm_first else "after"
    return Diagram(model.architecture, kind, norms, causal, tuple(sketch.nodes))


def _drawn(sketch: _Sketch, name: str, module: Any, shape: Shape, config: Any, memory: str) -> Shape:
    """One module, by its name in `STACKS`; the shape that comes out."""
    match name.rpartition("_")[2]:
        case "embedding":
            form = SCALED if config.scale_embedding else ""
            sketch.part(name, "embedding", shape[:1], shape, [module], form=form)
        case "positions":
            if config.positions.kind != "none":
                sketch.part(name, "positions", shape, holds=[module], form=config.positions.kind)
        case "norm":
            sketch.norm(name, module, shape)
        case "encoder" | "decoder":
            for i, layer in enumerate(module):
                sketch.layer = f"{name}.{i}"
                _layer(sketch, layer, i, shape, config.block.activation, memory)
            sketch.layer = ""
        case "kmers":  # convolutions make windows of letters
            windows: Shape = ("window", config.block.d_model)
            for i, (convolution, width) in enumerate(zip(module.convolutions, config.widths, strict=True)):
                part = f"kmers.convolutions.{i}"
                sketch.part(part, "convolution", shape, windows, [convolution], sizes=[("width", width)])
            sketch.part("kmers", "windows", windows)
            sketch.norm("kmers.norm", module.norm, windows)
            return windows
        case "pooling":
            return _pooling(sketch, module, shape, config)
        case "head":
            return _head(sketch, module, shape)
        case _:
            return _linear(sketch, name, module, shape, "relu" if name == "hidden" else "")
    return shape


def _pooling(sketch: _Sketch, module: nn.Module, shape: Shape, config: Any) -> Shape:
    """The mean of all windows, or what attention takes of them."""
    if config.pooling != "attention":
        sketch.part("pooling", "pooling", shape, (config.block.d_model,), form=config.pooling)
        return (config.block.d_model,)
    pooled: Shape = (config.n_questions * config.block.d_model,)
    sizes = [("n_heads", config.block.attention.n_heads), ("n_queries", config.n_questions)]
    sketch.part("pooling", "attention", shape, pooled, [module], Site("pooling"), config.pooling, sizes)
    return pooled


def _head(sketch: _Sketch, module: Any, shape: Shape) -> Shape:
    """The linear maps after an encoder's layers, where there are some."""
    for i, linear in enumerate(module):
        shape = _linear(sketch, f"head.{i}", linear, shape, "relu" if i else "")
    return shape


def _linear(sketch: _Sketch, name: str, module: nn.Linear, shape: Shape, form: str) -> Shape:
    gives = (*shape[:-1], module.out_features)
    sketch.part(name, "linear", shape, gives, [module], form=form)
    return gives


def _layer(sketch: _Sketch, layer: Block, number: int, shape: Shape, activation: str, memory: str) -> None:
    """The sub-layers of one layer, each with its norm and the residual connection past it."""
    block, axis = sketch.layer, str(shape[0])
    for part in ("self", "cross", "feed_forward"):
        residual = getattr(layer, f"{part}_residual", None)
        if residual is None:
            continue
        name = f"{block}.{part}_residual"
        if residual.norm_first:
            sketch.norm(f"{name}.norm", residual.norm, shape)
        if part == "feed_forward":
            net = layer.feed_forward
            sizes = [("d_ff", net.widen.out_features)]
            sketch.part(f"{block}.feed_forward", "feed_forward", shape, holds=[net], form=activation, sizes=sizes)
        else:
            crosses = part == "cross"
            module: MultiHeadAttention = getattr(layer, f"{part}_attention")
            sketch.part(
                f"{block}.{part}_attention", "attention", shape, holds=[module],
                site=Site.of(sketch.stack, number, part), form=f"over {'source' if crosses else axis}",
                sizes=_attention_sizes(module), also_reads=memory if crosses else "",
            )  # fmt: skip
        sketch.part(name, "sum", shape)
        if not residual.norm_first:
            sketch.norm(f"{name}.norm", residual.norm, shape)


def _attention_sizes(module: MultiHeadAttention) -> list[tuple[str, int]]:
    d_k, d_v = module.query.out_features // module.n_heads, module.value.out_features // module.n_heads
    divisor = round(module.core.scale**-2)  # scores are divided by its root
    usual = [("n_heads", module.n_heads), ("d_k", d_k), ("d_v", d_v)]
    return usual if divisor == d_k else [*usual, ("divides_by", divisor)]


def _recurrent(model: Any) -> Diagram:
    """Two recurrent nets; at each step the decoder's last state says where to look in the source."""
    config, sketch = model.config, _Sketch(model)
    features, width = config.source_features, config.embedding_size
    sketch.stack = "encoder"
    source: Shape = ("source", width)
    sketch.part("source", "input", ("source",), sizes=[("vocab", config.source_vocab)])
    sketch.part("source_embedding", "embedding", ("source",), source, [model.source_embedding])
    ways = "both ways" if config.encoder.bidirectional else "forward"
    sketch.part("encoder", "recurrence", source, ("source", features), [model.encoder], form=ways)
    if config.bridges:
        sketch.part("bridge", "linear", (2 * config.read_size,), (config.decoder.hidden,), [model.bridge], form="tanh")
    sketch.stack = "decoder"
    target: Shape = ("target", width)
    state: Shape = ("target", config.decoder.hidden)
    output: Shape = ("target", config.output_size)
    words: Shape = ("target", config.target_vocab)
    sketch.part("target", "input", ("target",), sizes=[("vocab", config.target_vocab)])
    sketch.part("target_embedding", "embedding", ("target",), target, [model.target_embedding])

    def look() -> None:
        sketch.part(
            "attention", "attention", state, ("target", features), [model.attention], Site("decoder.cross"),
            config.attention.kind, [("n_heads", 1)], "encoder",
        )  # fmt: skip

    if not config.attention.after:
        look()
    if len(model.combine):
        sketch.part("combine", "linear", ("target", width + features), state, [model.combine], form="relu")
    reads: Shape = ("target", model.decoder.weight_ih.shape[1])
    sketch.part("decoder", "recurrence", reads, state, [model.decoder, model.upper], form="forward")
    if config.attention.after:
        look()
    if config.attention.after or config.decoder.deep_output:
        seen = config.decoder.hidden + features + (0 if config.attention.after else width)
        sketch.part("deepen", "linear", ("target", seen), output, [model.deepen], form="tanh")
    sketch.part("projection", "linear", output, words, [model.projection])
    sketch.part("output", "output", words, form="softmax")
    return Diagram(model.architecture, "recurrent", "none", True, tuple(sketch.nodes))


def _other_library(model: Any) -> Diagram:
    """A plain stack or two: tokens, what stands around the layers, and of each layer its attention and the rest.

    A layer is an element of a list of modules that holds attention. In which order the rest runs is not known.
    """
    sketch, config, net = _Sketch(model), model.config, model.net
    layers = _layers(model)
    inside = {id(one) for layer in layers for one in model.get_submodule(layer).parameters()}
    shape: Shape = ()
    memory = ""
    for stack in ("encoder", "decoder") if config.kind == "seq2seq" else (config.kind,):
        sketch.stack, memory = stack, sketch.nodes[-1].name if sketch.nodes else ""
        axis = "target" if stack == "decoder" else "source"
        module = net if config.kind != "seq2seq" else net.get_decoder() if axis == "target" else net.get_encoder()
        table, shape = module.get_input_embeddings(), (axis, model.embedding.embedding_dim)
        sketch.part(axis, "input", (axis,), sizes=[("vocab", table.num_embeddings)])
        sketch.part(f"{stack}.embedding", "embedding", (axis,), shape, [table])
        around = [one for one in module.parameters() if id(one) not in inside and one is not table.weight]
        scores = net.get_output_embeddings()
        around = [one for one in around if scores is None or all(one is not other for other in scores.parameters())]
        if around:
            sketch.part(f"{stack}.parts", "other", shape, holds=around)
        for layer, homes in layers.items():
            if next(iter(homes)).stack == stack:
                sketch.layer = layer
                _attending(sketch, layer, homes, shape, memory, model)
        sketch.layer = ""
    writes = config.writes
    gives: Shape = (*shape[:-1], config.target_vocab) if writes else shape
    owned = {name for node in sketch.nodes for name in node.owns}
    left = [one for one in model.parameters() if sketch.names[id(one)] not in owned]
    sketch.part("output", "output", shape, gives, left, form="softmax" if writes else "states")
    return Diagram(config.family, config.kind, "none", config.kind != "encoder", tuple(sketch.nodes))


def _attending(sketch: _Sketch, layer: str, homes: dict[Site, str], shape: Shape, memory: str, model: Any) -> None:
    """One layer: its attention, then the rest of it."""
    for site, home in homes.items():
        crosses = site.kind == "cross"
        sketch.part(
            f"{layer}.{site.kind}_attention", "attention", shape, holds=[model.get_submodule(home)], site=site,
            form=f"over {'source' if crosses else shape[0]}",
            sizes=[("n_heads", model.net.config.num_attention_heads)], also_reads=memory if crosses else "",
        )  # fmt: skip
    taken = {id(one) for home in homes.values() for one in model.get_submodule(home).parameters()}
    rest = [one for one in model.get_submodule(layer).parameters() if id(one) not in taken]
    sketch.part(f"{layer}.parts", "other", shape, holds=rest)


def _layers(model: Any) -> dict[str, dict[Site, str]]:
    """The modules of each layer's attention by site."""
    names = {id(module): name for name, module in model.named_modules()}
    found: dict[str, dict[Site, str]] = {}
    for site, module in model.attending().items():
        home = names[id(module)]
        parts = home.split(".")
        lists = (i for i in range(1, len(parts)) if parts[i].isdecimal())
        at = next((i for i in lists if isinstance(model.get_submodule(".".join(parts[:i])), nn.ModuleList)), None)
        layer = home if at is None else ".".join(parts[: at + 1])  # the outermost list that it stands in
        found.setdefault(layer, {})[site] = home
    return found

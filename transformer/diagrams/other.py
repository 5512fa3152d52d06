"""Diagrams of Hugging Face folders, from the names and kinds of their modules.

A layer is an element of a list of modules that holds attention. In it, each attention takes the modules around its own
up to the layer's next part; norms are what is called so; the rest is its feed-forward net. Where the family's order of
norms and sub-layers is not known, or a layer does not hold the parts that the order needs, its parts stand in the order
in which the model declares them, and the diagram says that it does not know.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import nn

from transformer.checkpoint.huggingface.model import HEADED, HuggingFaceModel
from transformer.diagrams.diagram import Diagram, NodeKind, Norms, Shape
from transformer.diagrams.families import NORMS_AFTER, NORMS_BEFORE
from transformer.diagrams.sketch import Sketch
from transformer.sites import Site


@dataclass
class _Layer:
    """What one layer holds, in the order in which it is declared: attention by site, norms, and all else.

    Where the model's attention is not known, all is in `net`.
    """

    name: str
    stack: str
    attention: dict[Site, list[nn.Module]] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(default_factory=dict)
    net: list[nn.Module] = field(default_factory=list)

    @property
    def sub_layers(self) -> list[tuple[str, list[nn.Module], Site | None]]:
        """Name, modules and site of each sub-layer, in the order of the paper: attention, then the net."""
        found: list[tuple[str, list[nn.Module], Site | None]] = [
            (f"{self.name}.{site.kind}_attention", held, site) for site, held in self.attention.items()
        ]
        net = f"{self.name}.feed_forward" if found else f"{self.name}.parts"
        return [*found, (net, self.net, None)] if self.net else found


def hugging_face(model: HuggingFaceModel) -> Diagram:
    """The diagram of a folder's model: both stacks, or one."""
    sketch, config = Sketch(model), model.config
    leaves = {name: module for name, module in model.named_modules() if _own_parameters(module)}
    layers = _layers(model, leaves)
    inside = {id(m) for layer in layers for parts in (*layer.attention.values(), layer.net) for m in parts}
    inside |= {id(m) for layer in layers for m in layer.norms.values()}
    outside = {name: module for name, module in leaves.items() if id(module) not in inside}
    norms = _norms(config.family, layers)
    ends = _Ends(sketch, model, outside)
    width = model.embedding.embedding_dim
    memory = state = ""
    shape: Shape = ()
    stacks = ("encoder", "decoder") if config.kind == "seq2seq" else (config.kind,)
    for stack in stacks:
        shape = ("target" if stack == "decoder" else "source", width)
        sketch.block(stack, "decoder" if stack == "decoder" else "encoder")
        state = ends.before(stack, shape, config.target_vocab if stack == "decoder" else config.source_vocab)
        for layer in (found for found in layers if found.stack == stack):
            state = _drawn(sketch, layer, norms, shape, state, memory, model)
        state = ends.after(stack, shape, state)
        memory = memory or state
    ends.finish(stacks[-1], shape, config.target_vocab, state)
    return Diagram(
        config.family, config.kind, norms, config.kind != "encoder",
        tuple(sketch.nodes), tuple(sketch.edges), tuple(sketch.blocks),
    )  # fmt: skip


def _own_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _layers(model: HuggingFaceModel, leaves: dict[str, nn.Module]) -> list[_Layer]:
    """Every layer that holds attention whose module is known, in the order of its sites."""
    homes = _homes(model)
    found: dict[str, _Layer] = {}
    for site, home in homes.items():
        layer = _layer_of(model, home)
        found.setdefault(layer, _Layer(layer, site.stack)).attention[site] = []
    if not homes:
        found = {name: _Layer(name, stack) for stack, name in _unread_layers(model)}
    for name, module in leaves.items():
        owner = next((layer for key, layer in found.items() if name.startswith(f"{key}.")), None)
        if owner is None:
            continue
        nearest = _nearest(name, {site: homes[site] for site in owner.attention}, owner.name)
        if nearest is not None and (not _is_norm(module) or name.startswith(f"{homes[nearest]}.")):
            owner.attention[nearest].append(module)
        elif _is_norm(module) and owner.attention:
            owner.norms[name] = module
        else:
            owner.net.append(module)
    return list(found.values())


def _homes(model: HuggingFaceModel) -> dict[Site, str]:
    """The name of the module of each attention, where it is known.

    A model whose attention is seen as it runs tells. In another one, attention is what is called so and holds no more
    of it, if there are as many of a kind as the model has sites.
    """
    if attending := model.attending():
        names = {id(module): name for name, module in model.named_modules()}
        return {site: names[id(module)] for site, module in attending.items()}
    named = [name for name, module in model.named_modules() if "attention" in type(module).__name__.lower()]
    named = [name for name in named if not any(other.startswith(f"{name}.") for other in named)]
    groups: dict[str, list[str]] = {}
    for name in named:
        groups.setdefault(_group(name, model.config.kind), []).append(name)
    found: dict[Site, str] = {}
    for group in dict.fromkeys(site.group for site in model.sites):
        sites = [site for site in model.sites if site.group == group]
        if len(sites) != len(groups.get(group, ())):
            return {}
        found |= dict(zip(sites, groups[group], strict=True))
    order = sorted(found, key=lambda site: (site.stack == "decoder", site.layer or 0, site.kind == "cross"))
    return {site: found[site] for site in order}


def _group(name: str, kind: str) -> str:
    """Stack and kind of an attention, by the words in its path."""
    if kind != "seq2seq":
        return f"{kind}.self"
    parts = name.lower().split(".")
    if "decoder" not in parts:
        return "encoder.self"
    crosses = any(word in parts[-1] for word in ("cross", "encoder_attn", "encdec"))
    return "decoder.cross" if crosses else "decoder.self"


def _layer_of(model: nn.Module, home: str) -> str:
    """The element of a list of modules in which an attention stands: the outermost one."""
    parts = home.split(".")
    for i in range(1, len(parts)):
        if parts[i].isdecimal() and isinstance(model.get_submodule(".".join(parts[:i])), nn.ModuleList):
            return ".".join(parts[: i + 1])
    return home


def _nearest(name: str, homes: dict[Site, str], layer: str) -> Site | None:
    """Which attention a module of a layer belongs to: the one with which it shares a part of the layer.

    A part of the layer is its child; where children are numbered lists (T5), an element of the list.
    """
    part = _part(name, layer)
    shared = [site for site, home in homes.items() if _part(home, layer) == part]
    return shared[0] if len(shared) == 1 else None


def _unread_layers(model: HuggingFaceModel) -> list[tuple[str, str]]:
    """Stack and name of the layers of a model whose attention could not be found among its modules."""
    lists = [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    outermost = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists)]
    both = model.config.kind == "seq2seq"
    return [
        ("decoder" if both and "decoder" in name.split(".") else "encoder" if both else model.config.kind,
         f"{name}.{i}")
        for name in outermost
        for i in range(len(model.get_submodule(name)))  # type: ignore[arg-type]
    ]  # fmt: skip


def _part(name: str, layer: str) -> str:
    parts = name.removeprefix(f"{layer}.").split(".")
    return ".".join(parts[:2]) if len(parts) > 1 and parts[1].isdecimal() else parts[0]


def _norms(family: str, layers: Sequence[_Layer]) -> Norms:
    """Where the norms stand, as far as the family's order is known and every layer has one norm a sub-layer."""
    whole = bool(layers) and all(len(found.norms) == len(found.sub_layers) for found in layers)
    if whole and family in NORMS_BEFORE:
        return "before"
    return "after" if whole and family in NORMS_AFTER else "unknown"


def _drawn(
    sketch: Sketch, layer: _Layer, norms: Norms, shape: Shape, state: str, memory: str, model: HuggingFaceModel
) -> str:
    """One layer after the node `state`: its sub-layers in the order of the paper, self, cross, feed-forward."""
    block = sketch.block(layer.name, "layer", layer.stack)
    normed = iter(layer.norms.items())

    def norm(state: str) -> str:
        name, module = next(normed)
        return sketch.part(name, "norm", block, shape, shape, [module], state)

    for name, held, site in layer.sub_layers:
        read = norm(state) if norms == "before" else state
        if site is None:
            kind: NodeKind = "feed_forward" if layer.attention else "other"
            found = sketch.part(name, kind, block, shape, shape, held, read)
        else:
            form = f"over {'source' if site.kind == 'cross' else shape[0]}"
            sizes = [("n_heads", model.net.config.num_attention_heads)]
            found = sketch.part(name, "attention", block, shape, shape, held, read, site=site, form=form, sizes=sizes)
            if site.kind == "cross":
                sketch.join(memory, found, "cross")
        if norms == "unknown":
            state = found
            continue
        total = sketch.part(f"{name}.sum", "sum", block, shape, shape, after=found)
        sketch.join(state, total, "residual")
        state = norm(total) if norms == "after" else total
    for _ in layer.norms if norms == "unknown" else ():
        state = norm(state)
    return state


class _Ends:
    """What stands before and after the layers: tables, norms, the output layer."""

    def __init__(self, sketch: Sketch, model: HuggingFaceModel, outside: dict[str, nn.Module]) -> None:
        self.sketch, self.model = sketch, model
        self.outside = outside
        self.alone = model.config.kind != "seq2seq"

    def before(self, stack: str, shape: Shape, vocab: int) -> str:
        """Tokens, their table, positions and whatever else stands before the layers; the last node's name."""
        axis = shape[:1]
        net = self.model.net
        reader = net if self.alone else net.get_decoder() if stack == "decoder" else net.get_encoder()
        table = reader.get_input_embeddings()
        read = self.sketch.part(str(axis[0]), "input", stack, axis, axis, sizes=[("vocab", vocab)])
        state = self.sketch.part(f"{stack}.embedding", "embedding", stack, axis, shape, [table], read)
        for name, module in self._take(stack, _stands_before):
            if isinstance(module, nn.Embedding) and module.weight is table.weight:
                continue
            kind: NodeKind = "norm" if _is_norm(module) else "other"
            if isinstance(module, nn.Embedding):
                kind = "positions" if "position" in name or name.endswith("wpe") else "embedding"
            state = self.sketch.part(name, kind, stack, shape, shape, [module], state)
        return state

    def after(self, stack: str, shape: Shape, state: str) -> str:
        """The norms after the layers of a stack; the last node's name."""
        for name, module in self._take(stack, lambda _, module: _is_norm(module)):
            state = self.sketch.part(name, "norm", stack, shape, shape, [module], state)
        return state

    def finish(self, stack: str, states: Shape, vocab: int, state: str) -> None:
        """What is left: the output layer of a model that writes; anything else reads the states beside it."""
        writes = self.model.config.writes
        shape: Shape = (*states[:-1], vocab) if writes else states
        last = state
        for name, module in self.outside.items():
            if writes and isinstance(module, nn.Linear) and module.out_features == vocab:
                last = self.sketch.part(name, "linear", stack, states, shape, [module], state)
            else:
                self.sketch.part(name, "other", stack, states, states, [module], state)
        self.sketch.part("output", "output", stack, shape, shape, after=last, form="softmax" if writes else "states")

    def _take(self, stack: str, wanted: Callable[[str, nn.Module], bool]) -> list[tuple[str, nn.Module]]:
        """The modules of a stack that are wanted, which are then no longer outside; by name where there are two."""

        def is_of(name: str) -> bool:
            named = {"encoder", "decoder"} & set(name.split("."))
            below = not name.startswith(f"{HEADED}.")  # what reads the states stands in no stack
            return below and (self.alone or stack in named or (not named and stack == "encoder"))

        found = [(name, module) for name, module in self.outside.items() if is_of(name) and wanted(name, module)]
        for name, _ in found:
            del self.outside[name]
        return found


def _stands_before(name: str, module: nn.Module) -> bool:
    """Whether a part outside of the layers stands before them: a table, or what its name counts to the embedding."""
    return isinstance(module, nn.Embedding) or "emb" in name.lower()

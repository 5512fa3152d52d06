"""Diagrams of Hugging Face folders: the attention that recording sees, and the rest of each layer as one part.

A layer is an element of a list of modules that holds attention. In which order the rest of it runs is not known.
"""

from collections.abc import Callable

from torch import nn

from transformer.checkpoint.huggingface.model import HEADED, HuggingFaceModel
from transformer.explain.diagrams.diagram import Diagram, NodeKind, Norms, Shape
from transformer.explain.diagrams.sketch import Sketch
from transformer.sites import Site


def hugging_face(model: HuggingFaceModel) -> Diagram:
    """The diagram of a folder's model: both stacks, or one.

    `norms` is `before` where a norm stands after the layers, which a stack that norms its sums has no need of.
    """
    sketch, config = Sketch(model), model.config
    layers = _layers(model)
    leaves = {name: module for name, module in model.named_modules() if _own_parameters(module)}
    outside = {
        name: module for name, module in leaves.items() if not any(name.startswith(f"{layer}.") for layer in layers)
    }
    ends = _Ends(sketch, model, outside)
    width = model.embedding.embedding_dim
    memory = state = ""
    shape: Shape = ()
    norms: Norms = "none"
    stacks = ("encoder", "decoder") if config.kind == "seq2seq" else (config.kind,)
    for stack in stacks:
        shape = ("target" if stack == "decoder" else "source", width)
        sketch.block(stack, "decoder" if stack == "decoder" else "encoder")
        state = ends.before(stack, shape, config.target_vocab if stack == "decoder" else config.source_vocab)
        for layer, (of, homes) in layers.items():
            if of == stack:
                state = _drawn(sketch, layer, homes, shape, state, memory, model)
        last, state = state, ends.after(stack, shape, state)
        norms = "after" if last == state else "before"
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


def _layers(model: HuggingFaceModel) -> dict[str, tuple[str, dict[Site, str]]]:
    """The stack of each layer, and the modules of its attention by site."""
    names = {id(module): name for name, module in model.named_modules()}
    found: dict[str, tuple[str, dict[Site, str]]] = {}
    for site, module in model.attending().items():
        home = names[id(module)]
        found.setdefault(_layer_of(model, home), (site.stack, {}))[1][site] = home
    return found


def _layer_of(model: nn.Module, home: str) -> str:
    """The element of a list of modules in which an attention stands: the outermost one."""
    parts = home.split(".")
    for i in range(1, len(parts)):
        if parts[i].isdecimal() and isinstance(model.get_submodule(".".join(parts[:i])), nn.ModuleList):
            return ".".join(parts[: i + 1])
    return home


def _drawn(
    sketch: Sketch, layer: str, homes: dict[Site, str], shape: Shape, state: str, memory: str, model: HuggingFaceModel
) -> str:
    """One layer after the node `state`: its attention, then the rest of it."""
    block = sketch.block(layer, "layer", "decoder" if shape[0] == "target" else "encoder")
    for site, home in homes.items():
        form = f"over {'source' if site.kind == 'cross' else shape[0]}"
        sizes = [("n_heads", model.net.config.num_attention_heads)]
        held = [model.get_submodule(home)]
        state = sketch.part(
            f"{layer}.{site.kind}_attention", "attention", block, shape, shape, held, state,
            site=site, form=form, sizes=sizes,
        )  # fmt: skip
        if site.kind == "cross":
            sketch.join(memory, state, "cross")
    taken = {id(one) for home in homes.values() for one in model.get_submodule(home).parameters()}
    rest = [one for one in model.get_submodule(layer).parameters() if id(one) not in taken]
    return sketch.part(f"{layer}.parts", "other", block, shape, shape, rest, state)


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

"""What is said of a part: its name, its formula with this model's sizes, its shapes in this run, its parameters."""

from collections.abc import Mapping

from transformer.explain.diagrams.diagram import Diagram, Node, Shape
from ui.components.map.component import Part
from ui.map.rows import Tower
from ui.map.runs import Shown
from ui.texts import plain

TIMES = "\N{MULTIPLICATION SIGN}"


def formula(node: Node, diagram: Diagram) -> str:
    """What a part computes, in plain characters, with this model's sizes; empty where that is not known."""
    sizes = dict(node.sizes)
    code, fields = "", dict[str, object]()
    match node.kind:
        case "attention" if node.form in {"additive", "location", "dot", "general"}:
            code = node.form
        case "attention":
            code, fields = (
                "masked" if is_masked(node, diagram) else "attention",
                {"d_k": sizes.get("divides_by", sizes.get("d_k", "d_k"))},
            )
        case "norm" if node.form in {"torch", "annotated"}:
            code = f"norm_{node.form}"
        case "sum":
            code = "sum_after" if diagram.norms == "after" else "sum_before"
        case "feed_forward" if node.form:
            code, fields = "feed_forward", {"activation": node.form}
        case "embedding" if node.form == "scaled":
            code, fields = "embedding_scaled", {"d_model": node.gives[-1]}
        case "linear" if node.form:
            code, fields = "linear_bent", {"activation": node.form}
        case "convolution":
            code, fields = "convolution", {"width": sizes["width"]}
        case "output" if node.form == "softmax":
            code = "output"
        case "embedding" | "positions" | "linear" | "recurrence":
            code = node.kind
    return plain(f"map.formula_{code}", **fields) if code else ""


def is_masked(node: Node, diagram: Diagram) -> bool:
    """Whether the future is hidden from an attention."""
    if node.site is None or node.site.kind != "self" or not diagram.causal:
        return False
    return node.site.stack == "decoder" or diagram.kind == "encoder"


def axis_lengths(shown: Shown) -> dict[str, int]:
    """How long each named axis is in this run."""
    windows = len(shown.steps) if shown.translation is None else 0
    return {
        "source": len(shown.source), "target": len(shown.read or shown.source), "letter": len(shown.source),
        "window": windows,
    }  # fmt: skip


def described(node: Node, diagram: Diagram, lengths: Mapping[str, int]) -> Part:
    """One part in words."""
    sizes = dict(node.sizes)
    facts = [plain("map.shapes", reads=_shape(node.reads, lengths), gives=_shape(node.gives, lengths))]
    if "n_heads" in sizes:
        facts.append(plain("map.heads", count=sizes["n_heads"]))
    if "d_ff" in sizes:
        facts.append(plain("map.hidden_units", count=sizes["d_ff"]))
    if node.parameters:
        facts.append(plain("map.parameters", count=node.parameters))
    if node.shares:
        facts.append(plain("map.shared", names=", ".join(node.shares)))
    facts.append(plain("map.module", name=node.name))
    return Part(
        node.name, node.kind, title_of(node, diagram), purpose(node, diagram), formula(node, diagram), tuple(facts)
    )


def purpose(node: Node, diagram: Diagram) -> str:
    """What a part does, in one plain sentence with this model's sizes; empty where its name alone tells it."""
    if node.kind == "other":
        return ""
    name: str = node.kind
    if node.kind == "attention" and node.site is not None:
        kind = node.site.kind if node.site.kind in {"self", "cross"} else "pooling"
        name = f"{'masked' if is_masked(node, diagram) else kind}_attention"
    return plain(f"map.does_{name}", size=node.gives[-1] if node.gives else "", **dict(node.sizes))


def title_of(node: Node, diagram: Diagram) -> str:
    """What a part is called."""
    if node.kind == "attention" and node.site is not None:
        kind = node.site.kind if node.site.kind in {"self", "cross"} else "pooling"
        return plain(f"map.kind_{'masked' if is_masked(node, diagram) else kind}_attention")
    if node.kind == "other":
        return node.name
    return plain(f"map.kind_{node.kind}")


def tower_title(tower: Tower) -> str:
    """The stack, and how many layers it has."""
    stack = "encoder" if tower.name == "encoder" else "decoder"
    if not tower.n_layers:
        return plain(f"map.{stack}")
    return plain("map.tower", stack=plain(f"map.{stack}"), count=tower.n_layers)


def where(node: Node, diagram: Diagram) -> str:
    """The stack, and the layer, in which a part stands."""
    layers = {block.name: block.within for block in diagram.blocks if block.kind == "layer"}
    stack = layers.get(node.block, node.block)
    name = plain("map.encoder" if stack == "encoder" else "map.decoder")
    if node.block not in layers:
        return name
    number = [block for block, within in layers.items() if within == stack].index(node.block)
    return plain("map.layer_of", stack=name, layer=number)


def headline(diagram: Diagram, languages: tuple[str, str], answer: str) -> str:
    """What goes in and what comes out, with a place for the word that is being written; `answer` is a class."""
    if diagram.kind in {"seq2seq", "recurrent"}:
        return plain(f"map.headline_{diagram.kind}", read=languages[0], written=languages[1], word="{word}")
    return plain(f"map.headline_{'answer' if answer else diagram.kind}", answer=answer)


def identity(diagram: Diagram) -> str:
    """What the model is, in one line: its stacks, where its norms stand, what its mask hides, how large it is."""
    hides = "map.causal" if diagram.causal else f"map.not_causal_{diagram.kind}"
    said = [plain(f"map.is_{diagram.kind}")]
    if diagram.kind == "recurrent":
        said.append(plain("map.no_mask_needed"))
    else:
        said += [plain(f"map.norms_{diagram.norms}"), plain(hides)]
    said.append(plain("map.parameters", count=diagram.parameters))
    return plain("map.comma").join(said)


def _shape(shape: Shape, lengths: Mapping[str, int]) -> str:
    named = (f"{plain(f'map.axis_{axis}')} {lengths[axis]}" if isinstance(axis, str) else str(axis) for axis in shape)
    return f" {TIMES} ".join(named)

"""The map of one run: its towers from the diagram and from what flowed, and what is said of each part.

Parts stand in rows from the bottom up, in the order in which they run. A sub-layer takes a row with its norm and its
residual sum; what stands around the layers shares rows. Of many layers some are slim: one row each, which shows only
how much each of their sub-layers adds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heedmap.explain.diagram import Diagram, Node, Shape
from heedmap.plots.axes import WORD_START
from heedmap.plots.labels import readable
from ui.components.map.component import ALL, Heads, MapSteps, Part, Row, Tower, sure_heads
from ui.map.shown import MOST_DECIDED, Shown
from ui.texts import language, plain

MOST_ROWS = 12
"""Rows of sub-layers in a tower up to which every layer is drawn whole."""

ABREAST = 3
"""Boxes of parts around the layers that share a row."""

ALONE = frozenset(("attention", "feed_forward", "recurrence", "other"))
"""Kinds that take a row for themselves."""

CODES = 60_000
"""Cells of all thumbnails together, at most: a byte each."""

LARGEST_SIDE = 40
"""Cells along a thumbnail's side, at most."""

OUTPUTS = 4
"""Outputs that stand above the last tower."""

TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, eq=False)
class Drawing:
    """What the component draws; by a part's name, `parts` and where each of them stands."""

    towers: tuple[Tower, ...]
    parts: Mapping[str, Part]
    wheres: Mapping[str, str]
    steps: MapSteps
    can_fold: bool

    @property
    def legend(self) -> str:
        """How to read what is drawn here."""
        rows = [row for tower in self.towers for row in tower.rows]
        crosses = any(row.heads is not None and row.crosses for row in rows)
        shown = {
            "stream": any(tower.found for tower in self.towers),
            "heads": any(row.heads is not None for row in rows),
            "lights": crosses,
            "decided": any(self.steps.decided),
            "undecided": crosses and not self.steps.decided,
            "active": any(row.active is not None for row in rows),
        }
        return " ".join(plain(f"map.legend_{name}", most=MOST_DECIDED) for name, is_drawn in shown.items() if is_drawn)

    def is_last(self, part: str) -> bool:
        """Whether a part stands in the last tower."""
        return any(node.name == part for node in self.towers[-1].nodes)

    def source_at(self, step: int) -> int:
        """The source word that a step looks at most: by the surest heads of all cross-attentions; `ALL` for none."""
        lights = np.zeros(len(self.towers[0].words))
        for row in self.towers[-1].rows:
            if row.heads is not None and row.crosses and 0 <= step < len(row.heads.sure):
                _, key, weight = row.heads.sure[step]
                lights[int(key)] += weight
        return int(lights.argmax()) if lights.any() else ALL


def drawing(shown: Shown, whole: bool, opened: str) -> Drawing:
    """The map of a run; `whole` draws every layer whole, and the layer of the part `opened` always is.

    A step changes nothing of it, so it is made once.
    """
    layer = next((node.layer for node in shown.flow.diagram.nodes if node.name == opened), "")
    asked = (whole, layer, language())
    if asked not in shown.drawings:
        shown.drawings[asked] = _drawing(shown, whole, layer)
    found: Drawing = shown.drawings[asked]
    return found


def _drawing(shown: Shown, whole: bool, opened: str) -> Drawing:
    diagram = shown.flow.diagram
    nodes = {stack: [node for node in diagram.nodes if node.stack == stack] for stack in diagram.stacks}
    rows = {stack: list(_rows([node for node in those if node.kind != "input"])) for stack, those in nodes.items()}
    many = {stack for stack, those in rows.items() if sum(row.layer != "" for row in those) > MOST_ROWS}
    for stack in set() if whole else many:
        layers = diagram.layers(stack)
        rows[stack] = list(_folded(rows[stack], {layers[0], layers[-1], opened}))
    heads = sum(shown.record[site].n_heads for those in rows.values() for row in those if (site := _site(row, shown)))
    side = max(4, min(LARGEST_SIDE, int((CODES / max(heads, 1)) ** 0.5)))
    last, towers = diagram.stacks[-1], []
    for stack, those in rows.items():
        read = next(node for node in nodes[stack] if node.kind == "input")
        towers.append(_tower(shown, stack, read, those, side, is_last=stack == last))
    ordered = [node for tower in towers for node in tower.nodes]
    axis_lengths = {
        "source": len(shown.source), "target": len(shown.read or shown.source), "letter": len(shown.source),
        "window": len(shown.steps) if shown.translation is None else 0,
    }  # fmt: skip
    likeliest = [[(readable(one.text), one.probability) for one in row[:OUTPUTS]] for row in shown.next]
    return Drawing(
        tuple(towers),
        {node.name: _part(node, diagram, axis_lengths) for node in ordered},
        {node.name: _where(node, diagram) for node in ordered},
        MapSteps(*_words(shown.steps), likeliest, plain(shown.what), shown.translation is not None, shown.decided),
        bool(many),
    )


def _words(pieces: Sequence[str]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Pieces as they are written, and which stand without a space before them: where some piece starts a word."""
    spaced = any(piece.startswith(WORD_START) for piece in pieces)
    attached = [spaced and not piece.startswith((WORD_START, "<")) for piece in pieces]
    return tuple(map(readable, pieces)), tuple(attached)


def _tower(shown: Shown, stack: str, read: Node, rows: list[Row], side: int, *, is_last: bool) -> Tower:
    flow, name, count = shown.flow, plain(f"map.{stack}"), len(shown.flow.diagram.layers(stack))
    parts = [node.name for row in rows for node in row.nodes]
    shares = {part: flow.shares[part] for part in parts if part in flow.shares}
    # Of another library's model whole layers are known: the share stands at the layer's last sum, or its last part.
    for row, after in zip(rows, (*rows[1:], Row()), strict=True):
        if row.layer in flow.shares and after.layer != row.layer:
            shares[(row.sums or row.boxes)[-1].name] = flow.shares[row.layer]
        if not row.slim:
            row.heads = _heads(row, shown, side)
            row.active = next((flow.activity[one.name].active for one in row.boxes if one.name in flow.activity), None)
    return Tower(
        plain("map.tower", stack=name, count=count) if count else name,
        read,
        *_words(shown.read if is_last and shown.read else shown.source),
        rows,
        {part: share.found for part, share in shares.items()},
        {part: share.state for part, share in shares.items()},
        {part: flow.scales[part] for part in parts if part in flow.scales},
        stepped=is_last,
    )


def _site(row: Row, shown: Shown) -> str:
    """The attention of a row, if it ran and the row is not slim."""
    return "" if row.slim else next((one.site for one in row.boxes if one.site and one.site in shown.record), "")


def _heads(row: Row, shown: Shown, side: int) -> Heads | None:
    if not (site := _site(row, shown)):
        return None
    found = shown.record[site]
    every, small = found.all_weights(), max(found.shape) <= side
    weights = every if small else np.stack([found.overview(head, side) for head in range(found.n_heads)])
    visible = found.mask() if small else found.overview_mask(side)
    return Heads(weights, visible, found.shape[0], sure_heads(every), _words(found.keys.texts)[0])


def _rows(nodes: Sequence[Node]) -> Iterator[Row]:
    """Rows of the parts of one stack; each part stands in exactly one."""
    row = Row()
    for node in (*nodes, None):
        if row.nodes and (node is None or not _joins(row, node)):
            if not row.boxes:  # norms that stand before nothing, where their order is not known
                row.boxes, row.before = row.before, []
            yield row
            row = Row()
        if node is None:
            return
        row.layer = node.layer
        if node.kind == "norm" and node.layer:
            (row.after if row.boxes else row.before).append(node)
        else:
            (row.sums if node.kind == "sum" else row.boxes).append(node)


def _joins(row: Row, node: Node) -> bool:
    """Whether a part stands in the same row as those before it."""
    if node.layer != row.layer:
        return False
    if not node.layer:
        kinds = {one.kind for one in row.boxes}
        same = not (ALONE & {*kinds, node.kind}) and ("convolution" in kinds) == (node.kind == "convolution")
        return same and len(row.boxes) < ABREAST
    if node.kind == "norm":  # after the sum, or the first of a sub-layer that follows
        return not row.boxes or (bool(row.sums) and not row.before)
    return node.kind == "sum" or not row.boxes


def _folded(rows: Sequence[Row], kept: set[str]) -> Iterator[Row]:
    """The same rows with one slim row for each layer that is not kept."""
    slim = Row()
    for row in (*rows, Row()):
        if slim.boxes and slim.layer != row.layer:
            yield slim
            slim = Row()
        if row.layer and row.layer not in kept:
            slim = Row(row.layer, [*slim.boxes, *row.nodes], sums=[*slim.sums, *row.sums], slim=True)
        elif row.nodes:
            yield row


def _part(node: Node, diagram: Diagram, lengths: Mapping[str, int]) -> Part:
    """One part in words: its name, what it does with this model's sizes, its shapes in this run, its parameters."""
    sizes = dict(node.sizes)
    kind: str = node.kind
    if kind == "attention" and node.site is not None:
        form = node.site.kind if node.site.kind in {"self", "cross"} else "pooling"
        kind = f"{'masked' if _is_masked(node, diagram) else form}_attention"
    facts = [plain("map.shapes", reads=_shape(node.reads, lengths), gives=_shape(node.gives, lengths))]
    facts += [plain(f"map.{code}", count=sizes[name]) for name, code in FACTS.items() if name in sizes]
    if node.parameters:
        facts.append(plain("map.parameters", count=node.parameters))
    if node.shares:
        facts.append(plain("map.shared", names=", ".join(node.shares)))
    facts.append(plain("map.module", name=node.name))
    title, does = node.name, ""
    if kind != "other":
        title = plain(f"map.kind_{kind}")
        does = plain(f"map.does_{kind}", size=node.gives[-1] if node.gives else "", **sizes)
    return Part(node.name, node.kind, title, does, _formula(node, diagram), tuple(facts))


FACTS = {"n_heads": "heads", "d_ff": "hidden_units"}
"""Sizes that a part's facts say, and the texts that do."""


def _formula(node: Node, diagram: Diagram) -> str:
    """What a part computes, in plain characters, with this model's sizes; empty where that is not known."""
    sizes = dict(node.sizes)
    code, fields = "", dict[str, object]()
    match node.kind:
        case "attention" if node.form in {"additive", "location", "dot", "general"}:
            code = node.form
        case "attention":
            code = "masked" if _is_masked(node, diagram) else "attention"
            fields = {"d_k": sizes.get("divides_by", sizes.get("d_k", "d_k"))}
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


def _is_masked(node: Node, diagram: Diagram) -> bool:
    """Whether the future is hidden from an attention."""
    is_own = node.site is not None and node.site.kind == "self" and diagram.causal
    return is_own and node.site is not None and (node.site.stack == "decoder" or diagram.kind == "encoder")


def _shape(shape: Shape, lengths: Mapping[str, int]) -> str:
    named = (f"{plain(f'map.axis_{axis}')} {lengths[axis]}" if isinstance(axis, str) else str(axis) for axis in shape)
    return f" {TIMES} ".join(named)


def _where(node: Node, diagram: Diagram) -> str:
    """The stack, and the layer, in which a part stands."""
    name = plain(f"map.{node.stack}")
    if not node.layer:
        return name
    return plain("map.layer_of", stack=name, layer=diagram.layers(node.stack).index(node.layer))


def headline(diagram: Diagram, languages: tuple[str, str], answer: str) -> str:
    """What goes in and what comes out, with a place for the word that is being written; `answer` is a class."""
    if diagram.kind in {"seq2seq", "recurrent"}:
        return plain(f"map.headline_{diagram.kind}", read=languages[0], written=languages[1], word="{word}")
    return plain(f"map.headline_{'answer' if answer else diagram.kind}", answer=answer)


def identity(diagram: Diagram) -> str:
    """What the model is, in one line: its stacks, where its norms stand, what its mask hides, how large it is."""
    hides = "map.causal" if diagram.causal else f"map.not_causal_{diagram.kind}"
    said = [plain(f"map.is_{diagram.kind}")]
    if diagram.norms != "none":
        said.append(plain(f"map.norms_{diagram.norms}"))
    said.append(plain("map.no_mask_needed" if diagram.kind == "recurrent" else hides))
    said.append(plain("map.parameters", count=diagram.parameters))
    return plain("map.comma").join(said)

"""The map: towers of a model's parts with the numbers of one run; a step lights its path, a click opens a part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float

from heedmap.explain.diagram import Node
from heedmap.plots.canvas import blob
from heedmap.plots.canvas.views import About
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("map")

ALL: Final = -1
"""The step that stands for all positions: means over them."""

PLACES = ("boxes", "before", "after", "sums")
"""Where a part stands in its row."""


@dataclass(frozen=True)
class Part:
    """One part of the model: what it is called and does, its formula, and what else is known of it, a line each."""

    name: str
    kind: str
    title: str
    plain: str
    formula: str
    facts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Heads:
    """An attention's heads: weights of each as a picture, and where each query's surest head looks.

    `sure` holds head, key and weight of the surest head at each query. `keys` says on which axis keys stand.
    """

    weights: Float[np.ndarray, "head row column"]
    visible: Bool[np.ndarray, "row column"]
    n_queries: int
    sure: Float[np.ndarray, "query 3"]
    keys: Sequence[str]


@dataclass(eq=False)
class Row:
    """Parts side by side: `boxes` work on the stream; `before` and `after` are norms around them, `sums` are sums.

    `layer` is the name of the layer, empty around the layers. A slim row stands for a whole layer: all its parts are in
    `boxes`. `active` is the share of a feed-forward net's hidden units above zero.
    """

    layer: str = ""
    boxes: list[Node] = field(default_factory=list)
    before: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    sums: list[Node] = field(default_factory=list)
    slim: bool = False
    heads: Heads | None = None
    active: Float[np.ndarray, " position"] | None = None

    @property
    def nodes(self) -> list[Node]:
        """Every part of the row, in the order they run."""
        return [*self.boxes] if self.slim else [*self.before, *self.boxes, *self.sums, *self.after]

    @property
    def crosses(self) -> bool:
        """Whether its keys come from the tower before."""
        return any(node.also_reads for node in self.nodes)


@dataclass(frozen=True, eq=False)
class Tower:
    """A stack: the words below it, its rows from the bottom up, and what was added at each of its sums.

    `attached` words stand without a space before them. `found` and `state` are lengths at each position, by the name
    of the part; `scales` those of norms. `stepped` says that steps are positions of this tower.
    """

    title: str
    read: Node
    words: Sequence[str]
    attached: Sequence[bool]
    rows: Sequence[Row]
    found: Mapping[str, Float[np.ndarray, " _"]]
    state: Mapping[str, Float[np.ndarray, " _"]]
    scales: Mapping[str, Float[np.ndarray, " _"]]
    stepped: bool

    @property
    def nodes(self) -> list[Node]:
        """Every part of the tower, from the bottom up."""
        return [self.read, *(node for row in self.rows for node in row.nodes)]


@dataclass(frozen=True)
class MapSteps:
    """What can be looked at one after the other, and the likeliest outputs at each: (text, probability) pairs.

    `written` says that steps are written words; else they are positions that were read. One entry in `next` stands for
    all steps.
    """

    labels: Sequence[str]
    attached: Sequence[bool]
    next: Sequence[Sequence[tuple[str, float]]]
    title: str
    written: bool
    decided: Sequence[Sequence[int]] = ()

    def message(self) -> dict[str, Any]:
        """What the browser is sent."""
        likeliest = [[[text, round(float(p), 5)] for text, p in row] for row in self.next]
        return {**vars(self), "next": likeliest, "decided": list(map(list, self.decided))}


def model_map(
    towers: Sequence[Tower],
    parts: Mapping[str, Part],
    steps: MapSteps,
    *,
    key: str,
    step: int,
    opened: str | None,
    source: int | None,
    file_name: str,
    saved: About,
    on_open: Callable[[str, int | None], None],
    on_close: Callable[[], None],
    on_step: Callable[[int], None],
    on_source: Callable[[int | None], None],
    on_fold: Callable[[], None],
    **texts: str,
) -> None:
    """Draw one tower, or two beside each other (one above the other where it is narrow), with these `texts`.

    `headline` says what goes on, with a place for the word of the step; `legend` how to read what is drawn; `about`
    what is drawn; `folds` is on the button that folds or unfolds layers (none where it is empty). `parts` are told by
    name, in the order of the towers. The first of two towers speaks of the word `source`, or of the one that the step
    looks at most; a click on a word calls `on_source` with it, or with None where it was that one. A click or Enter
    calls `on_open` with a part and, on a thumbnail, the head; Escape calls `on_close`; `on_step` gets the step at which
    the slider, or playing, came to rest. `saved` is said in a picture that is saved.
    """
    names, n_words = list(parts), len(towers[0].words)
    numbers = {name: number for number, name in enumerate(names)}
    fed = {node.also_reads for tower in towers for node in tower.nodes}
    arrays: dict[str, np.ndarray] = {}
    axes: dict[tuple[str, ...], int] = {}

    def row_of(row: Row, name: str, layers: list[str]) -> dict[str, Any]:
        described: dict[str, Any] = {
            "name": name, "layer": layers.index(row.layer) if row.layer else -1, "slim": row.slim,
            "crosses": row.crosses, "feeds": not row.slim and any(node.name in fed for node in row.nodes),
            **{kind: [numbers[node.name] for node in getattr(row, kind)] for kind in PLACES},
        }  # fmt: skip
        if (heads := row.heads) is not None:
            keys = axes.setdefault(tuple(heads.keys), len(axes))
            described["heads"] = {"shape": list(heads.weights.shape), "queries": heads.n_queries, "keys": keys}
            arrays[f"codes{name}"] = blob.codes(heads.weights, np.broadcast_to(heads.visible, heads.weights.shape))
            arrays[f"sure{name}"] = heads.sure.astype(np.float32)
        if row.active is not None:
            arrays[f"active{name}"] = row.active.astype(np.float32)
        return described

    described = []
    for number, tower in enumerate(towers):
        for name, found in (("found", tower.found), ("state", tower.state), ("scale", tower.scales)):
            arrays |= {f"{name}{numbers[part]}": values.astype(np.float32) for part, values in found.items()}
        layers = list(dict.fromkeys(row.layer for row in tower.rows if row.layer))
        rows = [row_of(row, f"{number}.{place}", layers) for place, row in enumerate(tower.rows)]
        words = {"words": list(tower.words), "attached": list(tower.attached)}
        reads = numbers[tower.read.name]
        described.append({"title": tower.title, "reads": reads, **words, "stepped": tower.stepped, "rows": rows})

    def picked(value: Any) -> None:
        match value:
            case {"part": int(part), "head": int() | None as head} if 0 <= part < len(parts):
                on_open(names[part], head)

    def pinned(value: Any) -> None:
        if isinstance(value, int) and ALL <= value < n_words:
            on_source(None if value == ALL else value)

    def stepped(value: Any) -> None:
        if isinstance(value, int) and ALL <= value < len(steps.labels):
            on_step(value)

    component(
        key=key,
        header={
            "towers": described, "axes": [list(texts) for texts in axes], "parts": list(parts.values()), "steps": steps,
            "file_name": file_name, "saved": saved, **texts,
        },
        arrays=arrays,
        options={"step": step, "opened": numbers[opened] if opened else None, "source": source},
        events={
            "opened": picked, "closed": lambda _: on_close(), "stepped": stepped, "pinned": pinned,
            "folded": lambda _: on_fold(),
        },
    )  # fmt: skip


def sure_heads(weights: Float[np.ndarray, "head query key"]) -> Float[np.ndarray, "query 3"]:
    """Head, key and weight of the surest head at each query; the first of equals."""
    best = np.fmax.reduce(weights, axis=2, initial=0.0)  # without a copy of all weights; a NaN is no largest one
    head = best.argmax(axis=0)
    rows = np.arange(weights.shape[1])
    key = np.nan_to_num(weights[head, rows]).argmax(axis=1)
    return np.stack([head, key, weights[head, rows, key]], axis=1).astype(np.float64)

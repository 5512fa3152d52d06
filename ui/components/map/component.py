"""The map: towers of a model's parts with the numbers of one run; a step lights its path, a click opens a part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float, UInt8

from transformer.errors import InputError
from transformer.plots.canvas import blob
from transformer.plots.canvas.about import About
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("map")

ALL: Final = -1
"""The step that stands for all positions: means over them."""


@dataclass(frozen=True)
class Part:
    """One part of the model: what it is called and does, its formula, and what else is known of it, a line each."""

    name: str
    kind: str
    title: str
    plain: str = ""
    formula: str = ""
    facts: tuple[str, ...] = ()


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


@dataclass(frozen=True, eq=False)
class Row:
    """Parts side by side, by their numbers: `boxes` work on the stream, `before` and `after` are norms, `sums` sums.

    `layer` counts from 0, -1 around the layers. `strengths` are those of a feed-forward net's hidden units, `active` is
    the share of them above zero. `crosses` says that the keys come from the tower before, from
    its row that `feeds`. `chain` is the number of time steps of a recurrent net.
    """

    layer: int
    boxes: Sequence[int]
    before: Sequence[int] = ()
    after: Sequence[int] = ()
    sums: Sequence[int] = ()
    slim: bool = False
    crosses: bool = False
    feeds: bool = False
    chain: int = 0
    heads: Heads | None = None
    active: Float[np.ndarray, " position"] | None = None
    strengths: Float[np.ndarray, "position group"] | None = None


@dataclass(frozen=True, eq=False)
class Tower:
    """A stack: the words below it, its rows from the bottom up, and what was added at each of its sums.

    `attached` words stand without a space before them. `found` and `state` are lengths at each position, by the number
    of the part; `scales` those of norms. `stepped` says that steps are positions of this tower.
    """

    title: str
    reads: int
    words: Sequence[str]
    attached: Sequence[bool]
    rows: Sequence[Row]
    found: Mapping[int, Float[np.ndarray, " _"]] = field(default_factory=dict)
    state: Mapping[int, Float[np.ndarray, " _"]] = field(default_factory=dict)
    scales: Mapping[int, Float[np.ndarray, " _"]] = field(default_factory=dict)
    stepped: bool = False


@dataclass(frozen=True)
class Steps:
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


def model_map(
    towers: Sequence[Tower],
    parts: Sequence[Part],
    steps: Steps,
    *,
    key: str,
    about: str,
    step: int,
    headline: str = "",
    legend: str = "",
    opened: int | None = None,
    source: int | None = None,
    folds: str = "",
    file_name: str = "map",
    saved: About | None = None,
    on_open: Callable[[int, int | None], None] | None = None,
    on_close: Callable[[], None] | None = None,
    on_step: Callable[[int], None] | None = None,
    on_source: Callable[[int | None], None] | None = None,
    on_fold: Callable[[], None] | None = None,
) -> None:
    """Draw one tower, or two beside each other (one above the other where it is narrow).

    `headline` says what goes on, with a place for the word of the step; `legend` how to read what is drawn. The first
    of two towers speaks of the word `source`, or of the one that the step looks at most; a click on a word calls
    `on_source` with it, or with None where it was that one. `about` says what is drawn, `folds` is the text of the
    button that folds or unfolds layers (none where it is empty). A click or Enter calls `on_open` with a part's number
    and, on a thumbnail, the head; Escape calls `on_close`; `on_step` gets the step at which the slider, or playing,
    came to rest. `saved` is said in a picture that is saved.

    Raises:
        InputError: the step or the opened part is not there.
    """
    if opened is not None and not 0 <= opened < len(parts):
        raise InputError("component_map_part", part=opened, count=len(parts))
    if source is not None and not 0 <= source < len(towers[0].words):
        source = None
    if not ALL <= step < max(len(steps.labels), 1):
        raise InputError("component_map_step", step=step, count=len(steps.labels))
    arrays: dict[str, np.ndarray] = {}
    axes: dict[tuple[str, ...], int] = {}
    described = [_tower(tower, number, arrays, axes) for number, tower in enumerate(towers)]
    n_steps = len(steps.labels)

    def picked(value: Any) -> None:
        match value:
            case {"part": int(part), "head": int() | None as head} if on_open and 0 <= part < len(parts):
                on_open(part, head)

    def pinned(value: Any) -> None:
        if on_source and isinstance(value, int) and ALL <= value < len(towers[0].words):
            on_source(None if value == ALL else value)

    def stepped(value: Any) -> None:
        if on_step and isinstance(value, int) and ALL <= value < n_steps:
            on_step(value)

    component(
        key=key,
        header={
            "towers": described,
            "axes": [list(texts) for texts in axes],
            "parts": [
                {
                    "kind": part.kind,
                    "title": part.title,
                    "plain": part.plain,
                    "formula": part.formula,
                    "facts": list(part.facts),
                }
                for part in parts
            ],
            "steps": {
                "labels": list(steps.labels),
                "attached": list(steps.attached),
                "next": [[[text, round(float(p), 5)] for text, p in row] for row in steps.next],
                "title": steps.title,
                "written": steps.written,
                "decided": list(map(list, steps.decided)),
            },
            "about": about,
            "headline": headline,
            "legend": legend,
            "folds": folds,
            "file_name": file_name,
            "saved": (saved or About()).message(),
        },
        arrays=arrays,
        options={"step": step, "opened": opened, "source": source},
        events={
            "opened": picked if on_open else None,
            "closed": (lambda _: on_close()) if on_close else None,
            "stepped": stepped if on_step else None,
            "pinned": pinned if on_source else None,
            "folded": (lambda _: on_fold()) if on_fold else None,
        },
    )


def _tower(
    tower: Tower, number: int, arrays: dict[str, np.ndarray], axes: dict[tuple[str, ...], int]
) -> dict[str, Any]:
    """A tower as the browser is sent it; its numbers go into `arrays`, the texts of keys into `axes`, each once."""
    for name, found in (("found", tower.found), ("state", tower.state), ("scale", tower.scales)):
        for part, values in found.items():
            arrays[f"{name}{part}"] = values.astype(np.float32)
    return {
        "title": tower.title,
        "reads": tower.reads,
        "words": list(tower.words),
        "attached": list(tower.attached),
        "stepped": tower.stepped,
        "rows": [_row(row, f"{number}.{place}", arrays, axes) for place, row in enumerate(tower.rows)],
    }


def _row(row: Row, name: str, arrays: dict[str, np.ndarray], axes: dict[tuple[str, ...], int]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "layer": row.layer,
        "boxes": list(row.boxes),
        "before": list(row.before),
        "after": list(row.after),
        "sums": list(row.sums),
        "slim": row.slim,
        "crosses": row.crosses,
        "feeds": row.feeds,
        "chain": row.chain,
        "name": name,
    }
    if row.heads is not None:
        n_heads, n_rows, n_columns = row.heads.weights.shape
        described["heads"] = {
            "shape": [n_heads, n_rows, n_columns],
            "queries": row.heads.n_queries,
            "keys": axes.setdefault(tuple(row.heads.keys), len(axes)),
        }
        visible = blob.mask_like(row.heads.weights, row.heads.visible)
        arrays[f"codes{name}"] = blob.codes(row.heads.weights, visible)
        arrays[f"sure{name}"] = row.heads.sure.astype(np.float32)
    if row.active is not None and row.strengths is not None:
        described["groups"] = row.strengths.shape[1]
        arrays[f"active{name}"] = row.active.astype(np.float32)
        arrays[f"strengths{name}"] = scaled(row.strengths)
    return described


def scaled(strengths: Float[np.ndarray, "position group"]) -> UInt8[np.ndarray, "position group"]:
    """Strengths above zero as shares of the largest one of all, in 255 steps."""
    above = np.maximum(strengths, 0)
    return np.rint(255 * above / (float(above.max()) or 1.0)).astype(np.uint8)


def sure_heads(weights: Float[np.ndarray, "head query key"]) -> Float[np.ndarray, "query 3"]:
    """Head, key and weight of the surest head at each query; the first of equals."""
    best = np.fmax.reduce(weights, axis=2, initial=0.0)  # without a copy of all weights; a NaN is no largest one
    head = best.argmax(axis=0)
    rows = np.arange(weights.shape[1])
    key = np.nan_to_num(weights[head, rows]).argmax(axis=1)
    return np.stack([head, key, weights[head, rows, key]], axis=1).astype(np.float64)

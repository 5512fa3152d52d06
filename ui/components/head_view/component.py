"""Head view: two columns of tokens joined by lines, for any of one layer's heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from transformer.canvas import blob
from transformer.canvas.about import About
from transformer.canvas.views import Sides, head_view_header
from transformer.errors import InputError
from transformer.messages import words
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

EXACT_WEIGHTS = 2**20
"""Up to so many weights (4 MiB; 12 heads of 295 x 295) travel as they are, in 32 bits."""

MOST_WEIGHTS = 2**24
"""Up to so many travel at all: a byte each, and the largest of each row exactly."""

EXACT_EACH = 8
"""How many weights of a row are exact when not all are."""

component = CanvasComponent("head_view")


@dataclass(frozen=True, eq=False)
class Lines:
    """What a head view draws: weights, which of them the mask lets through (None: all), and the names of the axes.

    Raises:
        InputError: there are more than 2**24 weights, they lie outside 0 to 1, or labels or mask do not fit them.
    """

    weights: Float[np.ndarray, "head query key"]
    visible: Bool[np.ndarray, "query key"] | None
    heads: Sequence[str]
    query_labels: Sequence[str]
    key_labels: Sequence[str]
    query_title: str | None = None
    """What the column of queries is called; None for just that."""
    key_title: str | None = None

    def __post_init__(self) -> None:
        shape = self.weights.shape
        counts = {"heads": len(self.heads), "queries": len(self.query_labels), "keys": len(self.key_labels)}
        if tuple(counts.values()) != shape:
            raise InputError("component_lines_names", shape=str(shape), **counts)
        if self.weights.size > MOST_WEIGHTS:
            raise InputError("component_lines_many", shape=str(shape), found=self.weights.size, most=MOST_WEIGHTS)
        blob.refuse_outside_unit("weights", self.weights, blob.mask_like(self.weights, self.visible))

    def message(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What the browser is sent: texts, and weights in 32 bits with -1 where masked, or in a byte each."""
        shown = blob.mask_like(self.weights, self.visible)
        exact = self.weights.size <= EXACT_WEIGHTS
        header = {
            "shape": list(self.weights.shape),
            "heads": list(self.heads),
            "query_labels": list(self.query_labels),
            "key_labels": list(self.key_labels),
            "query_title": words("component_queries") if self.query_title is None else self.query_title,
            "key_title": words("component_keys") if self.key_title is None else self.key_title,
            "masked": not shown.all(),
            "exact": exact,
            "exact_each": EXACT_EACH,
        }
        if exact:
            return header, {"weights": np.where(shown, self.weights, -1.0).astype(np.float32)}
        return header, _rounded(self.weights, shown)


def head_view(
    lines: Lines,
    *,
    key: str,
    active: Sequence[int] | None = None,
    selected_pair: tuple[int, int] | None = None,
    threshold: float = 0.0,
    file_name: str = "head-view",
    about: About | None = None,
    on_pair: Callable[[tuple[int, int]], None] | None = None,
    on_heads: Callable[[list[int]], None] | None = None,
) -> None:
    """Queries on the left, keys on the right, a line for each weight.

    `active` are the numbers of the heads that are on (None: all). Weights below `threshold` have no line, nor have
    masked pairs; at most the 2,000 strongest lines are drawn, and the view says so. Pointing at a token isolates its
    lines, writes the weights (the mean of the heads shown) and draws a bar a head; a click keeps it so, and a click on
    a token across then selects the pair. All of it stays in the browser, but `on_pair` is called with a (query, key)
    that was selected, and `on_heads` with the heads that were switched on, before the run that this starts, as a
    widget's `on_change` is, and so may set other widgets.

    `active` and `selected_pair` set the view when they change; what the user chooses afterwards holds until they change
    again. So a caller may keep a pair and hand it back, or ignore it. `about` stands in the picture that is saved.

    Up to 2**20 weights travel exactly. Above, a weight is rounded to 1/254 of its row's largest except for the row's
    eight largest, and the view says so.

    Raises:
        InputError: heads, pair or threshold do not fit the lines.
    """
    shape = lines.weights.shape
    _refuse_misfits(shape, active, selected_pair, threshold)

    def tell(value: Any) -> None:
        pair = _pair(value, shape)
        if pair and on_pair:
            on_pair(pair)

    def tell_heads(value: Any) -> None:
        heads = _heads(value, shape)
        if heads is not None and on_heads:
            on_heads(heads)

    header, arrays = lines.message()
    component(
        key=key,
        header={**header, "file_name": file_name, "about": (about or About()).message()},
        arrays=arrays,
        options={
            "active": None if active is None else sorted({int(head) for head in active}),
            "selected_pair": selected_pair and [int(index) for index in selected_pair],
            "threshold": float(threshold),
        },
        events={"pair": tell if on_pair else None, "heads": tell_heads if on_heads else None},
    )


def head_view_of_record(local: Local, sides: Mapping[str, Sides], heads: Sequence[str], *, key: str) -> None:
    """The same for the layer that is chosen of the page's record, which the browser has: nothing starts a run.

    A slider chooses the threshold. `sides` are told by kind; `heads` are the heads' names, that of the mean the last.
    """
    component(
        key=key,
        header={**local.message(), **head_view_header(sides, heads)},
        arrays={},
        options={},
        events={},
    )


def _rounded(
    weights: Float[np.ndarray, "head query key"], shown: Bool[np.ndarray, "head query key"]
) -> dict[str, np.ndarray]:
    """A byte a weight on a scale of its row's largest, and each row's largest weights exactly."""
    known = np.where(shown & ~np.isnan(weights), weights, 0.0)
    maxima = known.max(axis=2, keepdims=True)
    each = min(EXACT_EACH, known.shape[2])
    top = np.argpartition(known, -each, axis=2)[:, :, -each:]
    return {
        "codes": blob.codes(weights / np.where(maxima > 0, maxima, 1.0), shown),
        "maxima": maxima.astype(np.float32),
        "top_keys": top.astype(np.uint32),
        "top_weights": np.take_along_axis(known, top, axis=2).astype(np.float32),
        **blob.nan_bits(weights, shown),
    }


def _refuse_misfits(
    shape: tuple[int, ...], active: Sequence[int] | None, pair: tuple[int, int] | None, threshold: float
) -> None:
    """Every choice belongs to these weights."""
    heads, queries, keys = shape
    if not all(0 <= head < heads for head in active or ()):
        raise InputError("component_lines_active", active=str(list(active or ())), heads=heads)
    if pair is not None and not (0 <= pair[0] < queries and 0 <= pair[1] < keys):
        raise InputError("component_lines_pair", pair=str(pair), queries=queries, keys=keys)
    if not 0 <= threshold <= 1:
        raise InputError("component_lines_threshold", threshold=threshold)


def _pair(value: Any, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The browser's event as a pair of these weights; None for one of weights that are gone."""
    _, queries, keys = shape
    match value:
        case {"query": int(query), "key": int(key)} if 0 <= query < queries and 0 <= key < keys:
            return query, key
        case _:
            return None


def _heads(value: Any, shape: tuple[int, ...]) -> list[int] | None:
    """The browser's event as heads of these weights; None for one of weights that are gone."""
    match value:
        case [*heads] if all(type(head) is int and 0 <= head < shape[0] for head in heads):
            return sorted(set(heads))
        case _:
            return None

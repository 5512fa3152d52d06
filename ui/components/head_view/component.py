"""Head view: two columns of tokens joined by lines, for any of one layer's heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from transformer.errors import InputError
from ui.components.shared import blob
from ui.components.shared.mounting import CanvasComponent

EXACT_WEIGHTS = 2**20
"""Up to so many weights (4 MiB; 12 heads of 295 x 295) travel as they are, in 32 bits."""

MOST_WEIGHTS = 2**24
"""Up to so many travel at all: a byte each, and the largest of each row exactly."""

EXACT_EACH = 8
"""How many weights of a row are exact when not all are."""

_component = CanvasComponent("head_view", "head_view.js")


@dataclass(frozen=True)
class Token:
    """A token of one column: a query (left) or a key (right)."""

    side: Literal["query", "key"]
    index: int


@dataclass(frozen=True)
class HeadViewEvent:
    """What the reader did since the last run; what did not happen is None or False."""

    locked: Token | None = None
    """This token's lines now stay isolated."""

    released: bool = False
    """No token is locked any more."""

    pair: tuple[int, int] | None = None
    """This (query, key) was selected."""

    heads: tuple[int, ...] | None = None
    """These heads are on now."""


def head_view(
    weights: Float[np.ndarray, "head query key"],
    visible: Bool[np.ndarray, "query key"] | None,
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    heads: Sequence[str],
    active: Sequence[int] | None = None,
    *,
    key: str,
    selected_pair: tuple[int, int] | None = None,
    locked: Token | None = None,
    threshold: float = 0.0,
    query_title: str = "queries",
    key_title: str = "keys",
    file_name: str = "head-view",
    on_event: Callable[[HeadViewEvent], None] | None = None,
) -> HeadViewEvent | None:
    """Queries on the left, keys on the right, a line for each weight; returns what the reader did, if anything.

    `heads` are the heads' names, `active` the numbers of those that are on (None: all). Weights below `threshold` have
    no line, nor have pairs that `visible` (query, key) marks False; at most the 2,000 strongest lines are drawn, and
    the view says so. Pointing at a token isolates its lines, writes the weights (the mean of the heads shown) and
    draws a bar a head, in the browser alone. Clicking locks the token, then clicking one across selects the pair.

    `active`, `selected_pair` and `locked` set the view when they change; what the reader chooses afterwards holds until
    they change again. So a caller may keep what the events say and hand it back, or ignore it. `on_event` is called
    before the run that an event starts, as a widget's `on_change` is, and so may set other widgets.

    Up to 2**20 weights travel exactly. Above, a weight is rounded to 1/254 of its row's largest except for the row's
    eight largest, and the view says so.

    Raises:
        InputError: there are more than 2**24 weights, they lie outside 0 to 1, or labels, heads, mask, pair, token or
            threshold do not fit them.
    """
    _refuse_misfits(weights, query_labels, key_labels, heads, active, selected_pair, locked, threshold)
    shape = weights.shape

    def event(name: str) -> Callable[[Any], None]:
        def tell(value: Any) -> None:
            happened = _event({name: value}, shape)
            if happened and on_event:
                on_event(happened)

        return tell

    message = head_view_message(
        weights,
        visible,
        instance=key,
        query_labels=list(query_labels),
        key_labels=list(key_labels),
        heads=list(heads),
        query_title=query_title,
        key_title=key_title,
        file_name=file_name,
    )
    options = {
        "active": None if active is None else sorted({int(head) for head in active}),
        "selected_pair": selected_pair and [int(index) for index in selected_pair],
        "locked": locked and {"side": locked.side, "index": int(locked.index)},
        "threshold": float(threshold),
    }
    events = {name: event(name) for name in ("token", "released", "pair", "heads")}
    return _event(_component(key=key, blob=message, options=options, events=events), shape)


def head_view_message(
    weights: Float[np.ndarray, "head query key"], visible: Bool[np.ndarray, "query key"] | None, **texts: Any
) -> bytes:
    """What `head_view` sends to the browser: weights in 32 bits with -1 where masked, or in a byte each.

    Raises:
        InputError: there are too many weights, or they lie outside 0 to 1.
    """
    if weights.size > MOST_WEIGHTS:
        raise InputError(
            f"weights of shape {weights.shape} are {weights.size:,} numbers, more than {MOST_WEIGHTS:,}: "
            "show fewer heads, or a tile of the queries and keys"
        )
    shown = blob.mask_like(weights, visible)
    blob.refuse_outside_unit("weights", weights, shown)
    exact = weights.size <= EXACT_WEIGHTS
    header = {
        "shape": list(weights.shape),
        "masked": not shown.all(),
        "exact": exact,
        "exact_each": EXACT_EACH,
        **texts,
    }
    arrays = {"weights": np.where(shown, weights, -1.0).astype(np.float32)} if exact else _rounded(weights, shown)
    return blob.pack(header, arrays)


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
    weights: Float[np.ndarray, "head query key"],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    heads: Sequence[str],
    active: Sequence[int] | None,
    selected_pair: tuple[int, int] | None,
    locked: Token | None,
    threshold: float,
) -> None:
    """Every label, choice and limit belongs to these weights."""
    if (len(heads), len(query_labels), len(key_labels)) != weights.shape:
        raise InputError(
            f"{len(heads)} heads, {len(query_labels)} query_labels and {len(key_labels)} key_labels for weights of "
            f"shape {weights.shape}: name each head, query and key"
        )
    count, queries, keys = weights.shape
    if not all(0 <= head < count for head in active or ()):
        raise InputError(f"active={list(active or ())} names a head that is not among {count}: leave it out")
    if selected_pair is not None and not (0 <= selected_pair[0] < queries and 0 <= selected_pair[1] < keys):
        raise InputError(
            f"selected_pair={selected_pair} is not among {queries} queries and {keys} keys: choose another"
        )
    if locked is not None and not 0 <= locked.index < {"query": queries, "key": keys}[locked.side]:
        raise InputError(f"locked={locked} is not among {queries} queries and {keys} keys: choose another")
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold={threshold} is no weight: choose a number from 0 to 1")


def _event(happened: Any, shape: tuple[int, ...]) -> HeadViewEvent | None:
    """The browser's news as an event; None when there is none, or it is about tokens or heads that are gone."""
    heads, queries, keys = shape
    sides = {"query": queries, "key": keys}
    found: dict[str, Any] = {}
    match happened.get("token"):
        case {"side": "query" | "key" as side, "index": int(index)} if 0 <= index < sides[side]:
            found["locked"] = Token(side, index)
    match happened.get("pair"):
        case {"query": int(query), "key": int(key)} if 0 <= query < queries and 0 <= key < keys:
            found["pair"] = (query, key)
    match happened.get("heads"):
        case [*on] if all(isinstance(head, int) and 0 <= head < heads for head in on):
            found["heads"] = tuple(on)
    if happened.get("released") is True:
        found["released"] = True
    return HeadViewEvent(**found) if found else None

"""Bitext: a sentence over its translation, joined by the lines of one head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from transformer.errors import InputError
from transformer.plots.canvas import blob
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

component = CanvasComponent("bitext")


@dataclass(frozen=True)
class Words:
    """The words of one sentence: `attached` ones stand without a space before them, `special` ones are no text."""

    texts: Sequence[str]
    attached: Sequence[bool]
    special: Sequence[bool]
    language: str

    def __post_init__(self) -> None:
        sizes = {len(self.texts), len(self.attached), len(self.special)}
        if len(sizes) > 1:
            raise InputError("component_bitext_words", words=len(self.texts), sizes=str(sorted(sizes)))

    def message(self) -> dict[str, Any]:
        """What the browser is sent of them."""
        return {
            "texts": list(self.texts),
            "attached": [bool(one) for one in self.attached],
            "special": [bool(one) for one in self.special],
            "language": self.language,
        }


def bitext(
    weights: Float[np.ndarray, "query key"],
    visible: Bool[np.ndarray, "query key"] | None,
    source: Words,
    target: Words,
    *,
    head: str,
    key: str,
    selected: int | None = None,
    file_name: str = "bitext",
    on_pick: Callable[[int], None] | None = None,
) -> None:
    """The source above, the translation below, and from each written word lines to the source words it looked at.

    Rows of `weights` are the words of `target`, columns those of `source`; `head` is what the head is called within a
    sentence. Pointing at a written word (or reaching it with the arrow keys) lights what was looked at and says it;
    pointing at a source word shows which words looked at it. Play writes the translation word by word. A click or Enter
    on a written word keeps it: `on_pick` is called with its number before the run that this starts, as a widget's
    `on_change` is. `selected` is the word that is kept.

    Raises:
        InputError: the weights lie outside 0 to 1, or words or selection do not fit them.
    """
    shape = weights.shape
    if (len(target.texts), len(source.texts)) != shape:
        raise InputError("component_bitext_shape", shape=str(shape), queries=len(target.texts), keys=len(source.texts))
    if selected is not None and not 0 <= selected < shape[0]:
        raise InputError("component_bitext_selected", selected=selected, queries=shape[0])
    shown = blob.mask_like(weights, visible)
    blob.refuse_outside_unit("weights", weights, shown)

    def pick(value: Any) -> None:
        query = _query(value, shape[0])
        if query is not None and on_pick:
            on_pick(query)

    component(
        key=key,
        header={
            "shape": list(shape),
            "source": source.message(),
            "target": target.message(),
            "head": head,
            "file_name": file_name,
        },
        arrays={"weights": np.where(shown, weights, -1.0).astype(np.float32)},
        options={"selected": None if selected is None else int(selected)},
        events={"picked": pick if on_pick else None},
    )


def bitext_of_record(
    local: Local,
    source: Words,
    target: Words,
    *,
    kind: str,
    first: tuple[int, int],
    heads: Sequence[Sequence[str]],
    file_names: Sequence[Sequence[str]],
    key: str,
) -> None:
    """The same of the page's record, which the browser has: the lines follow what the address says, without a run.

    `kind` is the one that joins the sentences; where another is looked at, the lines are those of `first` (layer,
    head). `heads` and `file_names` are told by layer and head, the mean the last of them.
    """
    component(
        key=key,
        header={
            **local.message(),
            "kind": kind,
            "first": {"layer": int(first[0]), "head": int(first[1])},
            "source": source.message(),
            "target": target.message(),
            "heads": list(map(list, heads)),
            "file_names": list(map(list, file_names)),
        },
        arrays={},
        options={},
        events={},
    )


def _query(value: Any, queries: int) -> int | None:
    """The browser's event as a written word of this translation; None for one of a translation that is gone."""
    match value:
        case {"query": int(query)} if 0 <= query < queries:
            return query
        case _:
            return None

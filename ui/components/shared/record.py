"""The record of the page, brought to the browser once, and what a component is told that draws from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import streamlit as st
from jaxtyping import Float

from ui.components.shared import blob, bundle

MASKED = -1.0
"""What stands for a masked cell: no weight is negative."""

_bring = st.components.v2.component("heedmap.record", js=bundle.script("shared/record.js"))


@dataclass(frozen=True)
class AxisWords:
    """One side of a kind's maps: what it is called, and its words, unique (`labels`) and as they are (`texts`)."""

    name: str
    labels: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of attention, all its layers and heads, as the page shows them: `MASKED` where the mask hides a cell."""

    name: str
    sites: Sequence[str]
    queries: AxisWords
    keys: AxisWords
    weights: Float[np.ndarray, "layer head query key"]
    layers: Sequence[str] = ()
    """What addresses call the layers, where that alone tells the kind too; else their numbers."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A record as the browser is sent it, under the name (`id`) by which components ask for it."""

    id: str
    message: bytes


@dataclass(frozen=True)
class Local:
    """What a component is told that draws from a record by what the address says, both of which the browser has.

    `address` is what `ui.shared.address.held` says: which keys the browser owns, and what it found at which arrival.
    """

    record: str
    keys: Sequence[str]
    address: Mapping[str, Any]

    def message(self) -> dict[str, Any]:
        """The part of a component's header that tells it so."""
        return {"local": {"record": self.record, "keys": list(self.keys), **self.address}}


def packed(kinds: Sequence[Kind], usual: tuple[int, int | None], old: Mapping[str, str], kind: int = 0) -> Packed:
    """A record for the browser: `usual` are the layer and head (None: the mean) that are shown at first.

    So they are unless the address says otherwise, of the kind of number `kind`. `old` leads from what older addresses
    call the kinds to their names.
    """
    header = {
        "kinds": [
            {
                "name": one.name,
                "sites": list(map(str, one.sites)),
                "heads": one.weights.shape[1],
                **({"layers": list(one.layers)} if one.layers else {}),
                **{side: _side(axis) for side, axis in (("queries", one.queries), ("keys", one.keys))},
            }
            for one in kinds
        ],
        "usual": {"kind": kind, "layer": int(usual[0]), "head": None if usual[1] is None else int(usual[1])},
        "old": dict(old),
    }
    arrays = {f"weights_{order}": one.weights.astype(np.float32) for order, one in enumerate(kinds)}
    name = blake2b(blob.pack(header, arrays), digest_size=8).hexdigest()
    return Packed(name, blob.pack({**header, "id": name}, arrays))


def post(record: Packed, key: str) -> None:
    """Bring a record to the browser, where it is kept while it stays the same."""
    _bring(key=key, data=record.message)


def _side(axis: AxisWords) -> dict[str, Any]:
    return {"name": axis.name, "labels": list(axis.labels), "texts": list(axis.texts)}

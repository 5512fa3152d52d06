"""A record as its views are sent it, all numbers at once: kinds of attention, with all their layers and heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Float

from transformer.plots.canvas import blob

MASKED = -np.inf
"""What stands for a masked cell."""


@dataclass(frozen=True)
class AxisWords:
    """One side of a kind's maps: what it is called, and its words, unique (`labels`) and as they are (`texts`)."""

    name: str
    labels: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of attention, all its layers and heads, as they are shown: `MASKED` where the mask hides a cell.

    Weights travel in 16 bits where they are given so, which rounds them to 1/2048 of themselves; else in 32.
    """

    name: str
    sites: Sequence[str]
    queries: AxisWords
    keys: AxisWords
    weights: Float[np.ndarray, "layer head query key"]
    layers: Sequence[str] = ()
    """What addresses call the layers, where that alone tells the kind too; else their numbers."""
    numbers: Sequence[str] = ()
    """The layers' own numbers, where they are not 0, 1, 2 and so on; an empty text for a site without one."""
    there: Sequence[int] | None = None
    """The layers that `weights` holds, where it does not hold all of them."""
    decided: Sequence[tuple[int, float]] | None = None
    """For each query the key that decides it, by deletion (-1: none does), and the nats that it loses without it.

    Empty where that is not known in this form of the record, None where nobody asks for it.
    """


@dataclass(frozen=True, eq=False)
class Packed:
    """A record as the browser is sent it, under the name (`id`) by which its views ask for it."""

    id: str
    message: bytes


def packed(
    kinds: Sequence[Kind],
    usual: tuple[int, int | None],
    old: Mapping[str, str],
    kind: int = 0,
) -> Packed:
    """A record for the browser: `usual` are the layer and head (None: the mean) that are shown at first.

    So they are unless the address says otherwise, of the kind of number `kind`.
    `old` leads from what older addresses call the kinds to their names.
    """
    header, arrays = header_and_arrays(kinds, usual, old, kind)
    name = blake2b(blob.pack(header, arrays), digest_size=8).hexdigest()
    return Packed(name, blob.pack({**header, "id": name}, arrays))


def header_and_arrays(
    kinds: Sequence[Kind], usual: tuple[int, int | None], old: Mapping[str, str], kind: int = 0
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `packed` packs, still without a name."""
    header = {
        "kinds": [
            {
                "name": one.name,
                "sites": list(map(str, one.sites)),
                "heads": one.weights.shape[1],
                **({} if one.there is None else {"there": list(one.there)}),
                **({"layers": list(one.layers)} if one.layers else {}),
                **({"numbers": list(one.numbers)} if one.numbers else {}),
                **({} if one.decided is None else {"decided": [[key, round(lost, 4)] for key, lost in one.decided]}),
                **{side: _side(axis) for side, axis in (("queries", one.queries), ("keys", one.keys))},
            }
            for one in kinds
        ],
        "usual": {"kind": kind, "layer": int(usual[0]), "head": None if usual[1] is None else int(usual[1])},
        "old": dict(old),
    }
    return header, {f"weights_{order}": _sent(one.weights) for order, one in enumerate(kinds)}


def _sent(weights: Float[np.ndarray, "*cells"]) -> Float[np.ndarray, "*cells"]:
    return weights if weights.dtype == np.float16 else weights.astype(np.float32)


def _side(axis: AxisWords) -> dict[str, Any]:
    return {"name": axis.name, "labels": list(axis.labels), "texts": list(axis.texts)}

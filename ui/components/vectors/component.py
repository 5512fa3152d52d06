"""Vectors: the queries and keys of one head over many sentences as points; pointing at one shows its sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from jaxtyping import Float, Int

from transformer.canvas import blob
from transformer.canvas.about import About
from transformer.errors import InputError
from ui.components.shared.mounting import CanvasComponent

component = CanvasComponent("vectors")

Colour = Literal["side", "position", "class"]
"""What colours mean: query or key, how far into its sentence, what its token is."""

KEYS: Final = ("colour", "word")
"""The keys of the address that the browser owns here: what colours mean, and the token that stands out."""


@dataclass(frozen=True)
class Controls:
    """What the controls above the plane are called: colours by name, in the order of `Colour`.

    `address` is what `ui.shared.address.held` says of `KEYS`.
    """

    colour: str
    colours: Sequence[str]
    word: str
    word_help: str
    address: Mapping[str, Any]

    def message(self) -> dict[str, Any]:
        """The part of the component's header that makes them."""
        return {
            "keys": list(KEYS),
            **self.address,
            "colour": {"label": self.colour, "names": list(self.colours)},
            "word": {"label": self.word, "help": self.word_help},
        }


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence: the tokens of its queries and of its keys, and each query's weights on them."""

    queries: Sequence[str]
    keys: Sequence[str]
    weights: Float[np.ndarray, "query key"]


@dataclass(frozen=True)
class Point:
    """A query or a key: its sentence and its place there, from 0."""

    side: Literal["query", "key"]
    sentence: int
    place: int


def vectors(
    sentences: Sequence[Sentence],
    query: Float[np.ndarray, "query 2"],
    key_places: Float[np.ndarray, "key 2"],
    classes: Int[np.ndarray, " point"],
    class_names: Sequence[str],
    *,
    key: str,
    controls: Controls | None = None,
    kept: Point | None = None,
    file_name: str = "vectors",
    about: About | None = None,
    on_keep: Callable[[Point | None], None] | None = None,
) -> None:
    """Draw the points, queries as circles and keys as squares, both axes on one scale.

    Points are those of the sentences, one after the other; `classes` (queries, then keys) count in `class_names`.
    Pointing at a query joins it with the keys of its sentence that it looks at most; at a key, with the queries that
    look at it. Arrow keys move along the sentence and from sentence to sentence, Enter or a click keeps a point:
    `on_keep` is called with it, or with None where it was let go. With `controls`, a reader chooses what colours mean
    (else: query or key), and a word that leaves the other tokens faint; the browser writes both into the address, and
    no run is started.

    Raises:
        InputError: points, classes and tokens are not equally many, a place is no number, weights lie outside 0 to 1.
    """
    n_queries, n_keys = (sum(len(getattr(one, side)) for one in sentences) for side in ("queries", "keys"))
    if (len(query), len(key_places), len(classes)) != (n_queries, n_keys, n_queries + n_keys):
        raise InputError("component_vectors_count", queries=n_queries, keys=n_keys, places=len(query) + len(key_places))
    places = np.concatenate([query, key_places]).astype(np.float32)
    if not np.isfinite(places).all():
        raise InputError("component_vectors_places")
    for one in sentences:
        if one.weights.shape != (len(one.queries), len(one.keys)):
            raise InputError("component_vectors_count", queries=len(one.queries), keys=len(one.keys), places=0)
        blob.refuse_outside_unit("weights", one.weights, np.ones(one.weights.shape, dtype=bool))

    def keep(value: Any) -> None:
        if on_keep:
            on_keep(_point(value, sentences))

    component(
        key=key,
        header={
            "sentences": [{"query": list(one.queries), "key": list(one.keys)} for one in sentences],
            "classes": list(class_names),
            "owned": controls and controls.message(),
            "file_name": file_name,
            "about": (about or About()).message(),
        },
        arrays={
            "places": places,
            "classes": np.asarray(classes, dtype=np.uint8),
            "weights": np.concatenate([one.weights.ravel() for one in sentences]).astype(np.float32),
        },
        options={"kept": kept and {"side": kept.side, "sentence": kept.sentence, "place": kept.place}},
        events={"kept": keep if on_keep else None},
    )


def _point(value: Any, sentences: Sequence[Sentence]) -> Point | None:
    """The browser's event as a point that is here; None for none, or for one that is gone."""
    match value:
        case {"side": "query" | "key" as side, "sentence": int(sentence), "place": int(place)}:
            if not 0 <= sentence < len(sentences):
                return None
            tokens = sentences[sentence].queries if side == "query" else sentences[sentence].keys
            return Point(side, sentence, place) if 0 <= place < len(tokens) else None
        case _:
            return None

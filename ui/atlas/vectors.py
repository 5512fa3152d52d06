"""The queries and keys of one head over the example sentences, in one plane."""

from typing import Final, get_args

import numpy as np
import streamlit as st

from transformer import DecodingOptions
from transformer.atlas.vectors import CLASSES, Plane, Vectors, plane, vectors
from transformer.canvas.about import About
from transformer.figures.file_names import file_name
from transformer.runs.concurrency import forward_slot
from transformer.sites import Site
from ui.atlas import choices
from ui.atlas.compare import Pairs, sentences_of
from ui.components.vectors import component
from ui.components.vectors.component import Colour, Point, Sentence
from ui.shared import address
from ui.shared.address import parameter, set_parameter
from ui.shared.record_views import matrix
from ui.store import runs, store
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

COLOURS: Final[tuple[str, ...]] = get_args(Colour)

POINT = "point"
"""The query parameter of the point that is kept: its side, sentence and place, from 0."""


def vectors_panel(name: str, atlas: Atlas) -> None:
    """The plane, its controls, and the map of the sentence whose point is kept."""
    row = choices.head(atlas)
    texts = sentences_of(atlas)
    if store.architecture(name) not in store.TRANSLATORS or not texts:
        st.info(t("atlas.vectors_none"))
        return
    site, head = Site(row["site"]), int(row["head"])
    found, places = _vectors(store.revision(name), str(site), head, texts)
    address.belong_to((name, str(site), head), POINT)
    kept = _kept(found)
    title, counts = plain("atlas.head_title", site=str(site), head=head), _counts(found, places)
    component.vectors(
        [Sentence(one.queries, one.keys, one.weights) for one in found.sentences],
        places.query,
        places.key,
        np.concatenate([found.query_classes, found.key_classes]),
        [plain(f"atlas.vectors_class_{one}") for one in CLASSES],
        key="atlas-vectors", controls=_controls(), kept=kept,
        file_name=f"{name}-{site}-{head}-queries-keys",
        about=About(title, [name, plain("atlas.vectors_note", **counts)]), on_keep=_keep,
    )  # fmt: skip
    st.caption(t("atlas.vectors_note", **counts))
    st.caption(t("atlas.vectors_rule"))
    if kept is not None:
        _sentence(name, row, texts, kept)


def _controls() -> component.Controls:
    """What the browser chooses by itself: it takes that from the address, where no default stands."""
    colour, word = (parameter(key) for key in component.KEYS)
    if colour not in COLOURS[1:]:
        set_parameter(component.KEYS[0], None)
    if word is not None and not word.strip():
        set_parameter(component.KEYS[1], None)
    names = [plain(f"atlas.vectors_colour_{one}") for one in COLOURS]
    said = plain("atlas.vectors_colour"), names, plain("atlas.vectors_word"), plain("atlas.vectors_word_help")
    return component.Controls(*said, address.held(*component.KEYS))


def _counts(found: Vectors, places: Plane) -> dict[str, object]:
    """How much is drawn, and how much of it the plane holds."""
    percents = {"percent": sum(places.shares), "first": places.shares[0], "second": places.shares[1]}
    return {
        "queries": len(found.query), "keys": len(found.key), "sentences": len(found.sentences),
        "size": found.query.shape[1], **{name: f"{100 * share:.1f}" for name, share in percents.items()},
    }  # fmt: skip


def _kept(found: Vectors) -> Point | None:
    """The point that the address names, where there is such a one."""
    side, _, rest = (parameter(POINT) or "").partition(".")
    numbers = address.whole_numbers(rest, ".")
    if side not in ("query", "key") or numbers is None or len(numbers) != 2 or numbers[0] >= len(found.sentences):
        return None
    one = found.sentences[numbers[0]]
    tokens = one.queries if side == "query" else one.keys
    return Point("query" if side == "query" else "key", *numbers) if numbers[1] < len(tokens) else None


def _keep(point: Point | None) -> None:
    set_parameter(POINT, None if point is None else f"{point.side}.{point.sentence}.{point.place}")


def _sentence(name: str, row: Row, texts: Pairs, kept: Point) -> None:
    """The head's map of the sentence whose point is kept."""
    text, target = texts[kept.sentence]
    translation = runs.translation(name, text, DecodingOptions(beam=1), target)
    picture = translation.record[row["site"]].picture(row["head"])
    cell = (kept.place, int(np.argmax(picture.values[kept.place]))) if kept.side == "query" else None
    stem = file_name(name, str(row["site"]), f"head-{row['head']}")
    matrix(picture, key="atlas-vectors-map", stem=stem, selected=cell)
    choices.open_in_translate(name, row, text, target)


@cached(spinner="atlas.vectors_reading")
def _vectors(revision: Revision, site: str, head: int, texts: Pairs) -> tuple[Vectors, Plane]:
    with forward_slot():
        found = vectors(store.load(revision), Site(site), head, texts)
    return found, plane(found)

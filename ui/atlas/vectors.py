"""The queries and keys of one head over the example sentences, in one plane."""

from typing import Final

import numpy as np
import streamlit as st
from jaxtyping import Int

from transformer import DecodingOptions
from transformer.atlas.vectors import CLASSES, Plane, Spoken, Vectors, plane, vectors
from transformer.messages import Message, words
from transformer.plots import labels
from transformer.plots.axes import WORD_START
from transformer.plots.export import plot_config
from transformer.plots.file_names import file_name
from transformer.plots.vectors import plane_of_vectors
from transformer.runs.concurrency import forward_slot
from transformer.sites import Site
from ui.atlas import choices
from ui.atlas.compare import Pairs, sentences_of
from ui.markdown import as_text
from ui.shared import address
from ui.shared.address import parameter, set_parameter
from ui.shared.record_views import matrix
from ui.shared.theme import is_dark
from ui.store import runs, store
from ui.store.atlases import Atlas, Row
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, said, t

COLOURS: Final = ("side", "position", "class")
"""What colours can mean: query or key, the third of its sentence, the class of its token."""

POINT = "point"
"""The query parameter of the point that is kept: its side, sentence and position, from 0."""

LEAST, LINES, NAMED = 0.05, 6, 3
"""The least weight that is drawn as a line, how many lines a point has, and how many weights its hover names."""

CHART = "atlas-vectors"

Point = tuple[str, int, int]
"""Its side (`query` or `key`), its sentence and its position there."""


def vectors_panel(name: str, atlas: Atlas) -> None:
    """The plane, its controls, and the map of the sentence whose point is kept."""
    row = choices.head(atlas)
    texts = sentences_of(atlas)
    if store.architecture(name) not in store.TRANSLATORS or not texts:
        st.info(t("atlas.vectors_none"))
        return
    site, head = Site(row["site"]), int(row["head"])
    found, places = _vectors(store.revision(name), str(site), head, texts)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        colour = address.choice(
            t("atlas.vectors_colour"), COLOURS, key="colour", text=lambda one: plain(f"atlas.vectors_colour_{one}")
        )
        word = address.line(
            t("atlas.vectors_word"), "", key="word", width=200, help=t("atlas.vectors_word_help")
        ).strip()
    address.belong_to((name, str(site), head), POINT)
    points = [
        (side, number, position)
        for side in ("query", "key")
        for number, one in enumerate(found.sentences)
        for position in range(len(tokens(one, side)))
    ]
    kept = _kept(points)
    linked = [] if kept is None else partners(found.sentences[kept[1]], kept, LINES)
    numbers = {point: number for number, point in enumerate(points)}
    colours, names = _colours(found, points, colour)
    meant = np.array([_bare(_token(found, point)) == word.lower() for point in points]) if word else None
    figure = plane_of_vectors(
        np.concatenate([places.query, places.key]), np.array([side == "key" for side, _, _ in points]), colours, names,
        [_hover(found, point) for point in points], [".".join(map(str, point)) for point in points], meant=meant,
        kept=None if kept is None else numbers[kept], weights=[(numbers[point], weight) for point, weight in linked],
        texts=[] if kept is None else [_token(found, point) for point in (kept, *(point for point, _ in linked))],
        dark=is_dark(),
    )  # fmt: skip
    st.caption(as_text(said(Message("vectors_hint"))))
    config = plot_config(f"{name}-{site}-{head}-queries-keys")
    st.plotly_chart(figure, key=CHART, on_select=_keep, selection_mode="points", config=config)
    shares = {"percent": sum(places.shares), "first": places.shares[0], "second": places.shares[1]}
    counts = {"queries": len(found.query), "keys": len(found.key), "sentences": len(found.sentences)}
    percents = {key: f"{100 * share:.1f}" for key, share in shares.items()}
    st.caption(t("atlas.vectors_note", **counts, size=found.query.shape[1], **percents))
    st.caption(t("atlas.vectors_rule"))
    if kept is not None:
        _sentence(name, row, texts, kept)


def tokens(sentence: Spoken, side: str) -> tuple[str, ...]:
    """The tokens of a sentence's queries or keys."""
    return sentence.queries if side == "query" else sentence.keys


def partners(sentence: Spoken, point: Point, most: int) -> list[tuple[Point, float]]:
    """The keys that a query looks at, or the queries that look at a key: the largest weights, from `LEAST` on."""
    side, number, position = point
    weights = sentence.weights[position] if side == "query" else sentence.weights[:, position]
    other = "key" if side == "query" else "query"
    order = np.argsort(-weights, kind="stable")[:most]
    return [((other, number, int(i)), float(weights[i])) for i in order if weights[i] >= LEAST]


def _colours(found: Vectors, points: list[Point], colour: str) -> tuple[Int[np.ndarray, " point"], list[str]]:
    """The colour of each point by its number, and what the colours mean."""
    if colour == "class":
        names = [plain(f"atlas.vectors_class_{one}") for one in CLASSES]
        return np.concatenate([found.query_classes, found.key_classes]), names
    if colour == "side":
        names = [words("vectors_queries"), words("vectors_keys")]
        return np.array([int(side == "key") for side, _, _ in points]), names
    lengths = [len(tokens(found.sentences[number], side)) for side, number, _ in points]
    thirds = [3 * position // length for (_, _, position), length in zip(points, lengths, strict=True)]
    return np.array(thirds), [words("vectors_beginning"), words("vectors_middle"), words("vectors_end")]


def _hover(found: Vectors, point: Point) -> str:
    """The token in its sentence, and the weights that it shares."""
    side, number, position = point
    sentence = found.sentences[number]
    texts = [labels.safe(token) for token in tokens(sentence, side)]
    listed = words("vectors_separator").join(
        f"{labels.isolated(_token(found, other))} {weight:.2f}" for other, weight in partners(sentence, point, NAMED)
    )
    texts[position] = f"<b>[{texts[position]}]</b>"
    lines = [" ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
    return "<br>".join([*lines, words(f"vectors_{side}", listed=listed or "-")])


def _token(found: Vectors, point: Point) -> str:
    return tokens(found.sentences[point[1]], point[0])[point[2]]


def _bare(token: str) -> str:
    return token.removeprefix(WORD_START).lower()


def _kept(points: list[Point]) -> Point | None:
    """The point that the address names, where there is one."""
    asked = parameter(POINT)
    return next((point for point in points if ".".join(map(str, point)) == asked), None) if asked else None


def _keep() -> None:
    chosen = st.session_state[CHART].selection.points[:1]
    set_parameter(POINT, str(chosen[0]["customdata"]) if chosen else None)


def _sentence(name: str, row: Row, texts: Pairs, kept: Point) -> None:
    """The head's map of the sentence whose point is kept."""
    side, number, position = kept
    text, target = texts[number]
    translation = runs.translation(name, text, DecodingOptions(beam=1), target)
    picture = translation.record[row["site"]].picture(row["head"])
    cell = (position, int(np.argmax(picture.values[position]))) if side == "query" else None
    stem = file_name(name, str(row["site"]), f"head-{row['head']}")
    matrix(picture, key="atlas-vectors-map", stem=stem, selected=cell)
    choices.open_in_translate(name, row, text, target)


@cached(spinner="atlas.vectors_reading")
def _vectors(revision: Revision, site: str, head: int, texts: Pairs) -> tuple[Vectors, Plane]:
    with forward_slot():
        found = vectors(store.load(revision), Site(site), head, texts)
    return found, plane(found)

"""Views of a record, for every page that shows one. The browser draws them from the record, which it is sent once.

A choice of kind, layer, head, pair or scale then starts no run. The form of the maps (words, special tokens)
is the server's, and so are scores. Of a record of more than `MOST_BYTES`, or with long sides, the browser has all heads
of one kind in blocks and the chosen layer whole: another layer starts a run.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from heedmap import AttentionMap, Record
from heedmap.attention.notebook import axes_of, kind_of, sites_of
from heedmap.explain.attribution.deletion import Deciding
from heedmap.messages import Message, language, say
from heedmap.plots.canvas.views import Grid, Known, Link, MapKind, Packed, Sides, SideTexts, SiteTexts, packed
from heedmap.plots.picture import UNSURE, Picture
from heedmap.runs.concurrency import forward_slot, letting_others
from heedmap.safe.limits import MEGABYTE
from ui.components import views
from ui.components.shared.mounting import Local, post
from ui.components.views import LARGEST_SIDE
from ui.shared.address import parameter, set_parameter
from ui.shared.controls import MEAN, Selection, kind_name, kind_title, kinds, plain_sentence, sentence
from ui.shared.files import Provenance, head_prefix, save_button
from ui.shared.files import table as table_of
from ui.shared.heads import KIND
from ui.shared.state import page_state
from ui.store.cache import cached_result
from ui.store.progress import with_progress
from ui.texts import plain, said, t

KEYS: Final = ("layer", "head", "kind", "pair", "relative")
"""The keys of the address that the browser owns here."""

MOST_BYTES = 2**20
"""So large a record is sent whole, 4 bytes a weight: 48 heads of 74 words each way fit in it."""

EXACT = 2**20
"""Up to so many weights of a kind travel as they are, in 32 bits; more in 16, 11 of them the number's."""

MESSAGES = 4
"""The largest message takes so many times less than the server may send: labels and the like have room beside it."""

RoleOf = Callable[[str, int], str | None]
"""What the head of a site does; None where nobody knows."""


@dataclass(frozen=True, eq=False)
class Form:
    """A record as it is sent in one form, one map of each kind for the words of its axes, and what its maps are called.

    What is called is told by site.
    """

    packed: Packed
    first: dict[str, Picture]
    sites: dict[str, SiteTexts]


@dataclass(frozen=True)
class BrowserRecord:
    """A record in the browser, in one form, and what the address chooses of it as this run knows it."""

    record: Record
    key: Hashable
    """Names the run, as caches do."""
    local: Local
    choice: Selection
    is_whole: bool
    form: Form


def is_small(record: Record, largest: int = LARGEST_SIDE) -> bool:
    """Whether a record is sent whole, of maps of at most so many rows and columns."""
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    longest = max((side for one in record.values() for side in one.shape), default=0)
    return 4 * numbers <= MOST_BYTES and longest <= largest


def most_sent() -> int:
    """Bytes of numbers that one message may hold."""
    return int(st.get_option("server.maxMessageSize")) * MEGABYTE // MESSAGES


def bring(
    record: Record,
    key: Hashable,
    default: tuple[int, int],
    words: bool,
    special: bool,
    decided: Callable[[], Deciding] | None = None,
) -> BrowserRecord:
    """Send a record, and take what the address chooses of it: at first the layer and head of `default`.

    `key` names the run, as caches do. `decided` says which source word decides each written one; it is asked where
    whole words are shown, of a record that is sent whole.
    """
    available = kinds(record)
    kind = one_of(list(available), "kind", next(iter(available)))
    sites = available[kind]
    layer = int(one_of([*map(str, range(len(sites)))], "layer", str(min(default[0], len(sites) - 1))))
    count = record[sites[layer]].n_heads
    head = one_of([*map(str, range(count)), MEAN], "head", str(min(default[1], count - 1)))
    parts = None if is_small(record) else {kind: layer}
    choice = Selection(kind, layer, sites[layer], MEAN if head == MEAN else int(head), words, special)
    return send(record, key, choice, default, parts, decided=decided)


def send(
    record: Record,
    key: Hashable,
    choice: Selection,
    usual: tuple[int, int | None],
    parts: Mapping[str, int] | None,
    *,
    decided: Callable[[], Deciding] | None = None,
    called: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> BrowserRecord:
    """Send all layers of a record, or of each kind in `parts` one, in the form of what is chosen.

    The browser shows the layer and head of `usual` where its address says nothing (None: the mean); of the first kind,
    or of the last one where the address calls layers by names of a page's own (`called`, by kind).
    """
    there = None if parts is None else tuple(parts.items())
    form = cached_result(
        "record-form",
        (key, usual, choice.words, choice.special, language(), there),
        lambda: form_of(record, usual, choice.words, choice.special, parts, decided, called),
    )
    post(form.packed, key="record")
    local = {"record": form.packed.id, **page_state().own(*KEYS)}
    return BrowserRecord(record, key, local, choice, parts is None, form)


def form_of(
    record: Record,
    usual: tuple[int, int | None],
    words: bool,
    special: bool,
    parts: Mapping[str, int] | None,
    decided: Callable[[], Deciding] | None = None,
    called: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Form:
    """All layers of a record, or of each kind in `parts` one."""
    first, sites, sent = dict[str, Picture](), dict[str, SiteTexts](), list[MapKind]()
    for name, layers in _layers(record).items():
        sent_of = layers if parts is None else [layers[parts[name]]] if name in parts else []
        pictures = {one.site: one.pictures(words, special) for one in sent_of}
        common, found = sites_of(
            pictures,
            lambda one: " ".join(head_prefix(one)),
            lambda one: " ".join(map(plain_sentence, one.notes)) or plain("translate.sums"),
        )
        sites |= found
        one = pictures[sent_of[0].site][0] if sent_of else layers[0].picture(0, words, special)
        first[name] = replace(one, notes=common) if sent_of else one
        is_exact = len(sent_of) * layers[0].n_heads * one.values.size <= EXACT
        dtype = np.float32 if is_exact else np.float16
        kind = kind_of(name, layers, pictures, (one.queries, one.keys), called.get(name, ()), dtype)
        if decided and name == KIND:
            known = _decided(layers[0], decided(), special) if parts is None and words else []
            kind = replace(kind, decided=known)
        sent.append(kind)
    return Form(packed(sent, usual, kind=len(sent) - 1 if called else 0), first, sites)


def _decided(attention: AttentionMap, found: Deciding, special: bool) -> list[tuple[int, float]]:
    """For each word that is shown the key that decides it, among those that are shown, and what it loses (nats)."""
    axes = attention.queries.merged(), attention.keys.merged()
    rows, keys = ([i for i, hidden in enumerate(axis.special) if special or not hidden] for axis in axes)
    decisions = [(int(found.columns[row]), float(found.lost[row])) for row in rows]
    return [
        (-1 if column < 0 else keys.index(column), lost if np.isfinite(lost) else 0.0) for column, lost in decisions
    ]


def record_notes(*records: Record, said_of: Record | None = None) -> None:
    """What has to be known of some runs, such as words that are unknown; once each, but for what is `said_of` another.

    What the maps rest on is said in amber on top of the page.
    """
    known = set() if said_of is None else set(said_of.notes)
    for note in dict.fromkeys(note for record in records for note in record.notes if note not in known):
        if not (isinstance(note, Message) and note.code in UNSURE):
            st.info(sentence(note), icon=":material/info:")


def head_panel(
    shown: BrowserRecord,
    known: Mapping[str, Sequence[Known]] | None = None,
    links: Sequence[Link] = (),
    reruns: bool = False,
    called: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Buttons for kind, layer and head, `links`, and what is known of the chosen head (by site, one entry a head).

    Where it `reruns` (the server draws what follows the head), another choice starts a run, once none was made for a
    quarter of a second. Where the page has `called` a layer by what tells its kind too, the kind has no buttons.
    """
    choice, is_heard = shown.choice, reruns or not shown.is_whole or _shows_scores()
    named = {"attention": {kind: kind_name(kind) for kind in shown.form.first}, "layer": dict(called)}
    named["head"] = {MEAN: plain("translate.mean")}
    pickers = [
        {"label": plain(f"translate.{name}"), "help": plain(f"translate.{name}_help"), "names": names}
        for name, names in named.items()
    ]
    views.head_choice.of_record(
        shown.local, "sequence-head-choice" if called else "head-choice",
        pickers=pickers, known=dict(known or {}), links=list(links),
        options={"asks": is_heard, "drawn": [choice.kind, choice.layer, None if choice.head == MEAN else choice.head]},
        events={"asked": views.ask if is_heard else None},
    )  # fmt: skip


def all_heads_panel(shown: BrowserRecord, origin: Provenance, role_of: RoleOf | None = None) -> None:
    """Every layer and head of the chosen kind, small; a click opens one. `role_of` says what a head does."""
    grids, arrays = {}, dict[str, np.ndarray]()
    layers_of = _layers(shown.record)
    for kind, first in shown.form.first.items():
        if not shown.is_whole and kind != shown.choice.kind:
            continue
        layers, size = layers_of[kind], None
        if not shown.is_whole:
            found = _in_blocks(shown, layers)
            if found is None:
                return
            arrays, size = found
        grids[kind] = Grid(
            origin.stem("all-heads", kind),
            origin.about(plain("files.all_heads", kind=kind_title(kind)), first),
            [[say((role_of and role_of(layer.site, head)) or "") for head in range(layer.n_heads)] for layer in layers],
            size,
        )
    st.markdown(f"**{t('translate.all_heads')}**")
    views.heads.of_record(shown.local, "all-heads", arrays, grids=grids, **views.axes_of_heads())


def _in_blocks(
    shown: BrowserRecord, layers: Sequence[AttentionMap]
) -> tuple[dict[str, np.ndarray], tuple[int, ...]] | None:
    """Every head of a kind in blocks of at most `LARGEST_SIDE` a side, and how many these are; None where stopped.

    What any layer shows is visible. Others go first between two layers.
    """
    choice = shown.choice
    side = min(LARGEST_SIDE, isqrt(most_sent() // sum(one.n_heads for one in layers)))

    def compute(progress: Callable[[float], None]) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
        report, found = letting_others(progress), []
        with forward_slot():
            for done, layer in enumerate(layers):
                report(done / len(layers))
                found.append(layer.thumbnails(choice.words, choice.special, side))
        values = np.array([heads for heads, _ in found], dtype=np.float32)
        return views.thumbnail_codes(values, np.logical_or.reduce([seen for _, seen in found])), values.shape[2:]

    key = (shown.key, choice.kind, choice.words, choice.special)
    return with_progress("heads-in-blocks", key, plain("your_model.thumbnails"), compute)


def heatmap_panel(shown: BrowserRecord, origin: Provenance) -> None:
    """One head, large: its weights, or its scores on a scale that is centred at 0."""
    choice, form = shown.choice, dict[str, Any](dense=False, save_csv="")
    if _shows_scores() and choice.head != MEAN:  # a message for each head, which says nothing of the others
        picture = shown.record[choice.site].picture(choice.head, choice.words, choice.special, scores=True)
        names = plain("translate.scores_axes", queries=picture.queries.name, keys=picture.keys.name)
        notes = " ".join([names, *map(plain_sentence, picture.notes)])
        facts = origin.facts(*map(said, shown.form.first[choice.kind].notes))
        scores, weights = views.message_of(picture, notes, facts)
        stem = origin.stem(*head_prefix(picture), "scores")
        scores |= {"site": str(picture.site), "head": int(choice.head), "file_name": stem}
        views.heatmap.of_record(shown.local, "heatmap", {"weights": weights}, scores=scores, **form)
        return
    sites = {
        name: replace(site, file_names=[origin.stem(*parts.split(" ", 1)) for parts in site.file_names])
        for name, site in shown.form.sites.items()
    }
    axes = {}
    for kind, first in shown.form.first.items():
        names = plain("translate.axes", queries=first.queries.name, keys=first.keys.name)
        notes = f"{names} {plain('translate.click_cell')}"
        axes[kind] = axes_of(first.queries, first.keys, notes, origin.facts(*map(said, first.notes)))
    views.heatmap.of_record(shown.local, "heatmap", sites=sites, axes=axes, **form)


def head_view_panel(shown: BrowserRecord, origin: Provenance) -> None:
    """Two columns of tokens, joined by what a head looks at."""
    sides = {}
    for kind, first in shown.form.first.items():
        layers = _layers(shown.record)[kind]
        names = [
            [
                plain(f"translate.{'mean' if head == MEAN else 'head'}_in_sentence", layer=layer, head=head)
                for head in [*range(one.n_heads), MEAN]
            ]
            for layer, one in enumerate(layers)
        ]
        sides[kind] = Sides(
            SideTexts(plain("translate.query_title", name=first.queries.name)),
            SideTexts(plain("translate.key_title", name=first.keys.name)),
            names,
            [[origin.stem(str(one.site), "lines")] * len(row) for one, row in zip(layers, names, strict=True)],
            [
                origin.about(plain("files.lines", kind=kind_title(kind), layer=layer, site=one.site), first)
                for layer, one in enumerate(layers)
            ],
        )
    views.columns.of_record(shown.local, "head-view", sides=sides, how="")


def matrix(picture: Picture, *, stem: str, facts: Sequence[str] = (), **drawing: Any) -> None:
    """One map that is no head of the page's record, such as a difference, with what has to be known of it below.

    `drawing` is that of `views.matrix`: its key, what is selected, the end of a scale that several share.
    """
    notes = " ".join(map(plain_sentence, picture.notes))
    views.matrix(*views.message_of(picture, notes, [*facts, *map(said, picture.notes)]), file_name=stem, **drawing)


def measures_panel(record: Record, key: Hashable, origin: Provenance) -> None:
    """A row of numbers for each head."""

    def measured(progress: Callable[[float], None]) -> pd.DataFrame:
        with forward_slot():
            return record.measures(letting_others(progress))

    table = with_progress("measures", (key,), plain("your_model.view_measures"), measured)
    if table is None:
        return
    columns = {
        name: st.column_config.NumberColumn(
            plain(f"atlas.measure_{name}"), help=plain(f"atlas.measure_{name}_help"), format="%.3f"
        )
        for name in table.columns[2:]
    }
    named = {"site": t("files.site"), "head": t("translate.head"), **columns}
    table_of(table, column_config=named, key="measures")
    save_button(t("translate.download_csv"), table, f"{origin.stem('measures')}.csv", key="measures-csv")


def _layers(record: Record) -> dict[str, list[AttentionMap]]:
    """The maps of each kind that the record has, first layer first."""
    return {kind: [record[site] for site in sites] for kind, sites in kinds(record).items()}


def _shows_scores() -> bool:
    return (parameter("scores") or "").lower() == "true"


def one_of(options: Sequence[str], key: str, usual: str) -> str:
    """What the address chooses; the usual one does not stand there."""
    asked = parameter(key) or ""
    found = asked if asked in options else usual
    set_parameter(key, None if found == usual else found)
    return found

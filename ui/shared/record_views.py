"""Views of a record, for every page that shows one. The browser draws them from the record, which it is sent once.

A choice of kind, layer, head, pair, threshold or scale then starts no run. The form of the maps (words, special tokens)
is the server's, and so are scores. Of a record of more than `MOST_BYTES`, or with long sides, the browser has all heads
of one kind in blocks and the chosen layer whole: another layer starts a run.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from transformer import AttentionMap, Record
from transformer.attention.notebook import axes_of, kind_of, sites_of
from transformer.explain.attribution.deciding import Deciding
from transformer.messages import Message, language, say
from transformer.plots.canvas.record import Kind, Packed, packed
from transformer.plots.canvas.views import Axes, Grid, Known, Link, Picker, Sides, Site
from transformer.plots.picture import UNSURE, Picture
from ui.components.all_heads.component import LARGEST_SIDE, all_heads_of_record, thumbnail_codes
from ui.components.head_choice.component import head_choice
from ui.components.head_view.component import head_view
from ui.components.heatmap.component import Scores, heatmap, heatmap_of
from ui.components.shared.record import Local, post
from ui.shared import address
from ui.shared.address import parameter, set_parameter
from ui.shared.controls import KINDS, MEAN, Selection, kind_name, kind_title, kinds, plain_sentence, sentence
from ui.shared.files import Origin, frame_csv, head_stem
from ui.shared.heads import KIND
from ui.store import render_slots
from ui.store.cache import cached_result
from ui.texts import in_this_language, plain, said, t

KEYS: Final = ("layer", "head", "kind", "pair", "heads", "threshold", "relative")
"""The keys of the address that the browser owns here."""

MOST_BYTES = 2**20
"""So large a record is sent whole, 4 bytes a weight: 48 heads of 74 words each way fit in it."""

EXACT = 2**20
"""Up to so many weights of a kind travel as they are, in 32 bits; more in 16, 11 of them the number's."""

RoleOf = Callable[[str, int], str | None]
"""What the head of a site does; None where nobody knows."""


@dataclass(frozen=True)
class BrowserRecord:
    """A record in the browser, in one form, and what the address chooses of it as this run knows it."""

    record: Record
    key: Hashable
    """Names the run, as caches do."""
    local: Local
    choice: Selection
    is_whole: bool
    first: dict[str, Picture]
    """One map of each kind, for the words of its axes."""
    sites: dict[str, Site]
    """What the maps of each site are called."""


def is_small(record: Record) -> bool:
    """Whether a record is sent whole."""
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    longest = max((side for one in record.values() for side in one.shape), default=0)
    return 4 * numbers <= MOST_BYTES and longest <= LARGEST_SIDE


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
    kind = one_of(list(available), "kind", next(iter(available)), {name: kind for kind, name in KINDS.items()})
    sites = available[kind]
    layer = int(one_of([*map(str, range(len(sites)))], "layer", str(min(default[0], len(sites) - 1))))
    count = record[sites[layer]].n_heads
    head = one_of([*map(str, range(count)), MEAN], "head", str(min(default[1], count - 1)))
    is_whole = is_small(record)
    parts = None if is_whole else {kind: layer}
    there = None if parts is None else (kind, layer)
    form = cached_result(
        "record-form",
        (key, default, words, special, language(), there),
        lambda: _form(record, default, words, special, parts, decided, is_whole and words),
    )
    post(form.packed, key="record")
    choice = Selection(kind, layer, sites[layer], MEAN if head == MEAN else int(head), words, special)
    local = Local(form.packed.id, address.browser_owned(*KEYS))
    return BrowserRecord(record, key, local, choice, is_whole, form.first, form.sites)


def record_notes(record: Record) -> None:
    """What has to be known of how the attention was kept; what the maps rest on is said in amber on top of the page."""
    for note in record.notes:
        if not (isinstance(note, Message) and note.code in UNSURE):
            st.info(sentence(note), icon=":material/info:")


def head_panel(
    shown: BrowserRecord,
    known: Mapping[str, Sequence[Known]] | None = None,
    links: Sequence[Link] = (),
    followed: bool = False,
) -> None:
    """Buttons for kind, layer and head, `links`, and what is known of the chosen head (by site, one entry a head).

    Where it is `followed` by something that the server draws, another choice starts a run.
    """
    pickers = (
        Picker(
            plain("translate.attention"), plain("translate.attention_help"),
            {kind: kind_name(kind) for kind in shown.first},
        ),
        Picker(plain("translate.layer"), plain("translate.layer_help"), {}),
        Picker(plain("translate.head"), plain("translate.head_help"), {MEAN: plain("translate.mean")}),
    )  # fmt: skip
    choice = shown.choice
    drawn = choice.kind, choice.layer, None if choice.head == MEAN else int(choice.head)
    head_choice(
        shown.local, pickers, known or {}, links, drawn=drawn, key="head-choice",
        followed=followed or not shown.is_whole or _shows_scores(),
    )  # fmt: skip


def all_heads_panel(shown: BrowserRecord, origin: Origin, role_of: RoleOf | None = None) -> None:
    """Every layer and head of the chosen kind, small; a click opens one. `role_of` says what a head does."""
    grids, arrays = {}, dict[str, np.ndarray]()
    layers_of = _layers(shown.record)
    for kind, first in shown.first.items():
        if not shown.is_whole and kind != shown.choice.kind:
            continue
        layers, size = layers_of[kind], None
        if not shown.is_whole:
            arrays = _in_blocks(shown, layers)
            size = first.reduced(LARGEST_SIDE).values.shape
        grids[kind] = Grid(
            origin.stem("all-heads", kind),
            origin.about(plain("files.all_heads", kind=kind_title(kind)), first),
            [[say((role_of and role_of(layer.site, head)) or "") for head in range(layer.n_heads)] for layer in layers],
            size,
        )
    st.markdown(f"**{t('translate.all_heads')}**")
    all_heads_of_record(shown.local, grids, arrays, key="all-heads")


def heatmap_panel(shown: BrowserRecord, origin: Origin) -> None:
    """One head, large: its weights, or its scores."""
    choice = shown.choice
    if _shows_scores() and choice.head != MEAN:
        picture = shown.record[choice.site].picture(choice.head, choice.words, choice.special, scores=True)
        names = plain("translate.scores_axes", queries=picture.queries.name, keys=picture.keys.name)
        notes = " ".join([names, *map(plain_sentence, picture.notes)])
        facts = origin.facts(*map(said, shown.first[choice.kind].notes))
        stem = origin.stem(*head_stem(picture), "scores")
        heatmap(shown.local, {}, {}, key="heatmap", scores=Scores(picture, int(choice.head), notes, facts, stem))
        return
    sites = {
        name: replace(site, file_names=[origin.stem(*parts.split(" ", 1)) for parts in site.file_names])
        for name, site in shown.sites.items()
    }
    axes = {kind: _axes(first, origin) for kind, first in shown.first.items()}
    heatmap(shown.local, sites, axes, key="heatmap")


def head_view_panel(shown: BrowserRecord, origin: Origin) -> None:
    """Two columns of tokens, joined by what the heads of one layer look at."""
    sides = {}
    for kind, first in shown.first.items():
        sites = kinds(shown.record)[kind]
        sides[kind] = Sides(
            plain("translate.query_title", name=first.queries.name),
            plain("translate.key_title", name=first.keys.name),
            [origin.stem(str(site), "lines") for site in sites],
            [
                origin.about(plain("files.lines", kind=kind_title(kind), layer=layer, site=site), first)
                for layer, site in enumerate(sites)
            ],
        )
    most = max(attention.n_heads for attention in shown.record.values())
    names = [*(plain("translate.head_name", head=head) for head in range(most)), plain("translate.mean")]
    head_view(shown.local, sides, names, key="head-view")


def matrix(
    picture: Picture,
    *,
    key: str,
    stem: str,
    facts: Sequence[str] = (),
    selected: tuple[int, int] | None = None,
    relative: bool = False,
    end: float | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """One map that is no head of the page's record, such as a difference, with what has to be known of it below.

    `end` is where the colours end of several that share a scale.
    """
    notes = " ".join(map(plain_sentence, picture.notes))
    heatmap_of(
        picture, key=key, file_name=stem, notes=notes, facts=[*facts, *map(said, picture.notes)], selected=selected,
        relative=relative, end=end, on_pick=on_pick,
    )  # fmt: skip


def measures_panel(record: Record, key: Hashable, origin: Origin) -> None:
    """A row of numbers for each head."""

    def measured() -> pd.DataFrame:
        render_slots.give_back()  # a long text takes seconds
        return record.measures().drop(columns="roles")

    table = cached_result("measures", key, measured)
    columns = {
        name: st.column_config.NumberColumn(
            plain(f"atlas.measure_{name}"), help=plain(f"atlas.measure_{name}_help"), format="%.3f"
        )
        for name in table.columns[2:]
    }
    st.dataframe(
        table, column_config={"site": t("files.site"), "head": t("translate.head"), **columns}, hide_index=True,
        key="measures", placeholder="-",
    )  # fmt: skip
    st.download_button(
        t("translate.download_csv"), in_this_language(lambda: frame_csv(table)), f"{origin.stem('measures')}.csv",
        "text/csv", on_click="ignore", key="measures-csv",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Form:
    """A record as it is sent in one form: with the words of its axes, and what its maps are called."""

    packed: Packed
    first: dict[str, Picture]
    sites: dict[str, Site]


def _form(
    record: Record,
    default: tuple[int, int],
    words: bool,
    special: bool,
    parts: Mapping[str, int] | None,
    decided: Callable[[], Deciding] | None = None,
    decides: bool = False,
) -> _Form:
    """All layers of a record, or of each kind in `parts` one; what `decided` says is asked where `decides`."""
    first, sites, sent = dict[str, Picture](), dict[str, Site](), list[Kind]()
    for name, layers in _layers(record).items():
        sent_of = layers if parts is None else [layers[parts[name]]] if name in parts else []
        pictures = {one.site: one.pictures(words, special) for one in sent_of}
        common, found = sites_of(pictures, lambda one: " ".join(head_stem(one)), _notes)
        sites |= found
        usual = pictures[sent_of[0].site][0] if sent_of else layers[0].picture(0, words, special)
        first[name] = replace(usual, notes=common) if sent_of else usual
        is_exact = len(sent_of) * layers[0].n_heads * usual.values.size <= EXACT
        dtype = np.float32 if is_exact else np.float16
        kind = kind_of(name, layers, pictures, (usual.queries, usual.keys), dtype=dtype)
        if decided and name == KIND:
            kind = replace(kind, decided=_decided(layers[0], decided(), special) if decides else [])
        sent.append(kind)
    return _Form(packed(sent, default, {name: kind for kind, name in KINDS.items()}), first, sites)


def _decided(attention: AttentionMap, found: Deciding, special: bool) -> list[tuple[int, float]]:
    """For each word that is shown the key that decides it, among those that are shown, and what it loses (nats)."""
    axes = attention.queries.merged(), attention.keys.merged()
    rows, keys = ([i for i, hidden in enumerate(axis.special) if special or not hidden] for axis in axes)
    told = [(int(found.columns[row]), float(found.lost[row])) for row in rows]
    return [(-1 if column < 0 else keys.index(column), lost if np.isfinite(lost) else 0.0) for column, lost in told]


def _in_blocks(shown: BrowserRecord, layers: Sequence[AttentionMap]) -> dict[str, np.ndarray]:
    """Every head of a kind in blocks of at most `LARGEST_SIDE` a side; what any layer shows is visible."""
    choice = shown.choice

    def compute() -> dict[str, np.ndarray]:
        pictures = [
            [one.reduced(LARGEST_SIDE) for one in layer.pictures(choice.words, choice.special)[:-1]] for layer in layers
        ]
        values = np.array([[picture.values for picture in row] for row in pictures], dtype=np.float32)
        return thumbnail_codes(values, np.logical_or.reduce([row[0].visible for row in pictures]))

    return cached_result("heads-in-blocks", (shown.key, choice.kind, choice.words, choice.special), compute)


def _layers(record: Record) -> dict[str, list[AttentionMap]]:
    """The maps of each kind that the record has, first layer first."""
    return {kind: [record[site] for site in sites] for kind, sites in kinds(record).items()}


def _shows_scores() -> bool:
    return (parameter("scores") or "").lower() == "true"


def one_of(options: Sequence[str], key: str, usual: str, old: dict[str, str] | None = None) -> str:
    """What the address chooses, which may be in older words; the usual one does not stand there."""
    asked = parameter(key) or ""
    asked = (old or {}).get(asked, asked)
    found = asked if asked in options else usual
    set_parameter(key, None if found == usual else found)
    return found


def _axes(first: Picture, origin: Origin) -> Axes:
    names = plain("translate.axes", queries=first.queries.name, keys=first.keys.name)
    return axes_of(
        first.queries, first.keys, f"{names} {plain('translate.click_cell')}", origin.facts(*map(said, first.notes))
    )


def _notes(picture: Picture) -> str:
    """What has to be known of one map."""
    return " ".join(map(plain_sentence, picture.notes)) or plain("translate.sums")

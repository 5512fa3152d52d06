"""One sequence's record in the browser, as `ui.shared.record_views` has it: another layer or head asks for no run.

Windows look at windows in the layers, and the decision at windows in the pooling: two kinds with queries of their own.
What the page calls a layer (a number, or "pooling") tells which of them is meant. Letters need no weights; of a map of
many windows what its window shows is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import streamlit as st

from transformer.attention.notebook import axes_of, kind_of, sites_of
from transformer.attention.record import AttentionMap
from transformer.attention.zoom import head_name
from transformer.messages import language
from transformer.plots.axes import Axis
from transformer.plots.canvas.about import About
from transformer.plots.canvas.record import Kind, Packed, packed
from transformer.plots.canvas.views import Axes, Link, Picker
from transformer.plots.canvas.views import Site as Maps
from transformer.plots.picture import Picture
from transformer.runs.sequences.classify import Classification
from transformer.sites import Site
from ui.components.all_heads.component import LARGEST_SIDE, all_heads_of_kinds
from ui.components.head_choice.component import head_choice
from ui.components.heatmap.component import heatmap
from ui.components.shared.record import Local, post
from ui.sequences import runs
from ui.shared import address
from ui.shared import sequence_controls as asked
from ui.shared.files import head_stem
from ui.shared.record_views import one_of
from ui.shared.sequence_controls import MAX_ADDRESS, MEAN, POOLING, SEQUENCE, HeadChoice
from ui.shared.what_if_link import what_if_query
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

KEYS: Final = ("layer", "head", "pair", "relative")
"""The keys of the address that the browser owns here."""

OLD: Final = {"relative-windows": "relative"}
"""What older addresses call them."""

MOST_BYTES = 2**20
"""Maps of so many bytes are all sent, 4 a weight: 12 of 147 windows each way; of more, the chosen site's."""


@dataclass(frozen=True, eq=False)
class Form:
    """A record as it is sent, and what stands around its maps, in one language."""

    packed: Packed
    kinds: tuple[tuple[Site, ...], ...]
    """The sites of each kind, first layer first."""
    maps: dict[str, Maps]
    axes: dict[str, Axes]
    """By the name of the kind, still without notes."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A run whose record the browser has, and what the address chooses of it as this run of the page knows it."""

    run: Classification
    local: Local
    place: HeadChoice
    form: Form
    is_whole: bool
    """Whether another layer needs no other weights."""


def bring(run: Classification, view: str) -> Shown:
    """Send what a view draws of a record, and take what the address chooses of it."""
    sites = asked.sites(run)
    layer = one_of(list(sites), "layer", list(sites)[-1])
    site = sites[layer]
    head = one_of([*map(str, range(run.record[site].n_heads)), MEAN], "head", MEAN)
    maps = [run.record[one] for one in run.record.sites]
    is_whole = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in maps) <= MOST_BYTES and view == "windows"
    sent = () if view == "letters" else tuple(run.record.sites) if is_whole else (site,)
    form = _form(*runs.key_of(run), language(), sent, run)
    post(form.packed, key="record")
    held = address.browser_owned(*KEYS, *OLD)
    for old, key in OLD.items():
        if (said := held["values"].pop(old, None)) is not None:
            held["values"][key] = said
    return Shown(
        run, Local(form.packed.id, KEYS, held), HeadChoice(site, MEAN if head == MEAN else int(head)), form, is_whole
    )


def head_panel(shown: Shown, name: str, sequence: str) -> None:
    """Buttons for layer and head, followed by what the server draws; What if is led to with the `sequence` read."""
    place, kinds = shown.place, shown.form.kinds
    number = next(number for number, sites in enumerate(kinds) if place.site in sites)
    along = {key: key for key in ("layer", "head")}
    query = {key: value for key, value in what_if_query(model=name).items() if key not in along}
    query |= {SEQUENCE: sequence} if len(sequence) <= MAX_ADDRESS else {}
    head_choice(
        shown.local,
        (
            Picker("", "", {}),
            Picker(plain("sequences.layer"), plain("translate.layer_help"), {POOLING: plain("sequences.pooling")}),
            Picker(plain("sequences.head"), plain("translate.head_help"), {MEAN: plain("sequences.mean")}),
        ),
        {},
        [Link(plain("what_if.link"), "what_if", query, along)],
        drawn=(_name(kinds[number]), kinds[number].index(place.site), None if place.head == MEAN else int(place.head)),
        key="sequence-head-choice",
        followed=not shown.is_whole,
    )


def all_heads_panel(shown: Shown) -> None:
    """Every layer and head over the windows, and what the decision pools, small; a click opens one."""
    sites = tuple(shown.run.record.sites)
    thumbnails = runs.thumbnails(shown.run, sites, LARGEST_SIDE)
    st.markdown(t("sequences.all_heads"), help=t("sequences.all_heads_help"))
    places = {site: (kind, of_kind.index(site)) for kind, of_kind in enumerate(shown.form.kinds) for site in of_kind}
    all_heads_of_kinds(
        shown.local,
        thumbnails,
        [places[site] for site in sites],
        [plain("sequences.pooling") if site == POOLING else f"L{order}" for order, site in enumerate(sites)],
        key="sequence-heads",
        query_axis=plain("sequences.windows_axis"),
        key_axis=plain("sequences.windows_axis"),
    )


def heatmap_panel(shown: Shown, groups: str) -> None:
    """One head over windows, with a line where one width ends and the next begins; `groups` says which those are."""
    widths = [span.width for span in shown.run.spans]
    edges = [int(edge) for edge in np.flatnonzero(np.diff(widths)) + 1]
    facts = About("", [plain("sequences.facts_size", letters=len(shown.run.letters), windows=len(widths))]).lines
    notes = f"{plain('sequences.rows_are_queries')} {groups}"
    axes = {
        name: replace(one, notes=notes, facts=facts, edges=(_edges(name, edges), edges))
        for name, one in shown.form.axes.items()
    }
    csv = plain("sequences.download_matrix")
    heatmap(shown.local, shown.form.maps, axes, key="windows", dense=True, save_csv=csv)


@cached()
def _form(
    revision: Revision,  # noqa: ARG001  (part of the cache key, as are the text, its place and the language)
    text: str,  # noqa: ARG001
    begins: int,  # noqa: ARG001
    direction: int,  # noqa: ARG001
    spoken: str,  # noqa: ARG001
    sent: tuple[Site, ...],
    _run: Classification,
) -> Form:
    record = _run.record
    layers = tuple(site for site in record.sites if site != POOLING)
    kinds = [sites for sites in (layers, tuple(site for site in record.sites if site == POOLING)) if sites]
    keys = slice(0, len(_run.spans))
    packs, maps, axes = list[Kind](), dict[str, Maps](), dict[str, Axes]()
    for sites in kinds:
        first, called = record[sites[0]], [name for name, site in asked.sites(_run).items() if site in sites]
        queries = slice(0, len(first.queries)) if sites[0] == POOLING else keys
        pictures = {site: _pictures(record[site], queries, keys) for site in sites if site in sent}
        maps |= sites_of(pictures, lambda one: "-".join(head_stem(one)).replace(" ", "-"), lambda _: "")[1]
        sides = _sides(first, queries, keys)
        packs.append(kind_of(_name(sites), [record[site] for site in sites], pictures, sides, called))
        axes[_name(sites)] = axes_of(*sides, "", [])
    usual = len(kinds[-1]) - 1, None
    return Form(packed(packs, usual, {}, kind=len(kinds) - 1), tuple(kinds), maps, axes)


def _pictures(attention: AttentionMap, queries: slice, keys: slice) -> list[Picture]:
    """All heads of a site over some windows, and their mean as the last one."""
    heads = [attention.tile(head, queries, keys) for head in range(attention.n_heads)]
    visible = attention.tile_mask(queries, keys)
    names = [*range(attention.n_heads), MEAN]
    return [
        Picture(attention.site, head_name(attention, name), values, visible, *_sides(attention, queries, keys))
        for name, values in zip(names, [*heads, np.mean(heads, axis=0)], strict=True)
    ]


def _sides(attention: AttentionMap, queries: slice, keys: slice) -> tuple[Axis, Axis]:
    rows, columns = range(queries.start, queries.stop), range(keys.start, keys.stop)
    return attention.queries.kept(rows), attention.keys.kept(columns)


def _name(sites: Sequence[Site]) -> str:
    """What a kind is called that these sites are of."""
    return sites[0].group


def _edges(kind: str, edges: list[int]) -> list[int]:
    """Edges between queries: those of the pooling are no windows."""
    return [] if kind == POOLING else edges

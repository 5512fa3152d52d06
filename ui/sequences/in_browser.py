"""One sequence's record in the browser, as `ui.shared.record_views` has it: another layer or head asks for no run.

Windows look at windows in the layers, and the decision at windows in the pooling: two kinds with queries of their own.
What the page calls a layer (a number, or "pooling") tells which of them is meant. Letters need no weights; of a map of
many windows what its window shows is sent.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import streamlit as st

from transformer.attention.notebook import axes_of, kind_of, sites_of
from transformer.messages import language
from transformer.plots.canvas.about import About
from transformer.plots.canvas.record import Kind, Packed, packed
from transformer.plots.canvas.views import Axes, Link, Picker
from transformer.plots.canvas.views import Site as Maps
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
from ui.store.cache import cached_result
from ui.texts import plain, t

KEYS: Final = ("layer", "head", "pair", "relative")
"""The keys of the address that the browser owns here."""

OLD: Final = {"relative-windows": "relative"}
"""What older addresses call them."""

MOST_BYTES = 2**20
"""Maps of so many bytes are all sent, 4 a weight: 12 of 147 windows each way; of more, the chosen site's."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A run whose record the browser has, what the address chooses of it, and how it was sent, in one language.

    `kinds` are the sites of each kind by its name, first layer first; `axes` belong to kinds too, still without notes.
    `is_whole` says that another layer needs no other weights.
    """

    run: Classification
    local: Local
    place: HeadChoice
    kinds: dict[str, tuple[Site, ...]]
    maps: dict[str, Maps]
    axes: dict[str, Axes]
    is_whole: bool


def bring(run: Classification, view: str) -> Shown:
    """Send what a view draws of a record, and take what the address chooses of it."""
    record, sites = run.record, asked.sites(run)
    layer = one_of(list(sites), "layer", list(sites)[-1])
    site = sites[layer]
    head = one_of([*map(str, range(record[site].n_heads)), MEAN], "head", MEAN)
    size = 4 * sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    is_whole = size <= MOST_BYTES and view == "windows"
    sent = () if view == "letters" else tuple(record.sites) if is_whole else (site,)
    kinds = {site.group: tuple(one for one in record.sites if one.group == site.group) for site in record.sites}
    pack, maps, axes = cached_result(
        "sequence-form", (*runs.key_of(run), language(), sent), lambda: _form(run, kinds, sent)
    )
    post(pack, key="record")
    held = address.browser_owned(*KEYS, *OLD)
    for old, key in OLD.items():
        if (said := held["values"].pop(old, None)) is not None:
            held["values"][key] = said
    place = HeadChoice(site, MEAN if head == MEAN else int(head))
    return Shown(run, Local(pack.id, held), place, kinds, maps, axes, is_whole)


def head_panel(shown: Shown, name: str, sequence: str) -> None:
    """Buttons for layer and head, followed by what the server draws; What if is led to with the `sequence` read."""
    site, head = shown.place.site, shown.place.head
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
        drawn=(site.group, shown.kinds[site.group].index(site), None if head == MEAN else int(head)),
        key="sequence-head-choice",
        followed=not shown.is_whole,
    )


def all_heads_panel(shown: Shown) -> None:
    """Every layer and head over the windows, and what the decision pools, small; a click opens one."""
    sites = tuple(shown.run.record.sites)
    st.markdown(t("sequences.all_heads"), help=t("sequences.all_heads_help"))
    all_heads_of_kinds(
        shown.local,
        runs.thumbnails(shown.run, sites, LARGEST_SIDE),
        [(list(shown.kinds).index(site.group), shown.kinds[site.group].index(site)) for site in sites],
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
    axes = {  # the queries of the pooling are no windows
        name: replace(one, notes=groups, facts=facts, edges=([] if name == POOLING else edges, edges))
        for name, one in shown.axes.items()
    }
    csv = plain("sequences.download_matrix")
    heatmap(shown.local, shown.maps, axes, key="windows", dense=True, save_csv=csv)


def _form(
    run: Classification, kinds: dict[str, tuple[Site, ...]], sent: tuple[Site, ...]
) -> tuple[Packed, dict[str, Maps], dict[str, Axes]]:
    """What is sent of a record, what its maps are called, and what stands around those of a kind."""
    packs, maps, axes = list[Kind](), dict[str, Maps](), dict[str, Axes]()
    for kind, sites in kinds.items():
        layers = [run.record[site] for site in sites]
        called = [name for name, site in asked.sites(run).items() if site in sites]
        pictures = {site: run.record[site].pictures() for site in sites if site in sent}
        maps |= sites_of(pictures, lambda one: "-".join(head_stem(one)).replace(" ", "-"), lambda _: "")[1]
        sides = layers[0].queries, layers[0].keys
        packs.append(kind_of(kind, layers, pictures, sides, called))
        axes[kind] = axes_of(*sides, "", [])
    usual = len(list(kinds.values())[-1]) - 1, None
    return packed(packs, usual, {}, kind=len(packs) - 1), maps, axes

"""One sequence's record in the browser, which draws its heads by itself: another layer, head or scale asks for no run.

Windows look at windows in the layers, and the decision at windows in the pooling: two kinds with queries of their own.
What the page calls a layer (a number, or "pooling") tells which of them is meant. Records of more than `MOST_BYTES` are
the server's to draw, as are the letters, which are made of more than the record.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import streamlit as st

from transformer.attention.record import AttentionMap
from transformer.canvas.about import About
from transformer.canvas.record import MASKED, AxisWords, Kind, Packed, packed
from transformer.canvas.views import Axes, Link, Picker
from transformer.canvas.views import Site as Maps
from transformer.messages import language, say, words
from transformer.runs.sequences.classify import Classification
from transformer.sites import Site
from ui.components.all_heads.component import LARGEST_SIDE, all_heads_of_kinds
from ui.components.head_choice.component import head_choice
from ui.components.heatmap.component import heatmap
from ui.components.shared.record import Local, post
from ui.sequences import runs
from ui.sequences.controls import OLD_RELATIVE
from ui.shared import address
from ui.shared import sequence_controls as asked
from ui.shared.address import parameter, set_parameter
from ui.shared.files import head_title
from ui.shared.selected_pair import PAIR
from ui.shared.sequence_controls import MEAN, POOLING, Place
from ui.shared.what_if_link import what_if_query
from ui.shared.zooming import is_long
from ui.store.cache import cached
from ui.store.refs import Revision
from ui.texts import plain, t

KEYS: Final = ("layer", "head", PAIR, "relative")
"""The keys of the address that the browser owns here."""

MOST_BYTES = 2**20
"""So large a record is sent whole, 4 bytes a weight, once: 12 maps of 147 windows each way, or 8 of 181."""


@dataclass(frozen=True, eq=False)
class Form:
    """A record as it is sent, and what stands around its maps, in one language."""

    packed: Packed
    kinds: tuple[tuple[Site, ...], ...]
    """The sites of each kind, first layer first."""
    maps: dict[str, Maps]
    axes: dict[str, tuple[str, str]]
    """What queries and keys are called, by the name of the kind."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A run whose record the browser has, and what the address chooses of it as this run of the page knows it."""

    run: Classification
    local: Local
    place: Place
    form: Form


def fits(run: Classification) -> bool:
    """Whether the browser draws the heads of a run: its record is small enough, and every site has as many heads."""
    maps = [run.record[site] for site in run.record.sites]
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in maps)
    alike = len({one.n_heads for one in maps}) == 1
    return alike and 4 * numbers <= MOST_BYTES and not any(map(is_long, maps))


def bring(run: Classification, with_numbers: bool) -> Shown:
    """Send a record, and take what the address chooses of it; its numbers travel once a view draws from them."""
    form = _form(*runs.key_of(run), language(), with_numbers, run)
    post(form.packed, key="record")
    sites = asked.sites(run)
    layer = _one_of(list(sites), "layer", list(sites)[-1])
    site = sites[layer]
    head = _one_of([*map(str, range(run.record[site].n_heads)), MEAN], "head", MEAN)
    held = address.held(*KEYS, OLD_RELATIVE)
    old = held["values"].pop(OLD_RELATIVE, None)
    if old is not None:
        held["values"]["relative"] = old
    return Shown(run, Local(form.packed.id, KEYS, held), asked.chosen(site, head), form)


def head_panel(shown: Shown, name: str, followed: bool) -> None:
    """Buttons for layer and head, which may be `followed` by something that the server draws."""
    place, kinds = shown.place, shown.form.kinds
    number = next(number for number, sites in enumerate(kinds) if place.site in sites)
    along = {key: key for key in ("layer", "head")}
    query = {key: value for key, value in what_if_query(model=name).items() if key not in along}
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
        followed=followed,
    )


def all_heads_panel(shown: Shown) -> None:
    """Every layer and head over the windows, and what the decision pools, small; a click opens one."""
    sites = tuple(shown.run.record.sites)
    thumbnails = runs.thumbnails(shown.run, sites, LARGEST_SIDE)
    if thumbnails is None:
        return
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
    axes = {
        name: Axes(*said, f"{plain('sequences.rows_are_queries')} {groups}", facts, (_edges(name, edges), edges))
        for name, said in shown.form.axes.items()
    }
    csv = plain("sequences.download_matrix")
    heatmap(shown.local, shown.form.maps, axes, key="windows", dense=True, save_csv=csv)


@cached()
def _form(
    revision: Revision,  # noqa: ARG001  (part of the cache key, as are the text and the language)
    text: str,  # noqa: ARG001
    spoken: str,  # noqa: ARG001
    with_numbers: bool,
    _run: Classification,
) -> Form:
    record = _run.record
    layers = tuple(site for site in record.sites if site != POOLING)
    kinds = [sites for sites in (layers, tuple(site for site in record.sites if site == POOLING)) if sites]
    sent, maps, axes = list[Kind](), dict[str, Maps](), dict[str, tuple[str, str]]()
    for sites in kinds:
        first, called = record[sites[0]], [name for name, site in asked.sites(_run).items() if site in sites]
        queries, keys = (
            AxisWords(say(axis.name), list(map(say, axis.labels)), list(map(say, axis.texts)))
            for axis in (first.queries, first.keys)
        )
        weights = np.zeros((len(sites), first.n_heads, 0, 0), dtype=np.float32)
        if with_numbers:
            weights = np.array([_weights(record[site], maps) for site in sites], dtype=np.float32)
        sent.append(Kind(_name(sites), sites, queries, keys, weights, called))
        axes[_name(sites)] = words("figure_query", text=queries.name), words("figure_key", text=keys.name)
    usual = len(kinds[-1]) - 1, None
    return Form(packed(sent, usual, {}, kind=len(kinds) - 1), tuple(kinds), maps, axes)


def _weights(attention: AttentionMap, maps: dict[str, Maps]) -> list[np.ndarray]:
    """All heads of a site, one after the other; what its maps are called is added to `maps`."""
    pictures = [attention.picture(head) for head in (*range(attention.n_heads), MEAN)]
    stems = [Place(attention.site, head).stem for head in (*range(attention.n_heads), MEAN)]
    maps[str(attention.site)] = Maps([head_title(one) for one in pictures], stems)
    return [np.where(one.visible, one.values, MASKED) for one in pictures[:-1]]


def _name(sites: Sequence[Site]) -> str:
    """What a kind is called that these sites are of."""
    return sites[0].group


def _edges(kind: str, edges: list[int]) -> list[int]:
    """Edges between queries: those of the pooling are no windows."""
    return [] if kind == POOLING else edges


def _one_of(options: Sequence[str], key: str, usual: str) -> str:
    """What the address chooses; the usual one does not stand there."""
    found = parameter(key) or ""
    found = found if found in options else usual
    set_parameter(key, None if found == usual else found)
    return found

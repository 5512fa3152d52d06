"""Views of a record that the browser draws by itself: it is sent all heads once, and the address says which is shown.

A choice of kind, layer, head, pair, threshold or scale then starts no run. The form of the maps (words, special tokens,
scores) is the server's: it sends the record in the form that the page shows. Records that are larger than `MOST_BYTES`,
or longer than a thumbnail's side, are drawn as `record_views` does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import streamlit as st

from transformer import AttentionMap, Record
from transformer.canvas.record import MASKED, AxisWords, Kind, Packed, packed
from transformer.canvas.views import Axes, Grid, Known, Link, Picker, Sides, Site
from transformer.messages import language, say, words
from transformer.pictures.picture import Picture
from ui.components.all_heads.component import LARGEST_SIDE, all_heads_of_record
from ui.components.head_choice.component import head_choice
from ui.components.head_view.component import head_view_of_record
from ui.components.heatmap.component import heatmap
from ui.components.shared.record import Local, post
from ui.shared import address
from ui.shared.active_heads import HEADS
from ui.shared.address import parameter, set_parameter, switch
from ui.shared.controls import KINDS, MEAN, MOST_BUTTONS, Selection, kind_name, kind_title, kinds, plain_sentence
from ui.shared.files import Origin, head_stem, head_title
from ui.shared.part import anew
from ui.shared.selected_pair import PAIR
from ui.texts import plain, said, t

KEYS: Final = ("layer", "head", "kind", PAIR, HEADS, "threshold", "relative")
"""The keys of the address that the browser owns here."""

MOST_BYTES = 512 * 1024
"""So large a record is sent whole, 4 bytes a weight: 48 heads of 52 words each way fit in it."""

RoleOf = Callable[[str, int], str | None]


@dataclass(frozen=True)
class Shown:
    """A record in the browser, in one form, and what the address chooses of it as this run knows it."""

    record: Record
    local: Local
    choice: Selection
    first: dict[str, Picture]
    """One map of each kind, for the words of its axes."""
    sites: dict[str, Site]
    """What the maps of each site are called."""


def fits(record: Record) -> bool:
    """Whether the browser draws a record by itself: it is small enough, and no scores are asked for.

    Layers of a kind have to have the same tokens and as many heads, and nothing to be known of one of them alone, since
    one drawing serves them all.
    """
    numbers = sum(one.n_heads * one.shape[0] * one.shape[1] for one in record.values())
    longest = max((side for one in record.values() for side in one.shape), default=0)
    is_small = 4 * numbers <= MOST_BYTES and longest <= LARGEST_SIDE
    is_plain = not record.interventions and (parameter("scores") or "").lower() != "true"
    layers = _layers(record)
    is_small = is_small and max(len(layers), *map(len, layers.values())) <= MOST_BUTTONS
    return is_small and is_plain and all(map(_are_alike, layers.values()))


def where_it_fits(record: Record, by_browser: Callable[[], None], by_server: Callable[[], None]) -> None:
    """Draw a record in one of two ways, and again if a control that this draws changes which: the switch of the scores.

    To be called in a part.
    """
    is_browsers = fits(record)
    (by_browser if is_browsers else by_server)()
    if fits(record) != is_browsers:
        anew()


def bring(record: Record, default: tuple[int, int], words: bool, special: bool) -> Shown:
    """Send a record, and take what the address chooses of it: at first the layer and head of `default`."""
    form = _form(record, default, words, special)
    post(form.packed, key="record")
    available = kinds(record)
    kind = _one_of(list(available), "kind", next(iter(available)), {name: kind for kind, name in KINDS.items()})
    sites = available[kind]
    layer = int(_one_of([*map(str, range(len(sites)))], "layer", str(min(default[0], len(sites) - 1))))
    count = record[sites[layer]].n_heads
    head = _one_of([*map(str, range(count)), MEAN], "head", str(min(default[1], count - 1)))
    choice = Selection(kind, layer, sites[layer], MEAN if head == MEAN else int(head), words, special)
    return Shown(record, Local(form.packed.id, KEYS, address.held(*KEYS)), choice, form.first, form.sites)


def head_panel(
    shown: Shown,
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
    head_choice(shown.local, pickers, known or {}, links, drawn=drawn, key="head-choice", followed=followed)


def all_heads_panel(shown: Shown, origin: Origin, role_of: RoleOf | None = None) -> None:
    """Every layer and head of the chosen kind, small; a click opens one. `role_of` says what a head does."""
    grids = {}
    layers_of = _layers(shown.record)
    for kind, first in shown.first.items():
        layers = layers_of[kind]
        grids[kind] = Grid(
            origin.stem("all-heads", kind),
            origin.about(plain("files.all_heads", kind=kind_title(kind)), first),
            [[say((role_of and role_of(layer.site, head)) or "") for head in range(layer.n_heads)] for layer in layers],
        )
    st.markdown(f"**{t('translate.all_heads')}**", help=t("translate.all_heads_help"))
    all_heads_of_record(shown.local, grids, key="all-heads")


def heatmap_panel(shown: Shown, origin: Origin) -> None:
    """One head, large, and the marked pair in every head. Scores, which are other numbers, are the server's."""
    switch(t("translate.scores"), False, key="scores", help=t("translate.scores_help"))
    sites = {
        name: Site(site.titles, [origin.stem(*parts.split()) for parts in site.file_names])
        for name, site in shown.sites.items()
    }
    axes = {kind: _axes(first, origin) for kind, first in shown.first.items()}
    heatmap(shown.local, sites, axes, key="heatmap")


def head_view_panel(shown: Shown, origin: Origin) -> None:
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
    head_view_of_record(shown.local, sides, names, key="head-view")


@dataclass(frozen=True, eq=False)
class _Form:
    """A record as it is sent in one form: with the words of its axes, and what its maps are called."""

    packed: Packed
    first: dict[str, Picture]
    sites: dict[str, Site]


def _form(record: Record, default: tuple[int, int], words: bool, special: bool) -> _Form:
    """Every run draws from it, and most change neither the record nor its form.

    It stands beside the fields of the record's first map, so it is measured with its record, and goes with it.
    """
    known: dict[tuple[object, ...], _Form] = vars(next(iter(record.values()))).setdefault("forms", {})
    asked = (default, words, special, language())
    if asked not in known:
        first: dict[str, Picture] = {}
        sites: dict[str, Site] = {}
        sent = []
        for name, layers in _layers(record).items():
            every = [one.pictures(words, special) for one in layers]
            for pictures in every:
                stems = [" ".join(head_stem(one)) for one in pictures]
                sites[str(pictures[0].site)] = Site([head_title(one) for one in pictures], stems)
            first[name] = every[0][0]
            weights = [[np.where(one.visible, one.values, MASKED) for one in pictures[:-1]] for pictures in every]
            queries, keys = (
                AxisWords(say(axis.name), axis.labels, axis.texts) for axis in (first[name].queries, first[name].keys)
            )
            sites_of_kind = [one.site for one in layers]
            sent.append(Kind(name, sites_of_kind, queries, keys, np.array(weights, dtype=np.float32)))
        known[asked] = _Form(packed(sent, default, {name: kind for kind, name in KINDS.items()}), first, sites)
    return known[asked]


def _layers(record: Record) -> dict[str, list[AttentionMap]]:
    """The maps of each kind that the record has, first layer first."""
    return {kind: [record[site] for site in sites] for kind, sites in kinds(record).items()}


def _are_alike(layers: Sequence[AttentionMap]) -> bool:
    """Whether maps have the same tokens on both sides, as many heads, and the same to be known of them."""
    first, *others = [(one.n_heads, one.queries, one.keys, one.source.notes, one.notes) for one in layers]
    return all(one == first for one in others)


def _one_of(options: Sequence[str], key: str, usual: str, old: dict[str, str] | None = None) -> str:
    """What the address chooses, which may be in older words; the usual one does not stand there."""
    asked = parameter(key) or ""
    asked = (old or {}).get(asked, asked)
    found = asked if asked in options else usual
    set_parameter(key, None if found == usual else found)
    return found


def _axes(picture: Picture, origin: Origin) -> Axes:
    notes = " ".join(map(plain_sentence, picture.notes)) or plain("translate.sums")
    names = plain("translate.axes", queries=picture.queries.name, keys=picture.keys.name)
    return Axes(
        words("figure_query", text=say(picture.queries.name)),
        words("figure_key", text=say(picture.keys.name)),
        f"{names} {notes} {plain('translate.click_cell')}",
        origin.facts(*map(said, picture.notes)),
    )

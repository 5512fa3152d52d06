"""What pages that read sequences share: the choice of a sequence, a layer and a head, and the tracks of letters."""

from collections.abc import Sequence
from itertools import islice
from typing import Literal

import numpy as np
import streamlit as st

from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import InputError
from heedmap.plots.canvas.views import About
from heedmap.runs.sequences.classify import Classification, Mutations
from heedmap.sequences.fasta import FastaRecord, parse_fasta
from heedmap.sequences.tracks import LetterTrack, folded
from heedmap.sites import Site
from ui.components.tracks.component import LetterAxis, Series, Stretch, Track, tracks
from ui.shared import subject
from ui.shared.address import belong_to, choice, fixed, lines, set_parameter
from ui.shared.controls import MAX_ADDRESS, MEAN, Selection, kinds, layer_and_head
from ui.shared.files import save_button
from ui.shared.subject import RECORD, SEQUENCE
from ui.texts import as_text, plain, t

POOLING = "pooling"
"""The site by which windows are pooled; its one query is the decision."""

MAX_PASTED = 1_500_000
"""Longest text that the field takes at all; a longer one never leaves the browser."""

LONGEST_NAME = 40
"""Characters of a header that a button or list shows."""

MAX_RECORDS = 1_000
"""Most records of a text or file that one is chosen of."""


def place_text(choice: Selection) -> str:
    """Site and head in a few words: `encoder.0.self` is a name, the pooling a word."""
    site = plain("sequences.pooling") if choice.site == POOLING else choice.site
    return plain(f"sequences.place_{'mean' if choice.head == MEAN else 'head'}", site=site, head=choice.head)


def place_prefix(choice: Selection) -> str:
    """Site and head in the name of a file."""
    return f"{choice.site}-mean" if choice.head == MEAN else f"{choice.site}-head-{choice.head}"


def sequence_field(first: str) -> str:
    """The field in which letters or FASTA are pasted, at first `first`."""
    with st.form("sequence-form", border=False):
        text = lines(
            t("sequences.sequence"), first, key=SEQUENCE, height=130, longest=MAX_ADDRESS, most=MAX_PASTED,
            help=t("sequences.sequence_help"),
        )  # fmt: skip
        st.form_submit_button(t("sequences.run"), type="primary", icon=":material/play_arrow:")
    return text


def example_buttons(examples: Sequence[str], names: Sequence[str]) -> None:
    """A button for each example, which is shown instead of what was pasted."""
    for i, (example, name) in enumerate(zip(examples, names, strict=True)):
        st.button(
            as_text(name[:LONGEST_NAME]), key=f"sequence-{i}", on_click=set_parameter, args=(SEQUENCE, example),
            width="stretch",
        )  # fmt: skip


def header_of(example: str) -> str:
    """The header of an example; its first letters where it has none."""
    return example.partition("\n")[0].removeprefix(">").strip()


def chosen_record(records: Sequence[FastaRecord]) -> FastaRecord:
    """The record that is shown of those that were brought.

    Raises:
        InputError: there is none.
    """
    if not records:
        raise InputError("no_sequence")
    if len(records) == 1:
        return records[0]
    belong_to(tuple(one.id for one in records), RECORD)
    names = {str(i): f"{i}: {one.id[:LONGEST_NAME]} ({len(one.sequence):,})" for i, one in enumerate(records, 1)}
    return records[int(choice(t("sequences.record"), list(names), key=RECORD, form="list", text=names.__getitem__)) - 1]


def typed_sequence(checkpoint: Checkpoint, opening: str | None = None) -> FastaRecord:
    """The sequence that was pasted, or an example (at first `opening`): bare letters, or a record of FASTA.

    Raises:
        InputError: there is none.
    """
    examples = checkpoint.examples
    text = sequence_field(opening or next(iter(examples), ""))
    if examples and not fixed(SEQUENCE):
        with st.popover(t("sequences.examples")):
            example_buttons(examples, list(map(header_of, examples)))
    record = chosen_record(list(islice(parse_fasta(text.split("\n")), MAX_RECORDS)))
    subject.show(checkpoint.name, record.sequence)
    return record


def sites(run: Classification) -> dict[str, Site]:
    """Every attention of a run by what the address calls it: the number of its layer, or the pooling, which is last."""
    layers = [site for site in run.record.sites if site != POOLING]
    return {str(i): site for i, site in enumerate(layers)} | ({POOLING: Site(POOLING)} if POOLING in run.record else {})


def place(run: Classification) -> Selection:
    """Choose the layer (or the pooling) and the head."""
    called = sites(run)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        layer, head = layer_and_head(run.record, called, (list(called)[-1], MEAN), last=plain("sequences.pooling"))
    pooling_note(run)
    return selected(run, called[layer], head)


def selected(run: Classification, site: Site, head: int | Literal["mean"]) -> Selection:
    """A head of a site, or the mean, over windows."""
    layer = kinds(run.record)[site.group].index(site)
    return Selection(site.group, layer, site, head, words=False, special=True)


def pooling_note(run: Classification) -> None:
    """What the pooling is among the layers, where there is one."""
    if POOLING in run.record:
        st.caption(t("sequences.place_note"))


def logo_panel(picture: str, caption: str, file_name: str) -> None:
    """A sequence logo (`heedmap.plots.logo`), which leaves as the SVG that it is."""
    st.image(picture, caption, width="stretch")
    save_button(as_text("SVG"), picture, f"{file_name}.svg", "image/svg+xml", key=f"{file_name}-svg")


def letter_track(run: Classification, chosen: Selection) -> LetterTrack:
    """What each letter received from the chosen head, or from all heads of its site on average."""
    attention = run.record[chosen.site]
    heads = range(attention.n_heads) if chosen.head == MEAN else [int(chosen.head)]
    return folded(np.mean([attention.received(head) for head in heads], axis=0), run.spans, len(run.letters))


def letter_tracks(
    text: str,
    track: LetterTrack,
    *,
    key: str,
    file_name: str,
    about: About,
    places: Sequence[int] = (),
    effects: Mutations | None = None,
    label: str = "",
    spans: Sequence[Stretch] = (),
    reach: float = 0.0,
) -> None:
    """Attention received in multiples of the even share, in bars of each window width that together are the whole.

    Below, where `effects` are known, the change of the log-odds of class `label` by every mutation, on a scale about 0
    that reaches as far as the largest change. `places` are the letters of a longer sequence that these are. The bars'
    scale ends at their highest value, or at `reach` where that is more: so tracks share a scale.
    """
    here = np.array(places or range(1, len(text) + 1))
    share = track.share / track.even.sum(axis=0)
    names = [plain("sequences.tracks_windows", width=width) for width in track.widths]
    bars = [Series(name, here, values, name, i) for i, (name, values) in enumerate(zip(names, share, strict=True))]
    highest = max(reach, float(share.sum(axis=0).max()))
    shown = [Track("bars", plain("sequences.tracks_attention"), bars, (0, highest), [1])]
    if effects is not None:
        given = np.array([[letter == new for letter in text] for new in effects.letters])
        change = np.where(given, np.nan, effects.change)
        limit = float(np.abs(effects.change).max()) or 1.0
        cells = [Series(new, here, row, new) for new, row in zip(effects.letters, change, strict=True)]
        shown.append(Track("cells", plain("sequences.tracks_mutations", label=label), cells, (-limit, limit)))
    axis = LetterAxis(int(here[0]), int(here[-1]), plain("sequences.tracks_letter"), text)
    tracks(shown, axis, key=key, spans=spans, file_name=file_name, about=about)

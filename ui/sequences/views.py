"""The panels of one sequence on the Sequences page: its class, its heads, its letters, its windows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from heedmap.attention.measures import rank_correlation
from heedmap.attention.notebook import axes_of
from heedmap.plots.canvas.views import About, Link
from heedmap.plots.logo import heights, letter_counts, logo
from heedmap.runs.sequences.classify import MAX_MUTATED, MOST_UNKNOWN, Classification, Mutations
from heedmap.sequences import tracks
from heedmap.sequences.task import SequenceTask
from heedmap.sequences.tracks import LetterTrack
from ui.components.tracks.component import Stretch
from ui.components.views import LARGEST_SIDE, all_heads_of_kinds, heatmap
from ui.sequences import source
from ui.sequences.source import LONGEST, Reading
from ui.shared import record_views
from ui.shared import sequence as asked
from ui.shared.address import choice
from ui.shared.controls import MAX_ADDRESS, MEAN, Selection, kinds, what_if_query
from ui.shared.files import Provenance, bars, save_button
from ui.shared.record_views import BrowserRecord, is_small, one_of, send
from ui.shared.subject import SEQUENCE
from ui.texts import as_text, language, plain, said, t

MOST_WINDOWS = 256
"""Of more windows the map is not drawn: each had less than three pixels."""

FEWEST = 5
"""Of fewer sequences no logo is drawn."""


def verdict(run: Classification, other: Classification | None, task: SequenceTask, known: str) -> None:
    """The class and its probability, on the strand given and on the other one; `known` is the header's own class."""
    unknown = sum(run.letters.ambiguous.values()) / len(run.letters)
    if unknown > MOST_UNKNOWN:
        st.warning(t("sequences.unlike", share=unknown), icon=":material/warning:")
    best = run.classes[run.predicted]
    meaning = task.in_language(task.meanings.get(best, ""), language())
    probability = float(run.probabilities[run.predicted])
    facts = [plain("sequences.facts_size", letters=len(run.letters), windows=len(run.spans))]
    facts += [plain("sequences.facts_known", name=known)] * (known in run.classes)
    other_length = len(run.letters) != task.length
    facts += [plain("sequences.facts_length", length=task.length)] * other_length
    is_calibrated = task.temperature != 1 and unknown <= MOST_UNKNOWN and not other_length
    code = "sequences.facts" if is_calibrated else "sequences.facts_uncalibrated"
    basis = t(code, facts=plain("sequences.facts_between").join(facts))
    is_usual = is_calibrated and len(facts) == 1
    title = t("sequences.verdict", name=best, probability=probability)
    st.subheader(title, anchor=False, help=basis if is_usual else None)
    if meaning:
        st.text(plain("sequences.verdict_meaning", meaning=meaning[:1].upper() + meaning[1:]))
    columns = {t("sequences.as_given"): run.probabilities}
    columns |= {} if other is None else {t("sequences.other_strand"): other.probabilities}
    with st.container(key="verdict-table"):
        st.dataframe(pd.DataFrame(columns, index=list(run.classes)), column_config=bars(columns, 4, width="small"))
    if not is_usual:
        st.caption(basis)
    if run.letters.notes:
        st.caption(as_text("; ".join(map(said, run.letters.notes))))


def bring(run: Classification, view: str) -> BrowserRecord:
    """Send what a view draws of a record, and take what the address chooses of it.

    Windows look at windows in the layers, and the decision at windows in the pooling: two kinds with queries of their
    own. What the page calls a layer (a number, or "pooling") tells which of them is meant. Letters need no weights.
    """
    record, sites = run.record, asked.sites(run)
    site = sites[one_of(list(sites), "layer", list(sites)[-1])]
    head = one_of([*map(str, range(record[site].n_heads)), MEAN], "head", MEAN)
    choice = asked.selected(run, site, MEAN if head == MEAN else int(head))
    last = kinds(record)[list(sites.values())[-1].group]
    parts = {} if view == "letters" else None if is_small(record, LONGEST) else {choice.kind: choice.layer}
    called = {kind: [name for name, one in sites.items() if one in of] for kind, of in kinds(record).items()}
    return send(record, source.key_of(run), choice, (len(last) - 1, None), parts, called=called)


def head_panel(browser: BrowserRecord, name: str, sequence: str) -> None:
    """Buttons for layer and head, followed by what the server draws; What if is led to with the `sequence` read."""
    along = {key: key for key in ("layer", "head")}
    query = {key: value for key, value in what_if_query(model=name).items() if key not in along}
    query |= {SEQUENCE: sequence} if len(sequence) <= MAX_ADDRESS else {}
    links = [Link(plain("what_if.link"), "what_if", query, along)]
    record_views.head_panel(browser, links=links, called={asked.POOLING: plain("sequences.pooling")})


def all_heads_panel(run: Classification, browser: BrowserRecord) -> None:
    """Every layer and head over the windows, and what the decision pools, small; a click opens one."""
    sites, by_kind = tuple(run.record.sites), kinds(run.record)
    axis = plain("sequences.windows_axis")
    st.markdown(t("sequences.all_heads"), help=t("sequences.all_heads_help"))
    all_heads_of_kinds(
        browser.local,
        source.thumbnails(run, sites, LARGEST_SIDE),
        [(list(by_kind).index(site.group), by_kind[site.group].index(site)) for site in sites],
        [plain("sequences.pooling") if site == asked.POOLING else f"L{order}" for order, site in enumerate(sites)],
        axis,
        key="sequence-heads",
    )


def heatmap_panel(run: Classification, browser: BrowserRecord) -> None:
    """One head over windows, with a line where one width ends and the next begins."""
    widths = [span.width for span in run.spans]
    edges = [int(edge) for edge in np.flatnonzero(np.diff(widths)) + 1]
    facts = About("", [plain("sequences.facts_size", letters=len(run.letters), windows=len(widths))]).lines
    axes = {  # the queries of the pooling are no windows
        name: axes_of(one.queries, one.keys, _groups(widths), facts, ([] if name == asked.POOLING else edges, edges))
        for name, one in browser.form.first.items()
    }
    maps = {name: replace(one, notes=[""] * len(one.notes)) for name, one in browser.form.sites.items()}
    csv = plain("sequences.download_matrix")
    heatmap.of_record(browser.local, "windows", sites=maps, axes=axes, dense=True, save_csv=csv)


def letters_panel(name: str, run: Classification, place: Selection, task: SequenceTask, here: Reading) -> None:
    """Attention folded back to letters, beside what every letter did for the answer."""
    best = run.classes[run.predicted]
    odds, usual = dict(zip(run.classes, run.probabilities, strict=True)), best
    if best == task.background:
        usual = max(task.findable, key=odds.__getitem__, default=best)
    target = choice(t("sequences.target"), list(run.classes), default=usual, key=f"target-{usual}", text=str, bare=True)
    label = run.classes.index(target)
    track = asked.letter_track(run, place)
    agreeing = _agreeing(run, task, here.places) if len(run.letters) == task.length else ()
    effects = None
    if len(run.letters) <= MAX_MUTATED:
        effects = source.effects(name, run, label)
    else:
        st.info(t("sequences.too_long_for_effects", longest=MAX_MUTATED))
    asked.letter_tracks(
        run.letters.text, track, key="tracks" if effects else "attention-track", file_name=f"{here.stem}-tracks",
        about=About(f"{here.record}, {asked.place_text(place)}", Provenance(name).facts()), places=here.places,
        effects=effects, label=target, spans=agreeing,
    )  # fmt: skip
    if len(run.letters) == task.length:
        _logo(name, task, target, here)
    if effects is not None:
        rho = rank_correlation(track.relative, effects.effect)
        st.markdown(t("sequences.agreement", rho=rho, place=asked.place_text(place)))
    st.caption(t("sequences.rule") if effects is None else f"{t('sequences.rule')} {t('sequences.rule_effects')}")
    _downloads(run, track, effects, target, here, place)


def _logo(name: str, task: SequenceTask, label: str, here: Reading) -> None:
    """What the known sites of a class have in common, below the letters of this one; nothing of too few."""
    texts, letters = source.examples_of(name, label), task.alphabet.letters
    if len(texts) >= FEWEST:
        names = [str(place) if place % 10 == 0 else "" for place in here.places]
        picture = logo(letters, heights(letter_counts(texts, letters)), names)
        asked.logo_panel(picture, t("sequences.logo_title", count=len(texts), label=label), f"{here.stem}-{label}-logo")


def _agreeing(run: Classification, task: SequenceTask, places: range) -> list[Stretch]:
    """Where the letters are those that biology expects; says which expected ones are not there."""
    found, absent = list[Stretch](), list[str]()
    for mark in task.landmarks:
        name = task.in_language(mark.name, language())
        after = mark.start + len(mark.letters)
        letters = run.letters.text[mark.start : after]
        if letters == mark.letters:
            found.append(Stretch(places[mark.start], places[after - 1], name))
        else:
            absent.append(plain("sequences.consensus_other", name=name, start=mark.start + 1, letters=letters))
    if absent:
        st.caption(t("sequences.consensus_absent", names=plain("sequences.facts_between").join(absent)))
    return found


def _downloads(
    run: Classification, track: LetterTrack, effects: Mutations | None, target: str, here: Reading, place: Selection
) -> None:
    columns = {f"attention share, windows of {w}": v for w, v in zip(track.widths, track.share, strict=True)}
    columns["attention, multiples of even"] = track.relative
    if effects is not None:
        changed = zip(effects.letters, effects.change, strict=True)
        columns |= {f"log-odds of {target} with {new}": row for new, row in changed}
        columns["mutation effect"] = effects.effect
    browser = {name: columns[name] for name in columns if name.startswith(("attention, ", "mutation"))}
    stem, text, places = f"{here.stem}-{asked.place_prefix(place)}", run.letters.text, here.places
    with st.container(horizontal=True):
        save_button(t("sequences.download_tracks_csv"), lambda: tracks.csv(text, columns, places), f"{stem}.csv")
        save_button(
            t("sequences.download_tracks_bedgraph"), lambda: tracks.bedgraph(here.record, browser, places),
            f"{stem}.bedgraph", "text/plain",
        )  # fmt: skip
        npz = "application/octet-stream"
        save_button(t("sequences.download_record"), run.record.npz, f"{here.stem}.npz", npz)


def _groups(widths: Sequence[int]) -> str:
    """Which windows stand where along the axes, in plain text."""
    firsts = {width: widths.index(width) for width in dict.fromkeys(widths)}
    parts = [
        plain("sequences.group", first=first + 1, last=first + widths.count(width), width=width)
        for width, first in firsts.items()
    ]
    return plain("sequences.groups", parts=", ".join(parts))

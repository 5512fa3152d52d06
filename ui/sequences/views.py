"""The panels of one sequence on the Sequences page: its class, its letters, its windows."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from transformer.attention.measures import rank_correlation
from transformer.plots.canvas.about import About
from transformer.runs.sequences.attribution import MAX_MUTATED, Mutations
from transformer.runs.sequences.classify import MOST_UNKNOWN, Classification
from transformer.sequences import tracks
from transformer.sequences.folding import LetterTrack, folded
from transformer.sequences.task import SequenceTask
from ui.components.tracks.component import Stretch
from ui.markdown import as_text
from ui.sequences import runs
from ui.sequences.logos import logo_panel
from ui.sequences.reading import Reading
from ui.shared.address import choice, switch
from ui.shared.files import Origin
from ui.shared.letter_tracks import letter_tracks
from ui.shared.sequence_controls import MEAN, HeadChoice
from ui.store import store
from ui.texts import language, plain, said, t


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
    told = t(code, facts=plain("sequences.facts_between").join(facts))
    is_usual = is_calibrated and len(facts) == 1
    title = t("sequences.verdict", name=best, probability=probability)
    st.subheader(title, anchor=False, help=told if is_usual else None)
    if meaning:
        st.text(plain("sequences.verdict_meaning", meaning=meaning[:1].upper() + meaning[1:]))
    columns = {t("sequences.as_given"): run.probabilities}
    columns |= {} if other is None else {t("sequences.other_strand"): other.probabilities}
    with st.container(key="verdict-table"):
        st.dataframe(
            pd.DataFrame(columns, index=list(run.classes)),
            column_config={
                name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.4f", width="small")
                for name in columns
            },
        )
    if not is_usual:
        st.caption(told)
    if run.letters.notes:
        st.caption(as_text("; ".join(map(said, run.letters.notes))))


def letters_panel(name: str, run: Classification, place: HeadChoice, task: SequenceTask, here: Reading) -> None:
    """Attention folded back to letters, beside what every letter did for the answer."""
    best = run.classes[run.predicted]
    usual = (
        best
        if best != task.background
        else max(task.findable, key=lambda label: run.probabilities[run.classes.index(label)], default=best)
    )
    known = task.landmarks and len(run.letters) == task.length
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        target = choice(
            t("sequences.target"), list(run.classes), default=usual, key=f"target-{usual}", text=str, bare=True
        )
        marked = bool(known) and switch(t("sequences.consensus"), True, key="consensus")
    label = run.classes.index(target)
    track = letter_track(run, place)
    effects = None
    if len(run.letters) <= MAX_MUTATED:
        effects = runs.effects(name, run, label)
    else:
        st.info(t("sequences.too_long_for_effects", longest=MAX_MUTATED))
    letter_tracks(
        run.letters.text, track, key="tracks" if effects else "attention-track", file_name=f"{here.stem}-tracks",
        about=About(f"{here.record}, {place.text}", Origin(name).facts()), places=here.places,
        effects=effects, label=target, spans=_agreeing(run, task, here.places) if marked else (),
    )  # fmt: skip
    if len(run.letters) == task.length:
        texts = runs.examples_of(store.revision(name), target, store.checkpoint(name))
        logo_panel(texts, task, here.places, "logo_title", target)
    if effects is not None:
        rho = rank_correlation(track.relative, effects.effect)
        st.markdown(t("sequences.agreement", rho=rho, place=place.text))
    st.caption(t("sequences.rule") if effects is None else f"{t('sequences.rule')} {t('sequences.rule_effects')}")
    _downloads(run, track, effects, target, here, place)


def letter_track(run: Classification, place: HeadChoice) -> LetterTrack:
    """What each letter received from the chosen head, or from all heads on average."""
    heads = runs.received_by_windows(run, place.site)
    return folded(heads.mean(0) if place.head == MEAN else heads[place.head], run.spans, len(run.letters))


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
    run: Classification,
    track: LetterTrack,
    effects: Mutations | None,
    target: str,
    here: Reading,
    place: HeadChoice,
) -> None:
    columns = {f"attention share, windows of {w}": v for w, v in zip(track.widths, track.share, strict=True)}
    columns["attention, multiples of even"] = track.relative
    if effects is not None:
        columns |= {
            f"log-odds of {target} with {new}": row for new, row in zip(effects.letters, effects.change, strict=True)
        }
        columns["mutation effect"] = effects.effect
    browser = {name: columns[name] for name in columns if name.startswith(("attention, ", "mutation"))}
    stem = f"{here.stem}-{place.stem}"
    text, places = run.letters.text, here.places
    files: dict[str, tuple[str, Callable[[], str | bytes], str]] = {
        "tracks_csv": (f"{stem}.csv", lambda: tracks.csv(text, columns, places), "text/csv"),
        "tracks_bedgraph": (f"{stem}.bedgraph", lambda: tracks.bedgraph(here.record, browser, places), "text/plain"),
        "record": (f"{here.stem}.npz", run.record.npz, "application/octet-stream"),
    }
    with st.container(horizontal=True):
        for name, (file, data, kind) in files.items():
            st.download_button(t(f"sequences.download_{name}"), data, file, kind, on_click="ignore")


def groups(run: Classification) -> str:
    """Which windows stand where along the axes, in plain text."""
    parts, widths = [], [span.width for span in run.spans]
    for width in dict.fromkeys(widths):
        first = widths.index(width)
        parts.append(plain("sequences.group", first=first + 1, last=first + widths.count(width), width=width))
    return plain("sequences.groups", parts=", ".join(parts))

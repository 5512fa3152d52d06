"""The panels of one sequence on the Sequences page: its class, its letters, its windows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from transformer import tracks
from transformer.attribution import MAX_MUTATED, Gradients, Mutations
from transformer.checkpoint.task import SequenceTask
from transformer.classify import Classification
from transformer.figures.export import csv, plot_config
from transformer.figures.sequence_tracks import Span, Tracks, sequence_tracks
from transformer.figures.windows import window_heatmap, window_picture
from transformer.folding import LetterTrack, folded, rank_correlation, received, received_on_average
from transformer.record import AttentionMap
from ui import sequence_runs
from ui.components import Picked, all_heads, head_view
from ui.components.all_heads import LARGEST_SIDE
from ui.sequence_controls import MEAN, POOLING, Place

MOST_LINES = 300
"""Most windows whose head view is drawn."""


def verdict(run: Classification, other: Classification | None, task: SequenceTask, known: str) -> None:
    """The class and its probability, on the strand given and on the other one; `known` is the header's own class."""
    best = run.classes[run.predicted]
    meaning = task.meanings.get(best, "")
    st.subheader(f"{best}, probability {run.probabilities[run.predicted]:.3f}", anchor=False)
    if meaning:
        st.text(meaning[:1].upper() + meaning[1:] + ".")
    columns = {"as given": run.probabilities} | ({} if other is None else {"reverse complement": other.probabilities})
    st.dataframe(
        pd.DataFrame(columns, index=list(run.classes)),
        column_config={
            name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="%.4f") for name in columns
        },
    )
    facts = [f"{len(run.letters):,} letters, {len(run.spans):,} windows"]
    facts += [f"the header says {known}"] if known in run.classes else []
    facts += [f"trained on {task.length} letters: other lengths run, but mean little"] * (
        len(run.letters) != task.length
    )
    st.caption(". ".join([*facts, "Probabilities are calibrated by one temperature, fitted on validation data."]))
    for note in run.letters.notes:
        st.caption(note)


def all_heads_panel(run: Classification, place: Place) -> None:
    """Every layer and head over the windows, small; a click opens one."""
    layers = [run.record[site] for site in run.record.sites if site != POOLING]
    thumbnails = np.array(
        [[attention.overview(head, LARGEST_SIDE) for head in range(attention.n_heads)] for attention in layers]
    )
    st.markdown(
        "**All heads** over windows", help="A row is a layer (L), a column a head (H). Blocks show their maximum."
    )
    selected = None
    if place.site != POOLING and place.head != MEAN:
        selected = (run.record.sites.index(place.site), int(place.head))
    all_heads(
        thumbnails,
        None,
        row_names=[f"L{i}" for i in range(len(layers))],
        column_names=[f"H{i}" for i in range(layers[0].n_heads)],
        selected=selected,
        on_pick=_open_head,
        key="sequence-heads",
        query_axis="windows",
        key_axis="windows",
    )
    st.caption(_groups(run))


def letters_panel(name: str, run: Classification, place: Place, task: SequenceTask, sequence_id: str) -> None:
    """Attention folded back to letters, beside what every letter did for the answer."""
    target = st.segmented_control(
        "Effects on the class",
        run.classes,
        default=run.classes[run.predicted],
        required=True,
        key=f"target-{run.classes[run.predicted]}",
    )
    label = run.classes.index(target)
    track = letter_track(run, place)
    effects = None
    if len(run.letters) <= MAX_MUTATED:
        effects = sequence_runs.effects(name, run, label)
    else:
        st.info(f"Effects of letters are computed for at most {MAX_MUTATED} letters; attention is shown for all.")
    spans: tuple[Span, ...] = ()
    if task.landmarks and len(run.letters) == task.length:
        marks = tuple(Span(m.start, m.start + len(m.letters), m.name) for m in task.landmarks)
        if st.toggle("Known consensus", key="consensus", bind="query-params", help="What biology expects, and where."):
            spans = marks
    figure = sequence_tracks(_tracks(run, track, effects, target, spans), dark=_dark())
    st.plotly_chart(figure, key="tracks", config=plot_config(f"{sequence_id}-tracks"))
    if effects is not None:
        _agreement(run, track, place, effects)
    st.caption(
        "The rule: a window of width k shares what it receives (mean over queries) evenly among its k letters. "
        "1 is what every letter would get if all windows received the same, so ends are not favoured. "
        "Mutations put each other letter in each place; dots mark the letter given. Integrated gradients start from no "
        "letter in particular. Both are changes of log-odds (nats)."
    )
    _downloads(run, track, effects, target, sequence_id, place)


def windows_panel(run: Classification, place: Place) -> None:
    """One head over windows, grouped by width."""
    attention = run.record[place.site]
    picture = window_picture(attention, place.head)
    relative = st.toggle(
        "Relative scale",
        value=True,
        key="relative-windows",
        bind="query-params",
        help="Scales colours to the largest weight of this map instead of 0 to 1; the colour bar says so.",
    )
    widths = [span.width for span in run.spans]
    st.plotly_chart(
        window_heatmap(picture, widths, len(run.spans), relative=relative, dark=_dark()),
        key="windows",
        config=plot_config(f"{place.site}-windows"),
    )
    st.caption(f"Rows are queries, columns are keys; each row of weights sums to 1. {_groups(run)}")
    st.download_button("This matrix (CSV)", lambda: csv(picture), f"{place.site}.csv", "text/csv", on_click="ignore")


def head_view_panel(run: Classification, place: Place) -> None:
    """Windows of one width, joined by what the heads of one site look at."""
    widths = list(dict.fromkeys(span.width for span in run.spans))
    width = st.segmented_control(
        "Windows of width", widths, default=widths[0], required=True, key="view-width", bind="query-params"
    )
    attention = run.record[place.site]
    chosen = [i for i, span in enumerate(run.spans) if span.width == width]
    if len(chosen) > MOST_LINES:
        st.info(f"{len(chosen):,} windows are too many for lines: at most {MOST_LINES} are drawn. See Windows instead.")
        return
    keys = slice(chosen[0], chosen[-1] + 1)
    queries = slice(0, 1) if place.site == POOLING else keys
    weights = np.stack([attention.tile(head, queries, keys) for head in range(attention.n_heads)])
    threshold = st.slider(
        "Hide lines below this weight", 0.0, 0.5, 0.02, 0.01, key="view-threshold", bind="query-params"
    )
    head_view(
        weights,
        None,
        list(attention.queries.texts[queries]),
        list(attention.keys.texts[keys]),
        heads=[f"head {head}" for head in range(attention.n_heads)],
        active=None if place.head == MEAN else [int(place.head)],
        query_title="query: window" if place.site != POOLING else "query: decision",
        key_title="key: window",
        threshold=threshold,
        key="sequence-lines",
    )
    st.caption(f"Only windows of {width} letters are shown, so rows need not sum to 1.")


def letter_track(run: Classification, place: Place) -> LetterTrack:
    """What each letter received from the chosen head, or from all heads on average."""
    values = _received(run.record[place.site], place.head)
    return folded(values, run.spans, len(run.letters))


def _received(attention: AttentionMap, head: int | str) -> np.ndarray:
    return received_on_average(attention) if head == MEAN else received(attention, int(head))


def _tracks(
    run: Classification,
    track: LetterTrack,
    effects: tuple[Mutations, Gradients] | None,
    target: str,
    spans: tuple[Span, ...],
) -> Tracks:
    shown = Tracks(run.letters.text, track.widths, track.share / track.even.sum(axis=0), target, spans=spans)
    if effects is None:
        return shown
    changes, gradients = effects
    return replace(shown, letters=changes.letters, change=changes.change, contribution=gradients.contribution)


def _agreement(run: Classification, track: LetterTrack, place: Place, effects: tuple[Mutations, Gradients]) -> None:
    """How far attention and effect order the letters alike, for this head and for every other."""
    changes, gradients = effects
    rho = rank_correlation(track.relative, changes.effect)
    other = rank_correlation(np.abs(gradients.contribution), changes.effect)
    st.markdown(
        f"**Attention against effect**: Spearman's rank correlation {rho:.2f} between the attention of {place.name} "
        f"and the mean size of mutation effects; {other:.2f} "
        "between integrated gradients (size) and mutation effects."
    )
    rows: dict[str, Sequence[float]] = {}
    for site in run.record.sites:
        attention = run.record[site]
        each = [folded(received(attention, h), run.spans, len(run.letters)) for h in range(attention.n_heads)]
        rows[site] = [rank_correlation(one.relative, changes.effect) for one in each]
    with st.expander("The same for every head"):
        st.dataframe(pd.DataFrame.from_dict(rows, orient="index").rename(columns=lambda i: f"head {i}").round(3))


def _downloads(
    run: Classification,
    track: LetterTrack,
    effects: tuple[Mutations, Gradients] | None,
    target: str,
    sequence_id: str,
    place: Place,
) -> None:
    columns = {f"attention share, windows of {w}": v for w, v in zip(track.widths, track.share, strict=True)}
    columns["attention, multiples of even"] = track.relative
    if effects is not None:
        changes, gradients = effects
        columns |= {
            f"log-odds of {target} with {new}": row for new, row in zip(changes.letters, changes.change, strict=True)
        }
        columns |= {"mutation effect": changes.effect, "integrated gradients": gradients.contribution}
    browser = {name: columns[name] for name in columns if name.startswith(("attention, ", "mutation", "integrated"))}
    stem = f"{sequence_id}-{place.name}".replace(", ", "-").replace(" ", "-")
    with st.container(horizontal=True):
        st.download_button(
            "Tracks (CSV)", lambda: tracks.csv(run.letters.text, columns), f"{stem}.csv", "text/csv", on_click="ignore"
        )
        st.download_button(
            "Tracks (bedGraph)",
            lambda: tracks.bedgraph(sequence_id, browser),
            f"{stem}.bedgraph",
            "text/plain",
            on_click="ignore",
        )
        if len(run.spans) <= 1_000:
            st.download_button(
                "The whole record (NPZ)", run.record.npz, f"{stem}.npz", "application/octet-stream", on_click="ignore"
            )


def _groups(run: Classification) -> str:
    """Which windows stand where along the axes."""
    parts, widths = [], [span.width for span in run.spans]
    for width in dict.fromkeys(widths):
        first = widths.index(width)
        parts.append(f"{first + 1}-{first + widths.count(width)} of width {width}")
    return f"Windows {', '.join(parts)}; lines mark where a width ends."


def _open_head(picked: Picked) -> None:
    st.session_state["layer"], st.session_state["head"] = str(picked.layer), str(picked.head)


def _dark() -> bool:
    return st.context.theme.type == "dark"

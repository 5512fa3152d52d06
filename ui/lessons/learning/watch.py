"""The first screen of the lesson "Learning": one training, its attention map over updates, and what was measured."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from transformer.plots import curves
from transformer.plots.export import plot_config
from transformer.training.snapshots import Measures, Snapshot, checkpoint, labels, texts
from transformer.training.tasks import Settings
from ui.components.alignments.component import Moment, Panel, alignments
from ui.lessons.learning import controls
from ui.lessons.learning.controls import MOMENT
from ui.lessons.learning.telling import told
from ui.patches import session
from ui.shared.address import set_parameter
from ui.shared.part import part
from ui.shared.subject import MODEL
from ui.store import trainings
from ui.store.trainings import TRAININGS, Look, Purse
from ui.texts import KEY, language, plain, t

PURSE = "training-purse"

EVERY = 1.0
"""Seconds between two looks at a run that goes on."""

VIEWS: dict[str, dict[str, str]] = {
    "pages/map.py": {},
    "pages/translate.py": {},
    "pages/attention_steps.py": {"made": "shipped", "attention": "cross"},
    "pages/inside_layer.py": {"made": "shipped"},
    "pages/what_if.py": {},
}
"""Pages that open a trained model, and what their addresses say besides."""

OF_TRANSLATORS = ("pages/translate.py", "pages/attention_steps.py")
"""Those that show only models that read one text and write another."""


def watch_panel(bar: DeltaGenerator) -> None:
    """Choose a run, train it, and watch; it draws itself again while the run goes on."""
    with bar:
        chosen = controls.settings()
        buttons = st.container(horizontal=True, gap="xsmall", width="content")
    goes_on = _look(chosen).ahead is not None

    def looked_at() -> None:
        look = _look(chosen)
        if goes_on != (look.ahead is not None):
            st.rerun()  # the page says how often this part is drawn
        with buttons:
            _buttons(look)
        _shown(chosen, look)

    part(looked_at, every=EVERY if goes_on else None)


def _look(chosen: Settings) -> Look:
    """The run as this session wants it; its recording where nothing is to be trained."""
    purse = st.session_state.setdefault(PURSE, Purse())
    look = TRAININGS.look(chosen, session.session_id(), controls.wanted(), purse)
    return Look(controls.recorded(chosen)) if controls.wanted() < 0 else look


def _buttons(look: Look) -> None:
    """Train or pause, and one step; how long it waits, or why it does not go on."""
    last = look.snapshots[-1].measures.update if look.snapshots and controls.wanted() >= 0 else 0
    if look.ahead is None:
        st.button(
            t("learning.train"), key="train", on_click=controls.train, args=(last,), type="primary",
            icon=":material/play_arrow:",
        )  # fmt: skip
        st.button(t("learning.step"), key="step", on_click=controls.step, args=(last,), icon=":material/skip_next:")
    else:
        st.button(t("learning.pause"), key="pause", on_click=controls.pause, args=(last,), icon=":material/pause:")
    if look.ahead:
        st.caption(t("learning.queue", ahead=look.ahead))
    elif look.spent:
        st.caption(t("learning.spent", seconds=int(trainings.SESSION_SECONDS)))
    elif look.failed:
        st.caption(t("learning.failed"))


def _shown(chosen: Settings, look: Look) -> None:
    snapshots = look.snapshots
    if not snapshots:
        st.info(t("learning.nothing" if look.ahead is None else "learning.begins"), icon=":material/info:")
        return
    at = controls.moment(snapshots)
    st.markdown(told(chosen, [one.measures for one in snapshots]))
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _maps(chosen, snapshots, at)
    with right:
        _curves([one.measures for one in snapshots], at)
    _open(chosen, snapshots[at])


def _maps(chosen: Settings, snapshots: Sequence[Snapshot], at: int) -> None:
    """The head that looks at the right position most at the end, at every snapshot."""
    sharpest = snapshots[-1].measures.sharpest
    site, head = sharpest[:2] if sharpest else (max(one for one in snapshots[-1].maps if one.endswith(".cross")), 0)
    rows, columns = labels(chosen)
    title = plain("learning.map_title", site=site, head=head)
    visible = np.tri(len(rows), dtype=bool) if chosen.learned.target is None else None

    def shown(one: Snapshot) -> Moment:
        found = one.measures
        name = plain("learning.moment", update=found.update, accuracy=found.accuracy)
        return Moment(name, (Panel(title, tuple(rows), one.maps[site][head], visible),))

    alignments(
        [shown(one) for one in snapshots], columns, key="learning-map", same_rows=True, moment=at,
        file_name=f"{chosen.task}-{site}-{head}",
        on_moment=lambda number: set_parameter(MOMENT, str(snapshots[number].measures.update)),
    )  # fmt: skip


def _curves(found: Sequence[Measures], at: int) -> None:
    shares: dict[str, Sequence[float | None]] = {
        plain("learning.accuracy"): [one.accuracy for one in found],
        plain("learning.top"): [one.top for one in found],
    }
    if found[-1].sharpest is not None:
        shares[plain("learning.focus")] = [one.sharpest and one.sharpest[2] for one in found]
    losses: dict[str, Sequence[float | None]] = {
        plain("learning.train_loss"): [one.train_loss for one in found],
        plain("learning.loss"): [one.loss for one in found],
    }
    figure = curves.training(
        [one.update for one in found], shares, losses, (plain("learning.rate"), [one.rate for one in found]),
        at=found[at].update, axis=plain("learning.update"), dark=st.context.theme.type == "dark",
    )  # fmt: skip
    st.plotly_chart(figure, key="plot.learning", config=plot_config("learning", "svg"))


def _open(chosen: Settings, snapshot: Snapshot) -> None:
    """The model of the snapshot that is looked at, on other pages and as a file."""
    if not snapshot.weights:
        st.caption(t("learning.no_weights", update=snapshot.measures.update))
        return
    update = snapshot.measures.update
    with st.popover(t("learning.open", update=update), icon=":material/open_in_new:"):
        st.caption(t("learning.open_note"))
        name = trainings.known(chosen, snapshot)
        if name is None:
            st.button(
                t("learning.take"), key="take", on_click=partial(trainings.opened, chosen, snapshot), type="primary"
            )
        else:
            _links(chosen, name)
        st.download_button(
            t("learning.download"), partial(checkpoint, chosen, snapshot), f"{chosen.task}-{update}.zip",
            "application/zip", key="download", on_click="ignore", icon=":material/download:",
        )  # fmt: skip


def _links(chosen: Settings, name: str) -> None:
    written, _ = labels(chosen)
    text = texts(chosen)[0]
    sentences = {"text": text, "source": text, "target": " ".join(written[:-1])}  # as the pages call them
    for page, said in VIEWS.items():
        if chosen.learned.target is not None or page not in OF_TRANSLATORS:
            st.page_link(
                page, label=t(f"{Path(page).stem}.title"), icon=":material/arrow_forward:",
                query_params={MODEL: name, **sentences, **said, KEY: language()},
            )  # fmt: skip

"""A small training before the reader's eyes: chosen, trained a leg at a time, and looked at update by update."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap.plots import charts
from heedmap.plots.export import plot_config
from heedmap.training.snapshots import SCHEDULE, Measures, Snapshot, checkpoint, labels, texts
from heedmap.training.tasks import CHOICES, LAST_SEED, Settings
from ui.components.alignments.component import Moment, Panel, alignments
from ui.lessons.shared import listed
from ui.patches import session
from ui.shared.address import belong_to, choice, parameter, put, set_parameter, switch, whole
from ui.shared.bars import is_dark
from ui.shared.files import save_button
from ui.shared.part import part
from ui.shared.subject import MODEL
from ui.store import trainings
from ui.store.trainings import TRAININGS, Look, Spent, recordings
from ui.texts import KEY, language, plain, t

SPENT = "training-seconds"

EVERY = 1.0
"""Seconds between two looks at a run that goes on."""

VIEWS = ("pages/map.py", "pages/translate.py")
"""Pages that open a trained model; the second only one that reads one text and writes another."""

RIGHT, SHARP, FOUND = 0.99, 0.9, 0.5
"""From which share of right answers a task is learned, which mean weight is sharp, and which is an induction head."""

LEARNED_LETTERS = 0.95
"""From which share of right letters a repeated pattern is learned."""

TO, MOMENT = "to", "moment"
"""The query parameters of the update up to which the run is trained, and of the snapshot that is looked at."""

LEG = 1_000
"""Updates of one press of the button."""

ICONS = {"train": ":material/play_arrow:", "step": ":material/skip_next:", "pause": ":material/pause:"}

MODEL_SETTINGS = ("n_layers", "n_heads", "d_model", "norm_first", "positions", "xavier")
TRAINING_SETTINGS = ("rate", "warmup", "smoothing", "dropout", "sees_future", "seed")


def as_address(chosen: Settings) -> dict[str, Any]:
    """Settings as values of controls."""
    return {name: str(value) if name in CHOICES else value for name, value in asdict(chosen).items()}


TRY = {
    "try_reverse": as_address(Settings()),
    "try_repeat": as_address(Settings(task="repeat", n_layers=2)),
    "try_future": as_address(Settings(sees_future=True)),
    "try_deep": as_address(Settings(n_layers=4, n_heads=2, norm_first=False, rate=0.01)),
    "try_warm": as_address(Settings(n_layers=4, n_heads=2, norm_first=False, rate=0.01, warmup=True)),
    "try_add": as_address(Settings(task="add", n_heads=4, d_model=64, rate=0.003)),
}
"""Runs worth seeing, by their text; of each there is a recording."""


def settings() -> Settings:
    """What is to be trained; another choice is another run, of which nothing is trained yet."""
    usual, found = asdict(Settings()), dict[str, Any]()
    found["task"] = listed("learning.task", CHOICES["task"], key="task", width=220, bare=True)
    for label, names in (("model", MODEL_SETTINGS), ("training", TRAINING_SETTINGS)):
        with st.popover(t(f"learning.{label}"), icon=":material/tune:"):
            for name in names:
                found[name] = _setting(name, usual[name])
    made = Settings.of({name: str(value).lower() for name, value in found.items()})
    belong_to(made, TO, MOMENT)
    return made


def _setting(name: str, usual: Any) -> Any:
    """One setting, as its kind of value is chosen."""
    label = t(f"learning.{name}")
    if name in CHOICES:
        return choice(label, CHOICES[name], key=name, default=str(usual), text=str)
    return switch(label, usual, key=name) if isinstance(usual, bool) else whole(label, 0, LAST_SEED, usual, key=name)


def wanted() -> int:
    """Up to which update the address wants the run trained: -1 for not at all, else one with a snapshot."""
    said = parameter(TO) or ""
    known = [one for one in SCHEDULE if said.isascii() and said.isdecimal() and len(said) < 9 and one <= int(said)]
    return known[-1] if known else -1


def watch_panel(bar: DeltaGenerator) -> None:
    """Choose a run, train it, and watch; it draws itself again while the run goes on."""
    with bar:
        chosen = settings()
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
    spent = st.session_state.setdefault(SPENT, Spent())
    look = TRAININGS.look(chosen, session.session_id(), wanted(), spent)
    return Look(recordings().get(chosen, ())) if wanted() < 0 else look


def _buttons(look: Look) -> None:
    """Train (to the end of the next leg) or pause, and one step; how long it waits, or why it does not go on."""
    last = look.snapshots[-1].measures.update if look.snapshots and wanted() >= 0 else 0
    steps = {"pause": last}
    if look.ahead is None:
        steps = {
            "train": min(SCHEDULE[-1], last // LEG * LEG + LEG),
            "step": next((i for i in SCHEDULE if i > last), last),
        }
    for name, to in steps.items():
        more: dict[str, Any] = {} if name == "pause" else {MOMENT: None}
        st.button(
            t(f"learning.{name}"), key=name, on_click=partial(put, **{TO: to}, **more), icon=ICONS[name],
            type="primary" if name == "train" else "secondary",
        )  # fmt: skip
    if look.snapshots and (said := _said(look)):
        st.caption(said)


def _said(look: Look) -> str:
    """How a run goes on, or why it does not; empty where that goes without saying."""
    if look.ahead:
        return t("learning.queue", ahead=look.ahead)
    if look.ahead == 0 and look.others:
        return t("learning.in_turn", others=look.others)
    if look.spent:
        return t("learning.spent", seconds=int(trainings.SESSION_SECONDS))
    return t("learning.failed") if look.failed else ""


def _shown(chosen: Settings, look: Look) -> None:
    """The run so far, at the snapshot of the address, or else the last one."""
    snapshots = look.snapshots
    if not snapshots:
        begins = "learning.nothing" if look.ahead is None else "learning.begins"
        st.info(_said(look) or t(begins), icon=":material/info:")
        return
    found = [one.measures for one in snapshots]
    updates, said = [str(one.update) for one in found], parameter(MOMENT)
    at = updates.index(said) if said in updates else len(updates) - 1
    st.markdown(_report(chosen, found))
    left, right = st.columns([2, 3], gap="medium")
    with left:
        _maps(chosen, snapshots, at)
    with right:
        _curves(found, at)
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
    def series(*names: str) -> dict[str, Any]:
        return {plain(f"learning.{name}"): [getattr(one, name) for one in found] for name in names}

    shares = series("accuracy", "top")
    if found[-1].sharpest is not None:
        shares[plain("learning.focus")] = [one.sharpest and one.sharpest[2] for one in found]
    figure = charts.training(
        [one.update for one in found], shares, series("train_loss", "loss"), *series("rate").items(),
        at=found[at].update, axis=plain("learning.update"), dark=is_dark(),
    )  # fmt: skip
    st.plotly_chart(figure, key="plot.learning", config=plot_config("learning", "svg"))


def _open(chosen: Settings, snapshot: Snapshot) -> None:
    """The model of the snapshot that is looked at, on other pages and as a file."""
    update = snapshot.measures.update
    if not snapshot.weights:
        st.caption(t("learning.no_weights", update=update))
        return
    with st.popover(t("learning.open", update=update), icon=":material/open_in_new:"):
        st.caption(t("learning.open_note"))
        name = trainings.known(chosen, snapshot)
        if name is None:
            take = partial(trainings.opened, chosen, snapshot)
            st.button(t("learning.take"), key="take", on_click=take, type="primary")
        else:
            query = {MODEL: name, "text": texts(chosen)[0], "target": " ".join(labels(chosen)[0][:-1]), KEY: language()}
            for page in VIEWS if chosen.learned.target is not None else VIEWS[:1]:
                label = t(f"{Path(page).stem}.title")
                st.page_link(page, label=label, icon=":material/arrow_forward:", query_params=query)
        save_button(
            t("learning.download"), partial(checkpoint, chosen, snapshot), f"{chosen.task}-{update}.zip",
            "application/zip", key="download", icon=":material/download:",
        )  # fmt: skip


def _report(settings: Settings, found: Sequence[Measures]) -> str:
    """What happened so far, as Markdown."""
    repeats, last = settings.learned.target is None, found[-1]
    kind, enough = ("letters", LEARNED_LETTERS) if repeats else ("rows", RIGHT)
    first = next((one for one in found if one.accuracy >= enough), None)
    if first is None:
        said = [t(f"learning.not_yet_{kind}", update=last.update, share=last.accuracy, tokens=last.token_accuracy)]
    else:
        said = [t(f"learning.learned_{kind}", update=first.update, seconds=first.seconds, share=first.accuracy)]
    if last.sharpest is not None:
        said.append(_focus(repeats, found, first))
    if settings.sees_future:
        said.append(t("learning.saw_future", train=last.train_loss or last.loss, loss=last.loss, share=last.accuracy))
    if settings.smoothing and first is not None:
        said.append(t("learning.smoothed", top=last.top))
    return " ".join(said)


def _focus(repeats: bool, found: Sequence[Measures], learned: Measures | None) -> str:
    """How far attention is on the right position: when it became sharp, beside when answers were right."""
    weights = {one.update: one.sharpest[2] if one.sharpest else 0.0 for one in found}
    fields: dict[str, Any] = {"update": found[-1].update, "weight": weights[found[-1].update]}
    if repeats:
        name = "induction" if fields["weight"] >= FOUND else "no_induction" if learned else "no_induction_yet"
    elif learned is None:
        name = "weight"
    else:
        sharp = next((update for update, one in weights.items() if one >= SHARP), None)
        fields |= {"sharp": sharp, "then": weights[learned.update]}
        name = "never_sharp" if sharp is None else "sharp_later" if sharp > learned.update else "sharp_before"
    return t(f"learning.{name}", **fields)

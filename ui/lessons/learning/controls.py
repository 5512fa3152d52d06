"""The controls of the lesson "Learning": what is trained, and how far."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import streamlit as st

from transformer.training.snapshots import SCHEDULE, Snapshot
from transformer.training.tasks import CHOICES, LAST_SEED, Settings
from ui.shared.address import belong_to, choice, line, parameter, put, switch, whole
from ui.store import store
from ui.store.trainings import recordings
from ui.texts import plain, t

TO, MOMENT = "to", "moment"
"""The query parameters of the update up to which the run is trained, and of the snapshot that is looked at."""

LEG = 1_000
"""Updates of one press of the button."""

MODEL_SETTINGS = ("n_layers", "n_heads", "d_model", "norm_first", "positions", "xavier")
TRAINING_SETTINGS = ("rate", "warmup", "smoothing", "dropout", "sees_future", "seed")


def as_address(chosen: Settings) -> dict[str, Any]:
    """Settings as values of controls."""
    return {name: str(value) if name in CHOICES else value for name, value in asdict(chosen).items()}


DEFAULTS: dict[str, Any] = as_address(Settings()) | {TO: None, MOMENT: None}


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
    found["task"] = choice(
        t("learning.task"), CHOICES["task"], key="task", form="list", width=220, bare=True,
        text=lambda task: plain(f"learning.task_{task}"),
    )  # fmt: skip
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
    if isinstance(usual, bool):
        return switch(label, usual, key=name)
    if name in CHOICES:
        return choice(label, CHOICES[name], key=name, default=str(usual), text=str)
    return whole(label, 0, LAST_SEED, usual, key=name)


def recorded(chosen: Settings) -> tuple[Snapshot, ...]:
    """The recording of a run that comes with the app; empty where there is none."""
    return recordings().get(chosen, ())


def wanted() -> int:
    """Up to which update the address wants the run trained: -1 for not at all, else one with a snapshot."""
    said = parameter(TO) or ""
    known = [one for one in SCHEDULE if said.isascii() and said.isdecimal() and len(said) < 9 and one <= int(said)]
    return known[-1] if known else -1


def moment(snapshots: Sequence[Snapshot]) -> int:
    """Which snapshot is looked at: that of the address, else the last one."""
    updates = [str(one.measures.update) for one in snapshots]
    said = parameter(MOMENT)
    return updates.index(said) if said in updates else len(updates) - 1


def train(last: int) -> None:
    """Go on to the end of the next leg."""
    put(**{TO: min(SCHEDULE[-1], last // LEG * LEG + LEG), MOMENT: None})


def step(last: int) -> None:
    """Go on to the next snapshot."""
    put(**{TO: next((one for one in SCHEDULE if one > last), last), MOMENT: None})


def pause(last: int) -> None:
    """Want no more than there is."""
    put(**{TO: last})


def screen(screens: Sequence[str]) -> str:
    """Which screen is open."""
    return choice(
        t("learning.screen"), screens, key="screen", form="list", width=190, bare=True,
        text=lambda one: plain(f"learning.screen_{one}"),
    )  # fmt: skip


def sentence(names: Sequence[str], key: str) -> tuple[str, str, str | None]:
    """A trained model, a sentence for it, and the target that was typed, if any."""
    name = choice(t("learning.learner"), names, key=key, form="list", width=260, bare=True, text=str)
    with st.popover(t("learning.sentence"), icon=":material/edit:"):
        text = line(t("lessons.source"), next(iter(store.checkpoint(name).examples), ""), key="text")
        forced = line(t("lessons.target"), "", key="force")
    return name, text, forced.strip() or None

"""Trainings of a server: one run for whoever looks at it, in turn with others, bounded, stopped within a second."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import ClassVar

import numpy as np
import pytest

from heedmap.runs.concurrency import LONG, turns
from heedmap.training.snapshots import SCHEDULE, Child, Learning, Snapshot
from heedmap.training.tasks import Settings
from tests.waiting import until
from ui.store import trainings
from ui.store.trainings import Spent, Trainings

SMALL = Settings(d_model=16, n_heads=1)
OTHER = Settings(d_model=16, n_heads=1, seed=2)


class InPlace:
    """A process that trains in this one; `slow` ones never answer."""

    made: ClassVar[list["InPlace"]] = []
    slow = False

    def __init__(self) -> None:
        self.made.append(self)
        self.runs: dict[Settings, Learning] = {}
        self.asked = list[tuple[Settings, int]]()
        self.waited, self.looks, self.ended = Event(), 0, False

    def ask(self, settings: Settings, update: int) -> None:
        self.asked.append((settings, update))

    def answer(self, seconds: float) -> tuple[float, Snapshot | None] | None:
        if self.slow:
            self.waited.wait(seconds)
            self.looks += 1
            return None
        settings, update = self.asked[-1]
        run = self.runs.setdefault(settings, Learning(settings))
        run.advance(update)
        return 0.25, run.snapshot() if update in SCHEDULE else None

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[InPlace]]:
    InPlace.made, InPlace.slow = [], False
    monkeypatch.setattr(trainings, "Child", InPlace)
    monkeypatch.setattr(trainings, "IDLE", 0.2)
    monkeypatch.setattr(trainings, "AWAY", 600.0)  # nobody is taken for gone
    yield InPlace
    until(lambda: all(one.ended for one in InPlace.made))


def test_thirty_sessions_with_one_link_cost_one_run(child: type[InPlace]) -> None:
    server, purses = Trainings(), [Spent() for _ in range(30)]

    def reader(number: int) -> tuple[Snapshot, ...]:
        while True:
            look = server.look(SMALL, str(number), 50, purses[number])
            if look.ahead is None:
                return look.snapshots
            Event().wait(0.02)

    with ThreadPoolExecutor(30) as pool:
        seen = list(pool.map(reader, range(30)))
    assert [one.measures.update for one in seen[0]] == [0, 10, 20, 30, 40, 50]
    assert all(mine is first for one in seen for mine, first in zip(one, seen[0], strict=True))
    (only,) = child.made
    assert only.asked == [(SMALL, update) for update in (0, 10, 20, 30, 40, 50)]
    assert sum(one.seconds for one in purses) == pytest.approx(6 * 0.25), "a run is paid once"
    assert len(server.look(SMALL, "late", 20, Spent()).snapshots) == 3, "what is trained already is not trained again"
    assert len(only.asked) == 6


def begun(child: type[InPlace]) -> InPlace:
    """A process that was asked, and does not answer."""
    until(lambda: bool(child.made and child.made[0].asked))
    return child.made[0]


def test_trainings_take_turns_and_the_others_are_told_how_many_have_to_end(
    child: type[InPlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "KEPT_RUNS", 2)
    child.slow, server = True, Trainings()
    third, fourth = (replace(SMALL, seed=seed) for seed in (3, 5))
    wanted = {"a": (SMALL, 30), "b": (OTHER, 20), "c": (third, 10), "d": (fourth, 0)}

    def looks() -> list[tuple[int | None, int]]:
        return [server.look(*one, Spent())[1:3] for one in ((some, name, to) for name, (some, to) in wanted.items())]

    assert looks() == [(0, 0), (0, 1), (1, 1), (2, 1)]
    process = begun(child)
    until(lambda: process.looks > 2)
    assert [settings for settings, _ in process.asked] == [SMALL]
    child.slow = False
    until(lambda: all(ahead is None for ahead, _ in looks()))
    asked = [(settings.seed, update) for settings, update in process.asked]
    assert asked == [
        *((1, 0), (2, 0), (1, 10), (2, 10), (1, 20), (2, 20)),  # as many as are kept, a few updates each
        *((1, 30), (3, 0), (5, 0), (3, 10)),  # and whoever waited once one has ended
    ]


@pytest.mark.usefixtures("child")
def test_updates_are_asked_for_in_a_turn_of_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = list[bool | None]()

    class Noting(InPlace):
        def ask(self, settings: Settings, update: int) -> None:
            kinds.append(turns.mine)
            super().ask(settings, update)

        def answer(self, seconds: float) -> tuple[float, Snapshot | None] | None:
            kinds.append(turns.mine)
            return super().answer(seconds)

    monkeypatch.setattr(trainings, "Child", Noting)
    server = Trainings()
    until(lambda: server.look(SMALL, "a", 10, Spent()).ahead is None)
    assert kinds == [LONG, None] * 2


@pytest.mark.parametrize("chosen", [SMALL, OTHER])
def test_stop_and_another_choice_end_what_is_under_way(chosen: Settings, child: type[InPlace]) -> None:
    child.slow, server = True, Trainings()
    server.look(SMALL, "a", 1_000, Spent())
    process = begun(child)
    assert server.look(chosen, "a", -1, Spent()).ahead is None
    until(lambda: process.ended)
    assert not server.look(chosen, "a", 1_000, Spent(60.0)).snapshots


def test_a_session_has_sixty_processor_seconds(child: type[InPlace]) -> None:
    server, spent = Trainings(), Spent(59.9)
    server.look(SMALL, "a", 1_000, spent)
    until(lambda: spent.is_all)
    look = server.look(SMALL, "a", 1_000, spent)
    assert look.spent
    assert look.ahead is None
    assert server.look(OTHER, "a", 10, spent).spent
    assert len(child.made[0].asked) == 1
    assert not server.look(SMALL, "b", -1, Spent()).spent


def test_what_nobody_looks_at_is_forgotten_once_there_is_too_much(
    child: type[InPlace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "MOST_BYTES", 1)
    server = Trainings()
    until(lambda: server.look(SMALL, "a", 0, Spent()).snapshots != ())
    server.look(OTHER, "b", -1, Spent())
    assert len(server.look(SMALL, "a", 0, Spent()).snapshots) == 1, "somebody looks at it"
    monkeypatch.setattr(trainings, "AWAY", 0.0)
    server.look(OTHER, "b", -1, Spent())
    assert [list(run.readers) for run in server._runs.values()] == [[]], "who left is forgotten"
    assert server.look(SMALL, "a", 0, Spent()).snapshots == ()
    assert child.made


def test_the_process_makes_the_run_that_this_one_would_and_a_killed_one_is_started_again() -> None:
    process, here = Child(), Learning(SMALL)
    for update in (0, 10):
        process.ask(SMALL, update)
        while (found := process.answer(1.0)) is None:
            pass
        here.advance(update)
        there = found[1]
        assert there is not None
        for site, values in here.snapshot().maps.items():
            np.testing.assert_array_equal(there.maps[site], values)
    assert process._running is not None
    process._running[0].kill()
    process._running[0].wait()
    with pytest.raises(ConnectionError):
        process.ask(SMALL, 10)
    process.end()

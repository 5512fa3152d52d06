"""Scripts take turns: never more than said, whoever computes or waits lets others go on, and nobody waits for ever."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock

import pytest
import torch
from streamlit.testing.v1 import AppTest

from transformer.runs import concurrency
from ui.store import render_slots
from ui.store.cache import Store

ROOT = Path(__file__).parents[3]
PATIENCE = 30


def free() -> int:
    """How many turns can be had now."""
    taken = 0
    while render_slots._free.acquire(blocking=False):
        taken += 1
    for _ in range(taken):
        render_slots._free.release()
    return taken


@pytest.fixture(autouse=True)
def _all_come_back() -> Iterator[None]:
    assert free() == render_slots.AT_ONCE
    yield
    assert free() == render_slots.AT_ONCE


def test_never_more_than_said_go_on_at_once_and_all_come_to_their_turn() -> None:
    inside, most, counting, full = 0, 0, Lock(), Event()

    def run() -> None:
        nonlocal inside, most
        with render_slots.turn():
            with counting:
                inside += 1
                most = max(most, inside)
                if inside == render_slots.AT_ONCE:
                    full.set()
            assert full.wait(PATIENCE)
            with counting:
                inside -= 1

    with ThreadPoolExecutor(7) as threads:
        for done in [threads.submit(run) for _ in range(21)]:
            done.result(PATIENCE)
    assert most == render_slots.AT_ONCE


def test_a_run_that_ends_with_an_error_or_gave_its_turn_back_leaves_as_many_as_before() -> None:
    with pytest.raises(KeyError), render_slots.turn():
        raise KeyError
    assert free() == render_slots.AT_ONCE
    with render_slots.turn():
        assert free() == render_slots.AT_ONCE - 1
        render_slots.give_back()
        render_slots.give_back()
        assert free() == render_slots.AT_ONCE
    render_slots.give_back()  # outside of a turn


def test_whoever_waits_for_what_another_computes_holds_no_turn() -> None:
    store, computing, end = Store(3), Event(), Event()

    def compute() -> int:
        render_slots.give_back()  # as whatever takes its time does
        computing.set()
        assert end.wait(PATIENCE)
        return 7

    def run() -> int:
        with render_slots.turn():
            found: int = store.get("key", compute)
            return found

    with ThreadPoolExecutor(render_slots.AT_ONCE + 2) as threads:
        asked = [threads.submit(run) for _ in range(render_slots.AT_ONCE + 2)]
        assert computing.wait(PATIENCE)
        for _ in range(render_slots.AT_ONCE):
            assert render_slots._free.acquire(timeout=PATIENCE)  # none of those that wait for the result has one
        for _ in range(render_slots.AT_ONCE):
            render_slots._free.release()
        end.set()
        assert [one.result(PATIENCE) for one in asked] == [7] * len(asked)


def test_a_page_of_the_app_runs_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    turn = render_slots.turn

    @contextmanager
    def noted() -> Iterator[None]:
        with turn():
            taken.append(free())
            yield

    monkeypatch.setattr(render_slots, "turn", noted)
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert not page.exception
    assert taken[0] == render_slots.AT_ONCE - 1  # its parts, which ask again, draw within it
    assert free() == render_slots.AT_ONCE


def test_a_slice_of_long_work_has_no_turn_and_stands_back_while_others_draw() -> None:
    assert not render_slots.busy()
    with render_slots.turn():
        assert render_slots.busy()
        with render_slots.aside():
            assert not render_slots.busy()
            assert free() == render_slots.AT_ONCE
            assert concurrency._mine.long
        assert not concurrency._mine.long
        assert render_slots.busy()
        assert free() == render_slots.AT_ONCE - 1  # what it draws takes a turn again
        render_slots.give_back()
        with render_slots.aside():
            pass
        assert free() == render_slots.AT_ONCE  # but none that it had not
    with render_slots.aside():
        assert not render_slots.busy()
    render_slots.set_pace()
    assert render_slots.busy in concurrency._busy


def test_one_user_is_one_thread_that_lets_go_of_the_interpreter_soon() -> None:
    torch.set_num_threads(2)
    sys.setswitchinterval(0.005)
    render_slots.set_pace()
    assert torch.get_num_threads() == 1
    assert sys.getswitchinterval() == pytest.approx(render_slots.SWITCH_SECONDS)


def test_a_turn_within_a_turn_takes_no_second_one() -> None:
    with render_slots.turn():
        with render_slots.turn():
            assert free() == render_slots.AT_ONCE - 1
        assert free() == render_slots.AT_ONCE - 1
        render_slots.give_back()
        with render_slots.turn():
            assert free() == render_slots.AT_ONCE

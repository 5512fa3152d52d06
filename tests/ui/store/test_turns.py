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
from ui.store import turns
from ui.store.cache import Store

ROOT = Path(__file__).parents[3]
PATIENCE = 30


def free() -> int:
    """How many turns can be had now."""
    taken = 0
    while turns._free.acquire(blocking=False):
        taken += 1
    for _ in range(taken):
        turns._free.release()
    return taken


@pytest.fixture(autouse=True)
def _all_come_back() -> Iterator[None]:
    assert free() == turns.AT_ONCE
    yield
    assert free() == turns.AT_ONCE


def test_never_more_than_said_go_on_at_once_and_all_come_to_their_turn() -> None:
    inside, most, counting, full = 0, 0, Lock(), Event()

    def run() -> None:
        nonlocal inside, most
        with turns.turn():
            with counting:
                inside += 1
                most = max(most, inside)
                if inside == turns.AT_ONCE:
                    full.set()
            assert full.wait(PATIENCE)
            with counting:
                inside -= 1

    with ThreadPoolExecutor(7) as threads:
        for done in [threads.submit(run) for _ in range(21)]:
            done.result(PATIENCE)
    assert most == turns.AT_ONCE


def test_a_run_that_ends_with_an_error_or_gave_its_turn_back_leaves_as_many_as_before() -> None:
    with pytest.raises(KeyError), turns.turn():
        raise KeyError
    assert free() == turns.AT_ONCE
    with turns.turn():
        assert free() == turns.AT_ONCE - 1
        turns.give_back()
        turns.give_back()
        assert free() == turns.AT_ONCE
    turns.give_back()  # outside of a turn


def test_whoever_waits_for_what_another_computes_holds_no_turn() -> None:
    store, computing, end = Store(3), Event(), Event()

    def compute() -> int:
        turns.give_back()  # as whatever takes its time does
        computing.set()
        assert end.wait(PATIENCE)
        return 7

    def run() -> int:
        with turns.turn():
            found: int = store.get("key", compute)
            return found

    with ThreadPoolExecutor(turns.AT_ONCE + 2) as threads:
        asked = [threads.submit(run) for _ in range(turns.AT_ONCE + 2)]
        assert computing.wait(PATIENCE)
        for _ in range(turns.AT_ONCE):
            assert turns._free.acquire(timeout=PATIENCE)  # none of those that wait for the result has one
        for _ in range(turns.AT_ONCE):
            turns._free.release()
        end.set()
        assert [one.result(PATIENCE) for one in asked] == [7] * len(asked)


def test_a_page_of_the_app_runs_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    turn = turns.turn

    @contextmanager
    def noted() -> Iterator[None]:
        with turn():
            taken.append(free())
            yield

    monkeypatch.setattr(turns, "turn", noted)
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert not page.exception
    assert taken[0] == turns.AT_ONCE - 1  # its parts, which ask again, draw within it
    assert free() == turns.AT_ONCE


def test_a_slice_of_long_work_has_no_turn_and_stands_back_while_others_draw() -> None:
    assert not turns.busy()
    with turns.turn():
        assert turns.busy()
        with turns.aside():
            assert not turns.busy()
            assert free() == turns.AT_ONCE
            assert concurrency._mine.long
        assert not concurrency._mine.long
        assert turns.busy()
        assert free() == turns.AT_ONCE - 1  # what it draws takes a turn again
        turns.give_back()
        with turns.aside():
            pass
        assert free() == turns.AT_ONCE  # but none that it had not
    with turns.aside():
        assert not turns.busy()
    turns.set_pace()
    assert turns.busy in concurrency._busy


def test_one_user_is_one_thread_that_lets_go_of_the_interpreter_soon() -> None:
    torch.set_num_threads(2)
    sys.setswitchinterval(0.005)
    turns.set_pace()
    assert torch.get_num_threads() == 1
    assert sys.getswitchinterval() == pytest.approx(turns.SWITCH_SECONDS)


def test_a_turn_within_a_turn_takes_no_second_one() -> None:
    with turns.turn():
        with turns.turn():
            assert free() == turns.AT_ONCE - 1
        assert free() == turns.AT_ONCE - 1
        turns.give_back()
        with turns.turn():
            assert free() == turns.AT_ONCE

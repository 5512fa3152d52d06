"""Scripts take turns: never more than said, and whoever computes, waits or has a file read lets others go on."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pytest
import torch
from streamlit.testing.v1 import AppTest

from heedmap.checkpoint.worker import resident, template
from heedmap.checkpoint.worker.pool import WORKERS, Budget, GaveUpError, Workers
from heedmap.checkpoint.worker.resident import Resident
from heedmap.errors import CheckpointError
from heedmap.runs import concurrency
from heedmap.runs.concurrency import LONG, LOOK
from tests.checkpoint.worker.test_pool import COMMAND, SMALL
from tests.fuzzing import children
from tests.waiting import PATIENCE, until
from ui.store import render_slots
from ui.store.cache import Store
from ui.store.progress import SlicedWork

ROOT = Path(__file__).parents[3]
BUDGET, ENDLESS = Budget(SMALL.memory_bytes, 2), Budget(SMALL.memory_bytes, 10 * int(PATIENCE))


def free() -> int:
    """How many turns can be had now."""
    return concurrency.turns._free


@pytest.fixture(autouse=True)
def _all_come_back() -> Iterator[None]:
    assert free() == concurrency.AT_ONCE
    yield
    assert free() == concurrency.AT_ONCE


def test_never_more_than_said_go_on_at_once_and_all_come_to_their_turn() -> None:
    inside, counts, full = list[int](), list[int](), Event()

    def run(number: int) -> None:
        with render_slots.turn():
            inside.append(number)
            counts.append(len(inside))
            if len(inside) == concurrency.AT_ONCE:
                full.set()
            assert full.wait(PATIENCE)
            inside.remove(number)

    with ThreadPoolExecutor(7) as threads:
        list(threads.map(run, range(21), timeout=PATIENCE))
    assert (max(counts), len(counts)) == (concurrency.AT_ONCE, 21)


def test_a_turn_ends_with_an_error_once_it_was_given_back_and_is_one_however_deep_it_is_asked_for() -> None:
    with pytest.raises(KeyError), render_slots.turn():
        raise KeyError
    assert free() == concurrency.AT_ONCE
    with render_slots.turn():
        with render_slots.turn():
            assert free() == concurrency.AT_ONCE - 1
        assert free() == concurrency.AT_ONCE - 1
        render_slots.give_back()
        render_slots.give_back()
        with render_slots.turn():
            assert free() == concurrency.AT_ONCE
    render_slots.give_back()  # outside of a turn


def test_whoever_waits_for_what_another_computes_holds_no_turn() -> None:
    store, computing, end = Store(3), Event(), Event()

    def compute() -> int:
        computing.set()
        assert end.wait(PATIENCE)
        return 7

    def run(_: int) -> int:
        with render_slots.turn():
            found: int = store.get("key", compute)
            return found

    with ThreadPoolExecutor(concurrency.AT_ONCE + 2) as threads:
        asked = threads.map(run, range(concurrency.AT_ONCE + 2), timeout=PATIENCE)
        assert computing.wait(PATIENCE)
        until(lambda: free() == concurrency.AT_ONCE)  # none of those that wait for the result has one
        end.set()
        assert list(asked) == [7] * (concurrency.AT_ONCE + 2)


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
    assert taken[0] == concurrency.AT_ONCE - 1  # its parts, which ask again, draw within it


def test_a_slice_of_long_work_has_a_turn_of_its_own_kind_and_what_it_draws_takes_its_turn_again() -> None:
    found = list[tuple[bool | None, int]]()

    def step() -> Iterator[int]:
        while True:
            found.append((concurrency.turns.mine, free()))
            yield 1

    work = SlicedWork(steps=step(), total=9)
    with render_slots.turn():
        work.advance(0.0)
        assert concurrency.turns.mine is LOOK
        render_slots.give_back()
        work.advance(0.0)
        assert concurrency.turns.mine is None  # but none that it had not
    assert set(found) == {(LONG, concurrency.AT_ONCE - 1)}


def test_one_user_is_one_thread_that_lets_go_of_the_interpreter_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    sys.setswitchinterval(0.005)
    monkeypatch.setattr(WORKERS, "host", WORKERS.host)
    monkeypatch.setattr(concurrency.turns, "most_long", concurrency.AT_ONCE)
    render_slots.begin()
    assert torch.get_num_threads() == 1
    assert sys.getswitchinterval() == pytest.approx(render_slots.SWITCH_SECONDS)
    assert concurrency.turns.most_long == concurrency.AT_ONCE - 1


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(COMMAND)
    list(made.answers("threads", "a.pt", budget=BUDGET))  # the template is there
    made.host = render_slots.Readers("store.queue")
    yield made
    made.template.close()


def reading(workers: Workers, began: Event) -> None:
    """A file whose worker never comes to an end by itself."""
    with closing(workers.answers("stop", "a.pt", budget=ENDLESS)) as answers:
        next(answers)  # it says that it begins
        began.set()
        with pytest.raises(CheckpointError, match="SIGKILL"):
            list(answers)


def asking(workers: Workers, began: Event) -> None:
    """An uploaded tokenizer which takes for ever to cut a text."""
    kept = Resident("keep", "a.model", budget=SMALL, workers=workers, kept=1)
    kept.start()
    began.set()
    with pytest.raises(GaveUpError, match="SIGKILL"):
        kept.ask({"do": "stop"})


@pytest.mark.parametrize("waiting", [reading, asking])
def test_two_who_draw_and_wait_for_workers_hold_up_no_third(
    workers: Workers, waiting: Callable[[Workers, Event], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "ASK_SECONDS", ENDLESS.seconds)

    def run(began: Event) -> None:
        with render_slots.turn():
            waiting(workers, began)

    def third() -> None:
        with render_slots.turn():
            pass

    began = [Event() for _ in range(concurrency.AT_ONCE)]
    with ThreadPoolExecutor(len(began) + 1) as threads:
        runs = [threads.submit(run, event) for event in began]
        try:
            assert all(event.wait(PATIENCE) for event in began)
            threads.submit(third).result(PATIENCE)
            assert not any(one.done() for one in runs)
        finally:
            for worker in children(workers.template.pid):
                os.kill(worker, signal.SIGKILL)
        for one in runs:
            one.result(PATIENCE)


def test_a_quick_file_keeps_its_turn(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "GLANCE_SECONDS", 60.0)
    with render_slots.turn():
        list(workers.answers("threads", "a.pt", budget=BUDGET))
        assert concurrency.turns.mine is LOOK


def queue_page() -> None:
    """A session is a client of the workers; its file has to wait behind others, and then is read."""
    import streamlit as st

    from ui.store.render_slots import Readers

    host = Readers("store.queue")
    assert host.client()
    for ahead in st.session_state["told"]:
        host.queued(ahead)


QUEUES = [([2, 2, 1], ["1 file will be"]), ([3], ["3 files will be"]), ([2, 0], []), ([0], [])]


@pytest.mark.parametrize(("told", "said"), QUEUES)
def test_the_place_in_the_queue_is_said(told: list[int], said: list[str]) -> None:
    assert render_slots.Readers("store.queue").client() is None
    page = AppTest.from_function(queue_page, default_timeout=60)
    page.session_state["told"] = told
    page.run()
    assert not page.exception
    assert [info.value[: len(text)] for info, text in zip(page.info, said, strict=True)] == said

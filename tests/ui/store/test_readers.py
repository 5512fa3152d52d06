"""Whoever waits for a file to be read holds up no other page, has one file read at a time, and sees its place."""

from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.checkpoint.worker.test_pool import COMMAND, SMALL
from transformer.checkpoint.worker import pool, resident
from transformer.checkpoint.worker.pool import Budget, Workers
from transformer.checkpoint.worker.resident import Resident
from transformer.errors import CheckpointError
from ui.store import readers, render_slots

LONG = Budget(SMALL.memory_bytes, 2)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(COMMAND)
    list(made.answers("threads", "a.pt", {}, budget=LONG))  # the template is there
    made.host = readers.Readers()
    yield made
    made.close()


def reading(workers: Workers, began: Event) -> None:
    """A run of a script that draws, and then reads a file that takes all the time it may."""
    with render_slots.turn():
        answers = workers.answers("spin", "a.pt", {}, budget=LONG)
        next(answers)  # it says that it begins
        began.set()
        with closing(answers), pytest.raises(CheckpointError, match="took more than 2 s"):
            list(answers)


def asking(workers: Workers, began: Event) -> None:
    """A run that has a text cut by an uploaded tokenizer which takes for ever."""
    with render_slots.turn():
        kept = Resident("keep", "a.model", {"kept": 1}, budget=SMALL, workers=workers)
        kept.start()
        began.set()
        with pytest.raises(Exception, match="2 s of work"):
            kept.ask({"do": "spin"})


@pytest.mark.parametrize("waiting", [reading, asking])
def test_two_who_wait_for_workers_hold_up_no_third(
    workers: Workers, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "ASK_SECONDS", 2)
    began = [Event() for _ in range(render_slots.AT_ONCE)]
    threads = [Thread(target=waiting, args=(workers, event)) for event in began]
    for thread in threads:
        thread.start()
    assert all(event.wait(20) for event in began)
    with render_slots.turn():
        pass
    assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(30)


def test_a_quick_file_keeps_its_turn(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "GLANCE_SECONDS", 60.0)
    with render_slots.turn():
        list(workers.answers("threads", "a.pt", {}, budget=LONG))
        assert render_slots._HELD.get()


def queue_page() -> None:
    """A page whose file has to wait behind two others, and then is read."""
    import streamlit as st

    from ui.store.readers import Readers

    host = Readers()
    for ahead in st.session_state["told"]:
        host.queued(ahead)


QUEUES = [([2, 2, 1], ["1 file will be"]), ([3], ["3 files will be"]), ([2, 0], []), ([0], [])]


@pytest.mark.parametrize(("told", "said"), QUEUES)
def test_the_place_in_the_queue_is_said(told: list[int], said: list[str]) -> None:
    page = AppTest.from_function(queue_page)
    page.session_state["told"] = told
    page.run()
    assert not page.exception
    assert [info.value[: len(text)] for info, text in zip(page.info, said, strict=True)] == said


def test_a_session_is_a_client_and_nobody_else_is() -> None:
    assert readers.Readers().client() is None

    def page() -> None:
        import streamlit as st

        from ui.store.readers import Readers

        st.text(str(Readers().client()))

    run = AppTest.from_function(page).run()
    assert run.text[0].value not in {"None", ""}

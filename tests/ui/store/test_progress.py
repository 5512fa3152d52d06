"""Slow work on a page: its cost is told, a bar moves, and what was stopped is not computed until it is asked for."""

import time

import pytest
from streamlit.testing.v1 import AppTest

from ui.store import cache
from ui.store.progress import name_of, paced

WORDS = "words"


def script(name: str) -> None:
    """A page with one slow value; a user who presses Stop half way does what its button does, and reruns."""
    import streamlit as st

    from ui.store.progress import STOPPED, with_progress

    st.session_state.setdefault("told", [])

    def compute(progress):  # type: ignore[no-untyped-def]
        for done in (0.25, 0.5, 1.0):
            progress(done)
            st.session_state.told.append(done)
            if done == 0.5 and st.session_state.get("impatient"):
                st.session_state.impatient = False
                st.session_state[STOPPED].add(st.session_state.stop_name)
                st.rerun()
        return 42

    found = with_progress("slow-test", ("key", name), "it_", compute, label="Waiting", begin=lambda: str)
    st.text(f"found {found}")


@pytest.fixture
def page() -> AppTest:
    cache.clear()
    return AppTest.from_function(script, args=(WORDS,), default_timeout=60)


def test_a_value_is_computed_once_and_its_bar_goes(page: AppTest) -> None:
    page.run()
    assert [text.value for text in page.text] == ["found 42"]
    assert page.session_state.told == [0.25, 0.5, 1.0]
    assert not page.button
    page.run()
    assert page.session_state.told == [0.25, 0.5, 1.0]


def test_what_was_stopped_says_so_and_waits_to_be_asked(page: AppTest) -> None:
    name = name_of("slow-test", ("key", WORDS))
    page.session_state["impatient"], page.session_state["stop_name"] = True, name
    page.run()
    assert page.session_state.told == [0.25, 0.5]
    assert page.info[0].value == "it\\_: stopped by you."
    assert [text.value for text in page.text] == ["found None"]
    page.run()
    assert page.session_state.told == [0.25, 0.5]
    page.button(key=f"go-on-{name}").click().run()
    assert [text.value for text in page.text] == ["found 42"]
    assert not page.info


def test_what_work_costs_is_told_as_expected_until_the_work_itself_tells_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine that grew busy: 9 s were expected; 2 s until the first tenth, and then 4 s for each further tenth."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    told = paced(9.0, "{:.1f} s".format)
    assert told(0.0) == "9.0 s"
    for taken, done, says in ((2, 0.1, 9), (4, 0.15, 9), (6, 0.2, 38), (18, 0.5, 38), (20, 0.6, 34.4), (30, 1.0, 30)):
        now[0] = 100.0 + taken
        assert told(done) == f"{says:.1f} s"
    slow = paced(9.0, "{:.1f} s".format)
    now[0] += 12.0
    assert slow(0.05) == "12.0 s"  # never less than what has passed

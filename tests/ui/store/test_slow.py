"""Slow work on a page: its cost is told, a bar moves, and what was stopped is not computed until it is asked for."""

import pytest
from streamlit.testing.v1 import AppTest

from ui.store import cache

WORDS = "about 9 s"


def script(seconds: str) -> None:
    """A page with one slow value; a user who presses Stop half way does what its button does, and reruns."""
    import streamlit as st

    from ui.store.slow import STOPPED, with_progress

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

    found = with_progress("slow-test", ("key", seconds), "It was stopped_.", lambda: seconds, compute)
    st.text(f"found {found}")


@pytest.fixture
def page() -> AppTest:
    cache.clear()
    return AppTest.from_function(script, args=(WORDS,))


def test_a_value_is_computed_once_and_its_bar_goes(page: AppTest) -> None:
    page.run()
    assert [text.value for text in page.text] == ["found 42"]
    assert page.session_state.told == [0.25, 0.5, 1.0]
    assert not page.button
    page.run()
    assert page.session_state.told == [0.25, 0.5, 1.0]


def test_what_was_stopped_says_so_and_waits_to_be_asked(page: AppTest) -> None:
    import hashlib

    name = "slow-test-" + hashlib.sha256(repr(("key", WORDS)).encode()).hexdigest()[:12]
    page.session_state["impatient"], page.session_state["stop_name"] = True, name
    page.run()
    assert page.session_state.told == [0.25, 0.5]
    assert page.info[0].value == "It was stopped\\_."
    assert [text.value for text in page.text] == ["found None"]
    page.run()
    assert page.session_state.told == [0.25, 0.5]
    page.button(key=f"go-on-{name}").click().run()
    assert [text.value for text in page.text] == ["found 42"]
    assert not page.info

"""What the user answered about files, kept in the session by the file's fingerprint, wherever it is brought again."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.store.source import Answers

ANSWERS = "answers"


def answers_about(fingerprint: str | None) -> Answers:
    """What the user answered about a file."""
    return tuple(sorted(st.session_state.get(ANSWERS, {}).get(fingerprint, {}).items()))


def remember(fingerprint: str | None, answers: Mapping[str, Any]) -> None:
    """Remember answers about a file in the place of earlier ones."""
    st.session_state.setdefault(ANSWERS, {})[fingerprint] = dict(answers)

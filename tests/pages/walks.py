"""Random walks over everything that can be moved on a page, and all that a visitor sees at the end of one."""

import random
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import UnknownElement

from tests.pages.opening import opened

PAGES = (
    "map",
    "translate",
    "align",
    "sequences",
    "your_model",
    "attention_steps",
    "inside_layer",
    "masks",
    "positions",
)
"""Every page whose controls are walked over."""


CHOICES = ("button_group", "selectbox", "slider", "number_input", "toggle", "text_input", "text_area", "tab", "button")
TEXTS = ("two dogs run", "a red", "", "A man rides a bicycle.\na red dog", "ACGTTGCAAGTGTCAGTTGACGTACC", "3")
TABS = {"your_model": "map"}
"""Under which key a page's tabs stand."""

NEVER = ("measure", "to-sequences", "remove", "forget-answers", "forget-all-answers")
"""Buttons that lead elsewhere, take long, or change what is no state of a page."""


def walked(page: str, seed: int, steps: int, **address: str) -> AppTest:
    """A session that begins at the page, after so many random moves."""
    chance, at = random.Random(seed), opened(page, **address)
    for _ in range(steps):
        _move(at, chance, TABS.get(page))
        assert not at.exception
    return at


def seen(at: AppTest) -> list[tuple[str, Any]]:
    """The page's elements in order: texts, tables, controls with their values, figures and components to the number."""
    return [(one.type, found) for one in at.main if (found := _content(one)) is not None]


def _move(at: AppTest, chance: random.Random, tabs: str | None) -> None:
    """Move one control of a kind that is drawn at random to a value that is, and run."""
    here = {kind: [one for one in at.main.get(kind) if _moves(one)] for kind in CHOICES}
    kind = chance.choice([kind for kind, found in here.items() if found and (kind != "tab" or tabs)])
    one = chance.choice(here[kind])
    if kind == "tab":
        at.session_state[tabs] = one.label
    elif kind == "button":
        one.click()
    else:
        one.set_value(_value(one, kind, chance))
        submit = [button for button in at.main.button if button.form_id and button.form_id == one.form_id]
        if submit:
            submit[0].click()
    at.run()


def _moves(one: Any) -> bool:
    """Whether it can be moved, and is not the answer to a question about an uploaded file."""
    key = getattr(one, "key", None) or ""
    return not getattr(one, "disabled", False) and not key.startswith((*NEVER, "ask.", "FormSubmitter"))


def _value(one: Any, kind: str, chance: random.Random) -> Any:
    if kind in {"button_group", "selectbox"}:
        return chance.choice(one.options)
    if kind == "toggle":
        return not one.value
    if kind in {"slider", "number_input"}:
        steps = round((one.max - one.min) / one.step)
        return type(one.value)(round(one.min + one.step * chance.randrange(steps + 1), 2))
    return chance.choice(TEXTS)


def _content(one: Any) -> Any:
    """What an element shows; None for what shows nothing of the state."""
    if isinstance(one, UnknownElement):
        if one.type == "plotly_chart":
            return one.proto.spec
        if one.type == "bidi_component":
            data = one.proto.WhichOneof("data")
            return data and getattr(one.proto, data)
        return None
    if one.type in {"button", "download_button", "file_uploader"}:
        return None
    value = getattr(one, "value", None)
    return value.to_json() if isinstance(value, pd.DataFrame) else repr(value)

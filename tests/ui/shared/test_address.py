"""Controls and the address: what differs from a default stands in it, and goes when the default comes back."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from ui.shared.address import whole_numbers


def script() -> None:
    import streamlit as st

    from ui.shared import address

    options = ["mean", "first", "second"]
    with address.run() as show:
        show("page")
        shown = {
            "segments": address.choice("segments", options, key="segments", text=str, default="first"),
            "list": address.choice("list", options, key="list", text=str, form="list"),
            "slider": address.whole("slider", 2, 9, 5, key="slider"),
            "number": address.whole("number", 1, 900, 70, key="number"),
            "tenths": address.tenths("tenths", 0.0, 2.0, 1.3, key="tenths"),
            "switch": address.switch("switch", True, key="switch"),
            "line": address.line("line", "two dogs", key="line"),
            "lines": address.lines("lines", "a\nb", key="lines"),
        }
    st.json(shown)


CONTROLS: dict[str, tuple[str, Any, Any, Any]] = {
    "segments": ("button_group", "first", "second", "mean"),
    "list": ("selectbox", "mean", "first", "second"),
    "slider": ("slider", 5, 7, 2),
    "number": ("number_input", 70, 900, 1),
    "tenths": ("slider", 1.3, 0.4, 2.0),
    "switch": ("toggle", True, False, False),
    "line": ("text_input", "two dogs", "one", ""),
    "lines": ("text_area", "a\nb", "c", ""),
}
"""Each control: its kind, its default, and two other values."""


def visited(**address: str) -> AppTest:
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params.update(address)
    page.run()
    assert not page.exception
    return page


def moved(page: AppTest, key: str, value: Any) -> AppTest:
    next(widget for widget in page.get(CONTROLS[key][0]) if widget.key == key).set_value(value)
    page.run()
    assert not page.exception
    return page


def address(page: AppTest) -> dict[str, str]:
    found = dict(page.query_params)
    return {name: value if isinstance(value, str) else value[0] for name, value in found.items()}


def shown(page: AppTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.json[0].value)
    return found


@pytest.mark.parametrize("key", CONTROLS)
def test_a_value_stands_in_the_address_until_the_default_comes_back(key: str) -> None:
    _, default, other, another = CONTROLS[key]
    page = visited()
    assert (address(page), shown(page)[key]) == ({}, default)
    assert address(moved(page, key, other)) == {key: str(other)}
    assert address(moved(page, key, another)) == {key: str(another)}
    assert (address(moved(page, key, default)), shown(page)[key]) == ({}, default)
    fresh = visited(**address(page))
    assert shown(fresh) == shown(page)


@pytest.mark.parametrize("key", CONTROLS)
def test_the_default_in_an_address_is_taken_out_and_another_value_is_taken(key: str) -> None:
    _, default, other, _ = CONTROLS[key]
    assert address(visited(**{key: str(default)})) == {}
    page = visited(**{key: str(other), "stays": "1"})
    assert shown(page)[key] == other
    assert address(moved(page, key, default)) == {"stays": "1"}


@pytest.mark.parametrize(
    ("text", "separator", "found"),
    [
        ("3,14", ",", (3, 14)), ("7", "-", (7,)), ("0-0-12", "-", (0, 0, 12)), ("", "-", None), ("-", "-", None),
        ("3,", ",", None), ("3,,4", ",", None), ("3,-4", ",", None), ("3,²", ",", None), ("3,٣", ",", None),
        ("1e3", ",", None), ("3-4", ",", None), ("123456789", ",", None), (" 3,4", ",", None),
    ],
)  # fmt: skip
def test_numbers_of_an_address_are_whole_or_none_at_all(text: str, separator: str, found: tuple[int, ...] | None):
    assert whole_numbers(text, separator) == found

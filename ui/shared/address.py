"""Controls of the lessons, each of which writes itself to the address in words that no translation changes.

A control takes its first value from the address, if the value is one that it could have; later it writes there what
differs from its default. "Try this" sets controls by their key in the session's state.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.texts.markdown import as_text

Width = int | Literal["stretch"]

PAGE, DRAWN = "address.page", "address.drawn"
"""What the session remembers: the page that it is on, and the keys of the controls that were drawn there."""


def enter(page: str, keep: Collection[str] = ()) -> None:
    """Begin a run of a page. Coming from another one, forget what its controls were set to, but for those of `keep`.

    Pages share keys, since a key is a short word in the address; what was chosen on one page is not meant for another.
    """
    if st.session_state.get(PAGE, page) != page:
        for key in st.session_state.pop(DRAWN, set()) - set(keep):
            st.session_state.pop(key, None)
    st.session_state[PAGE] = page


def belong_to(owner: object, *keys: str) -> None:
    """Say what controls are about, before they are drawn: about another owner they start with their defaults again.

    The first owner takes their values from the address.
    """
    name = f"{' '.join(keys)} of"
    if st.session_state.get(name, owner) != owner:
        for key in keys:
            st.session_state.pop(key, None)
            if key in st.query_params:
                del st.query_params[key]
    st.session_state[name] = owner


def choice(
    label: str,
    options: Sequence[str],
    *,
    key: str,
    text: Callable[[str], str],
    default: str | None = None,
    form: Literal["segments", "list"] = "segments",
    width: Width = 180,
    bare: bool = False,
    old: Mapping[str, str] | None = None,
    help: str | None = None,  # noqa: A002  (as the controls of Streamlit call it)
) -> str:
    """One of `options`, shown as `text` says; `default` is the first one.

    `text` gives plain text. `width` is that of a list; `bare` keeps the label for screen readers alone. `old` leads
    from words that older addresses hold to options.
    """
    first = options[0] if default is None else default
    known = {**(old or {}), **{option: option for option in options}}
    shown = {option: text(option) for option in options}  # in this run's language, whoever asks later
    _seed(key, first, lambda value: known.get(value) if known.get(value) in options else None)
    if form == "segments":
        chosen = st.segmented_control(
            label, options, required=True, format_func=lambda option: as_text(shown[option]), key=key, help=help,
            label_visibility="collapsed" if bare else "visible",
        )  # fmt: skip
    else:
        chosen = st.selectbox(label, options, format_func=shown.__getitem__, key=key, width=width, help=help)
    return _written(key, chosen, first)


def tabs(
    options: Sequence[str], *, key: str, text: Callable[[str], str], old: Mapping[str, str] | None = None
) -> tuple[str, DeltaGenerator]:
    """Which of the tabs is open (at first the first one), and the place for what it shows; the others stay empty.

    `old` leads from words that older addresses hold to options.
    """
    _drawn(key)
    labels = {text(option): option for option in options}
    known = {**(old or {}), **{option: option for option in options}}
    here = labels.get(st.session_state.get(key, ""))  # None before the first run, and after a change of language
    opened = here or known.get(st.query_params.get(key, ""), options[0])
    st.session_state[key] = text(opened)
    places = dict(zip(options, st.tabs(list(labels), key=key, on_change="rerun"), strict=True))
    return _written(key, opened, options[0]), places[opened]


def whole(label: str, low: int, high: int, default: int, *, key: str, width: Width = "stretch") -> int:
    """A whole number from `low` to `high`, on a slider while there are few."""
    _seed(key, default, lambda value: _between(_whole(value), low, high))
    if low == high:
        return low
    if high - low <= 200:
        number = st.slider(label, low, high, key=key, width=width)
    else:
        number = st.number_input(label, low, high, key=key, width=width)
    return _written(key, number, default)


def tenths(label: str, low: float, high: float, default: float, *, key: str, width: Width = "stretch") -> float:
    """A number from `low` to `high` in tenths."""
    _seed(key, default, lambda value: _between(_decimal(value), low, high))
    return _written(key, round(st.slider(label, low, high, step=0.1, key=key, width=width), 1), default)


def switch(label: str, default: bool, *, key: str) -> bool:
    """On or off."""
    _seed(key, default, lambda value: {"True": True, "False": False}.get(str(value)))
    return _written(key, st.toggle(label, key=key), default)


def line(label: str, default: str, *, key: str, width: Width = "stretch", placeholder: str | None = None) -> str:
    """A line of text; `placeholder` stands there while it is empty."""
    _seed(key, default, str)
    return _written(key, st.text_input(label, key=key, width=width, placeholder=placeholder), default)


def lines(label: str, default: str, *, key: str) -> str:
    """Several lines of text."""
    _seed(key, default, str)
    return _written(key, st.text_area(label, key=key, height=120), default)


def parameter(key: str) -> str | None:
    """What the address holds under a key that no control owns: a picked cell, a marked word, a snapshot."""
    found: str | None = st.query_params.get(key)
    return found


def set_parameter(key: str, value: str | None) -> None:
    """Put a value under a key that no control owns; None takes the key away."""
    if value is not None:
        st.query_params[key] = value
    elif key in st.query_params:
        del st.query_params[key]


def whole_numbers(text: str, separator: str) -> tuple[int, ...] | None:
    """Whole numbers of up to eight digits, apart by `separator`; None where the text is anything else."""
    found = tuple(number for part in text.split(separator) if (number := _whole(part)) is not None)
    return found if len(found) == text.count(separator) + 1 else None


def _seed(key: str, default: Any, valid: Callable[[Any], Any]) -> None:
    """Before the control is drawn: its value of this visit, else the one in the address, else the default."""
    _drawn(key)
    for value in (st.session_state.get(key), st.query_params.get(key)):
        known = None if value is None else valid(value)
        if known is not None:
            st.session_state[key] = known
            return
    st.session_state[key] = default


def _drawn(key: str) -> None:
    st.session_state.setdefault(DRAWN, set()).add(key)


def _written(key: str, value: Any, default: Any) -> Any:
    """After the control is drawn: its value in the address, unless it is the default."""
    set_parameter(key, str(value) if value != default else None)
    return value


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None


def _decimal(value: Any) -> float | None:
    text = str(value)
    return round(float(text), 1) if text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) < 9 else None


def _between(number: Any, low: Any, high: Any) -> Any:
    return number if number is not None and low <= number <= high else None

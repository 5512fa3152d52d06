"""The address is the state: what every page shows is a function of its address, and of nothing else.

**A control** is declared by one call: `choice`, `several`, `whole`, `tenths`, `hundredths`, `switch`, `line`,
`lines`. Its value is what the address holds under its `key`, if the control could have it, else `default`. What differs
from the default stands in the address, in words that no translation changes; the default itself never does. Nothing
else is needed: a control in a form, in a tab, in a popover is declared in the same way.

    heads = ["0", "1", "mean"]
    head = choice(t("translate.head"), heads, key="head", text=str, default=best_head(name))

**A default may depend on the input** (the head to show first): then it is a function of what else stands in the
address, computed once per input (`@cached`), and given to the control; the picture uses what the control returns, so
the two cannot differ. It must not depend on what the session did before: a fresh visit has to find the same.

**A parameter that no control owns** (a picked cell, a marked word, a list of interventions) is read with
`parameter(key)` and written with `set_parameter(key, text)`; None takes it away. Write words, not places in a list: a
place means something else once the sentence changes. Read it leniently, since anybody can write an address.

**A click on a component or figure** writes in its callback, which Streamlit calls before the run that it starts:

    def _open_head(picked: Picked) -> None:
        put(layer=picked.layer, head=picked.head)

`put` takes several keys at once, of controls too; never write `st.session_state` for that, nor `st.query_params`.

**What is about something** (a node of one tree, a step of one sentence) is declared with `belong_to(owner, key)` before
it is drawn: about another owner it starts with its default again.

**A lesson link** takes controls out of the page: `hide=temperature~2%2E5.scaled` leaves neither of them on it. One
stands at 2.5; the other at its default if `lock=1` refuses what the address says of it, else at what the address says.
This is checked in one place (`state.PageState.seed`), so whoever types a hidden key changes nothing.

One run writes the address at most once, at its end, so one action is one entry of the browser's history. After Back,
Forward, or a link, the address of that run wins over what the controls held. `run` is the frame around every page that
does this, and the menu leads to every page as it was left. A page that ends early calls `stop`, not `st.stop`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal, NoReturn

import streamlit as st

from heedmap.messages import say
from ui.shared.state import opened, page_state
from ui.texts import as_text, plain, t

Width = int | Literal["stretch"]

BETWEEN = "|"
"""What divides the values of a control that holds several."""


@contextmanager
def run(*keep: str) -> Iterator[Callable[..., None]]:
    """The frame of one run: takes the browser's address at its beginning, writes the new one at its end.

    It gives the function that says which page the run shows, and what a page that has just been opened is to show in
    place of what its address says. Parameters of `keep` go along from page to page.
    """
    with opened() as here:
        here.begin(*keep)
        try:
            with suppress(PageEndError):
                yield here.enter
        finally:
            here.end()


def stop() -> NoReturn:
    """Show nothing below. Unlike `st.stop`, after which nothing reaches the browser, it lets the address be written."""
    raise PageEndError


class PageEndError(Exception):
    """Ends a page, and is caught by its frame."""


def belong_to(owner: object, *keys: str) -> None:
    """Say what controls are about, before they are drawn: about another owner they start with their defaults again.

    The first owner takes their values from the address.
    """
    owners = page_state().owners
    if owners.get(keys, owner) != owner:
        put(**dict.fromkeys(keys))
    owners[keys] = owner


def _control(
    label: str,
    key: str,
    default: Any,
    valid: Callable[[Any], Any],
    draw: Callable[[Any], Any],
    *,
    among: tuple[object, ...] = (),
    said: bool = False,
    word: Callable[[Any], str] = str,
) -> Any:
    """The value of a control; it is drawn unless a link hides it, with None where the session's state has its value.

    `valid` gives None for what it cannot be, `among` is what it is chosen among, `word` how a value stands in the
    address, where the default stands only if it is `said`.
    """
    here = page_state()
    value, is_stated = here.seed(key, valid, default, among)
    if here.hides(key, label):
        return value
    return here.written(key, draw(None if is_stated else value), None if said else default, word, among)


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
    help: str | None = None,  # noqa: A002  (as the controls of Streamlit call it)
    said: bool = False,
) -> str:
    """One of `options`, shown as `text` says; `default` is the first one, which the address holds if it is `said`.

    `text` gives plain text. `width` is that of a list; `bare` keeps the label for screen readers alone.
    """
    shown = {option: say(text(option)) for option in options}  # in this run's language, whoever asks later
    common: dict[str, Any] = {"key": key, "help": help, "label_visibility": "collapsed" if bare else "visible"}

    def draw(value: str | None) -> Any:
        if form == "list":
            first = 0 if value is None else options.index(value)
            return st.selectbox(label, options, first, format_func=shown.__getitem__, width=width, **common)
        return st.segmented_control(
            label, options, default=value, required=True, format_func=lambda one: as_text(shown[one]), wrap=True,
            **common,
        )  # fmt: skip

    first, among = options[0] if default is None else default, tuple(shown.values())
    return str(_control(label, key, first, lambda one: one if one in options else None, draw, among=among, said=said))


def named(name: str, options: Sequence[str], *, key: str, **form: Any) -> str:
    """A `choice` that the catalogue calls `name`, and each of its options `name_option`."""
    return choice(t(name), options, key=key, text=lambda one: plain(f"{name}_{one}"), **form)


def several(label: str, options: Sequence[str], *, key: str, default: Sequence[str], most: int) -> list[str]:
    """Any of `options`, at most so many."""

    def valid(said: str | Sequence[str]) -> list[str] | None:
        named = said.split(BETWEEN) if isinstance(said, str) else said
        return [one for one in named if one in options][:most] or (None if named else [])

    draw = partial(st.multiselect, label, options, key=key, max_selections=most)
    return list(_control(label, key, list(default), valid, draw, among=tuple(options), word=BETWEEN.join))


def whole(label: str, low: int, high: int, default: int, *, key: str, step: int = 1, **form: Any) -> int:
    """A whole number from `low` to `high`, on a slider while there are few; a default outside becomes the nearest.

    `form` is that of Streamlit's controls: `width`, `help`.
    """
    if low == high:
        return low

    def draw(value: int | None) -> int:
        if (high - low) // step <= 200:
            return st.slider(label, low, high, value, step, key=key, **form)
        return st.number_input(label, low, high, "min" if value is None else value, step, key=key, **form)

    usual, valid = min(max(default, low), high), _between(_whole, low, high)
    return int(_control(label, key, usual, valid, draw, among=(low, high, step)))


def decimal(label: str, low: float, high: float, default: float, *, key: str, digits: int, **form: Any) -> float:
    """A number from `low` to `high` with so many digits after the point."""

    def read(value: Any) -> float | None:
        text = str(value)
        is_one = text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) < 9
        return round(float(text), digits) if is_one else None

    def draw(value: float | None) -> float:
        return round(st.slider(label, low, high, value, 10.0**-digits, key=key, **form), digits)

    usual, valid = min(max(default, low), high), _between(read, low, high)
    return float(_control(label, key, usual, valid, draw, among=(low, high)))


tenths, hundredths = partial(decimal, digits=1), partial(decimal, digits=2)


def switch(label: str, default: bool, *, key: str, **form: Any) -> bool:
    """On or off."""
    return bool(
        _control(
            label, key, default, lambda said: {"true": True, "false": False}.get(str(said).lower()),
            lambda value: st.toggle(label, bool(value), key=key, **form),
        )
    )  # fmt: skip


def line(label: str, default: str, *, key: str, bare: bool = False, **form: Any) -> str:
    """A line of text; `bare` keeps the label for screen readers alone. `form`: `width`, `placeholder`, `help`."""

    def draw(value: str | None) -> str:
        return st.text_input(
            label, value or "", key=key, label_visibility="collapsed" if bare else "visible", **form
        )  # fmt: skip

    return str(_control(label, key, default, str, draw))


def lines(
    label: str,
    default: str,
    *,
    key: str,
    height: int | Literal["content"] = 120,
    longest: int | None = None,
    most: int | None = None,
    bare: bool = False,
    **form: Any,
) -> str:
    """Several lines of text, at most `most` characters; a text of more than `longest` stays out of the address."""

    def draw(value: str | None) -> str:
        text = st.text_area(
            label, value or "", key=key, height=height, max_chars=most,
            label_visibility="collapsed" if bare else "visible", **form,
        )  # fmt: skip
        keep_out(key, longest is not None and len(text) > longest)
        return text

    return str(_control(label, key, default, str, draw))


def keep_out(key: str, is_out: bool) -> None:
    """Whether a key's value is too long for an address."""
    (page_state().kept_out.add if is_out else page_state().kept_out.discard)(key)


def parameter(key: str) -> str | None:
    """What the address holds under a key: that of a picked cell, a marked word, a snapshot, which no control owns."""
    return page_state().values.get(key)


def fixed(*keys: str) -> bool:
    """Whether a lesson link gives one of these keys its value: nothing else sets it, so nothing should offer to."""
    return not page_state().fixed.isdisjoint(keys)


def set_parameter(key: str, value: str | None) -> None:
    """Put a value under a key; None takes the key away."""
    put(**{key: value})


def put(**values: object) -> None:
    """Put values under their keys, of controls too: they show them in the next run. None takes a key away."""
    for key, value in values.items():
        page_state().put(key, None if value is None else str(value))


def whole_numbers(text: str | None, count: int = 0, *, separator: str = "-") -> tuple[int, ...]:
    """Whole numbers of up to eight digits, so many where that is said; none where the text is anything else."""
    parts = (text or "").split(separator)
    found = tuple(number for part in parts if (number := _whole(part)) is not None)
    return found if len(found) == len(parts) and count in (0, len(found)) else ()


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None


def _between(read: Callable[[Any], Any], low: float, high: float) -> Callable[[Any], Any]:
    """What `read` finds, if it lies between."""
    return lambda value: number if (number := read(value)) is not None and low <= number <= high else None

"""The address is the state: what every page shows is a function of its address, and of nothing else.

**A control** is declared by one call: `choice`, `several`, `tabs`, `whole`, `tenths`, `hundredths`, `switch`, `line`,
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
This is checked here, in one place (`PageState.seed`), so whoever types a hidden key changes nothing.

One run writes the address at most once, at its end, so one action is one entry of the browser's history. After Back,
Forward, or a link, the address of that run wins over what the controls held. `run` is the frame around every page that
does this, and the menu leads to every page as it was left. A page that ends early calls `stop`, not `st.stop`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal, NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.markdown import as_text
from ui.shared.page_state import opened, page_state

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
        here.begin(keep)
        try:
            with suppress(_PageEndError):
                yield lambda page, brought=None: here.enter(page, keep, brought)
        finally:
            here.end()


@contextmanager
def run_of_part(keys: Collection[str] = ()) -> Iterator[None]:
    """The frame of a part of the open page (`ui.shared.part`), within the page's run or in a run of its own.

    What concerns the rest of the page too makes all of it be drawn instead: other keys than `keys`, if there are any.
    """
    with opened() as here:
        alone = not here.run.is_under_way
        if alone and not here.go_on(keys):
            st.rerun()
        before = here.run.is_in_part, here.run.is_alone
        here.run.is_in_part, here.run.is_alone = True, alone or here.run.is_alone
        try:
            with suppress(_PageEndError):
                yield
        finally:
            here.run.is_in_part, here.run.is_alone = before
            if alone:
                here.end()


def stop() -> NoReturn:
    """Show nothing below. Unlike `st.stop`, after which nothing reaches the browser, it lets the address be written."""
    raise _PageEndError


class _PageEndError(Exception):
    """Ends a page, and is caught by its frame."""


def left(page: str) -> dict[str, str] | None:
    """The address that a page was left with in this session; None for one that was not visited."""
    return page_state().left.get(page)


def belong_to(owner: object, *keys: str) -> None:
    """Say what controls are about, before they are drawn: about another owner they start with their defaults again.

    The first owner takes their values from the address.
    """
    page_state().belong_to(owner, keys)


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
    disabled: bool = False,
    said: bool = False,
) -> str:
    """One of `options`, shown as `text` says; `default` is the first one, which the address holds if it is `said`.

    `text` gives plain text. `width` is that of a list; `bare` keeps the label for screen readers alone. `old` leads
    from words that older addresses hold to options.
    """
    first = options[0] if default is None else default
    known = {**(old or {}), **{option: option for option in options}}
    shown = {option: text(option) for option in options}  # in this run's language, whoever asks later
    here = page_state()
    value, told = here.seed(key, lambda word: _one_of(options, known.get(word)), first, tuple(shown.values()))
    if here.hides(key, label):
        return str(value)
    if form == "segments":
        chosen = st.segmented_control(
            label, options, default=None if told else value, required=True, key=key, help=help, disabled=disabled,
            format_func=lambda option: as_text(shown[option]), label_visibility="collapsed" if bare else "visible",
            wrap=True,
        )  # fmt: skip
    else:
        chosen = st.selectbox(
            label, options, 0 if told else options.index(value), key=key, width=width, help=help, disabled=disabled,
            format_func=shown.__getitem__, label_visibility="collapsed" if bare else "visible",
        )  # fmt: skip
    return here.written(key, chosen, None if said else first)


def several(label: str, options: Sequence[str], *, key: str, default: Sequence[str], most: int) -> list[str]:
    """Any of `options`, at most so many."""
    here = page_state()

    def valid(said: str | Sequence[str]) -> list[str] | None:
        named = said.split(BETWEEN) if isinstance(said, str) else said
        return [one for one in named if one in options][:most] or (None if named else [])

    value, told = here.seed(key, valid, list(default), tuple(options))
    if here.hides(key, label):
        return list(value)
    chosen = st.multiselect(label, options, None if told else value, key=key, max_selections=most)
    return here.written(key, chosen, list(default), BETWEEN.join(chosen))


def tabs(options: Sequence[str], *, key: str, text: Callable[[str], str]) -> tuple[str, DeltaGenerator]:
    """Which of the tabs is open (at first the first one), and the place for what it shows; the others stay empty."""
    first = options[0]
    labels = {text(option): option for option in options}
    texts = {option: label for label, option in labels.items()}
    here = page_state()

    def valid(value: str) -> str | None:
        return texts.get(value, value if value in labels else None)

    label, _ = here.seed(key, valid, texts[first], tuple(labels), always=True)
    opened = labels[label]
    if here.hides(key, " · ".join(labels)):
        return opened, st.container()
    places = dict(zip(options, st.tabs(list(labels), key=key, on_change="rerun"), strict=True))
    here.written(key, texts[opened], texts[first], opened)
    return opened, places[opened]


def whole(
    label: str,
    low: int,
    high: int,
    default: int,
    *,
    key: str,
    step: int = 1,
    width: Width = "stretch",
    help: str | None = None,  # noqa: A002
) -> int:
    """A whole number from `low` to `high`, on a slider while there are few; a default outside becomes the nearest."""
    usual = min(max(default, low), high)
    if low == high:
        return low
    here = page_state()
    value, told = here.seed(key, lambda word: _between(_whole(word), low, high), usual, (low, high, step))
    if here.hides(key, label):
        return int(value)
    if (high - low) // step <= 200:
        number = st.slider(label, low, high, None if told else value, step, key=key, width=width, help=help)
    else:
        number = st.number_input(label, low, high, "min" if told else value, step, key=key, width=width, help=help)
    return here.written(key, number, usual)


def decimal(
    label: str,
    low: float,
    high: float,
    default: float,
    *,
    key: str,
    digits: int,
    width: Width = "stretch",
    help: str | None = None,  # noqa: A002
) -> float:
    """A number from `low` to `high` with so many digits after the point."""
    here = page_state()
    usual = min(max(default, low), high)
    value, told = here.seed(key, lambda word: _between(_decimal(word, digits), low, high), usual, (low, high))
    if here.hides(key, label):
        return float(value)
    number = st.slider(label, low, high, None if told else value, 10.0**-digits, key=key, width=width, help=help)
    return here.written(key, round(number, digits), usual)


tenths, hundredths = partial(decimal, digits=1), partial(decimal, digits=2)


def switch(
    label: str,
    default: bool,
    *,
    key: str,
    help: str | None = None,  # noqa: A002
) -> bool:
    """On or off."""
    here = page_state()
    value, told = here.seed(key, lambda word: {"true": True, "false": False}.get(str(word).lower()), default)
    if here.hides(key, label):
        return bool(value)
    return here.written(key, st.toggle(label, value and not told, key=key, help=help), default)


def line(
    label: str,
    default: str,
    *,
    key: str,
    width: Width = "stretch",
    placeholder: str | None = None,
    help: str | None = None,  # noqa: A002
    bare: bool = False,
) -> str:
    """A line of text; `placeholder` stands there while it is empty. `bare` keeps the label for screen readers alone."""
    here = page_state()
    value, told = here.seed(key, str, default)
    if here.hides(key, label):
        return str(value)
    text = st.text_input(
        label, "" if told else value, key=key, width=width, placeholder=placeholder, help=help,
        label_visibility="collapsed" if bare else "visible",
    )  # fmt: skip
    return here.written(key, text, default)


def lines(
    label: str,
    default: str,
    *,
    key: str,
    height: int | Literal["content"] = 120,
    longest: int | None = None,
    most: int | None = None,
    help: str | None = None,  # noqa: A002
    bare: bool = False,
) -> str:
    """Several lines of text, at most `most` characters; a text of more than `longest` stays out of the address."""
    here = page_state()
    value, told = here.seed(key, str, default)
    if here.hides(key, label):
        return str(value)
    text = st.text_area(
        label, "" if told else value, key=key, height=height, max_chars=most, help=help,
        label_visibility="collapsed" if bare else "visible",
    )  # fmt: skip
    keep_out(key, longest is not None and len(text) > longest)
    return here.written(key, text, default)


def keep_out(key: str, is_out: bool) -> None:
    """Whether a key's value is too long for an address."""
    (page_state().kept_out.add if is_out else page_state().kept_out.discard)(key)


def browser_owned(*keys: str) -> dict[str, Any]:
    """Say that scripts of the page own these keys: they write them behind # in the address, without a run.

    `parameter` gives what a link said of them, or what a view told that the server draws. It gives what those scripts
    have to know: which arrival at the page this is, and what was known of the keys then. With another arrival, they
    take it; in between, they alone know.
    """
    return page_state().own(keys)


def renamed(**old: str) -> None:
    """Take what older addresses call otherwise, before it is read: new keys by their old ones."""
    for before, key in old.items():
        value = parameter(before)
        if value is not None:
            put(**{before: None, key: value if parameter(key) is None else parameter(key)})


def parameter(key: str) -> str | None:
    """What the address holds under a key: that of a picked cell, a marked word, a snapshot, which no control owns."""
    return page_state().values.get(key)


def set_parameter(key: str, value: str | None) -> None:
    """Put a value under a key; None takes the key away."""
    put(**{key: value})


def put(**values: object) -> None:
    """Put values under their keys, of controls too: they show them in the next run. None takes a key away."""
    for key, value in values.items():
        page_state().put(key, None if value is None else str(value))


def whole_numbers(text: str, separator: str) -> tuple[int, ...] | None:
    """Whole numbers of up to eight digits, apart by `separator`; None where the text is anything else."""
    found = tuple(number for part in text.split(separator) if (number := _whole(part)) is not None)
    return found if len(found) == text.count(separator) + 1 else None


def _one_of(options: Sequence[str], value: str | None) -> str | None:
    return value if value in options else None


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else None


def _decimal(value: Any, digits: int) -> float | None:
    text = str(value)
    if not (text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) < 9):
        return None
    return round(float(text), digits)


def _between(number: Any, low: Any, high: Any) -> Any:
    return number if number is not None and low <= number <= high else None

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
This is checked here, in one place (`PageState.seed`), so whoever types a hidden key changes nothing.

One run writes the address at most once, at its end, so one action is one entry of the browser's history. After Back,
Forward, or a link, the address of that run wins over what the controls held. `run` is the frame around every page that
does this, and the menu leads to every page as it was left. A page that ends early calls `stop`, not `st.stop`.

What Streamlit 1.67 does, read in its sources: a run brings the query string that the browser had when it asked for the
run, and says whether Back or Forward asked. Every write to `st.query_params` sends a message, for each of which the
browser makes an entry of its history, unless its address is that already, or the run is one of Back or Forward: then it
changes the present entry. Values of controls come along with every run, with those of Back and Forward too.

| the run is by | known by                                  | its values    | its controls         | the address is |
|---------------|-------------------------------------------|---------------|----------------------|----------------|
| `first`       | a session begins                          | the address's | follow, but the sent | written if new |
| `history`     | Streamlit says so                         | the address's | follow               | written        |
| `link`        | another page, or an address not of ours   | the address's | follow               | written        |
| `own`         | an address that this page wrote (or late) | as they were  | those moved win      | written if new |

Values of keys that scripts of the page own (`own`) stand behind # in the browser: what is known of them here is what a
link said, or what a view told that the server draws.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn
from urllib.parse import unquote

import streamlit as st

from ui.components.shared.mounting import REPORTED
from ui.patches import session
from ui.texts import as_text, plain, t

Width = int | Literal["stretch"]

BETWEEN = "|"
"""What divides the values of a control that holds several."""

STATE = "address.state"
"""Where a session keeps it."""

HIDE, LOCK = "hide", "lock"
"""The query parameters of a lesson link: controls that it takes out of the page, and whether their keys are refused."""

REMEMBERED = 200
"""So many addresses of a page are known again as our own, when the browser was slower than its user."""


class ControlValue(NamedTuple):
    """What a control showed at the end of a run, and among what: its labels or its range."""

    value: object
    among: tuple[object, ...]


@dataclass
class ScriptRun:
    """One run of the script, or of a part of its page."""

    by: Literal["first", "history", "link", "own"]
    address: dict[str, str]
    brought: frozenset[str] = frozenset()
    """Keys of controls whose values a browser sent that knows the page from another server."""
    is_under_way: bool = True
    is_in_part: bool = False
    is_alone: bool = False
    """Whether a part of the page runs without the rest."""
    is_whole: bool = False
    """Whether the page is drawn without parts."""


class PageState:
    """The state of the open page: `values`, by key, as the address holds them, and `kept_out` of it.

    A control whose value is not what it showed last was moved by the user; any other follows the address.
    """

    def __init__(self) -> None:
        self.page: str | None = None
        self.values: dict[str, str] = {}
        self.kept_out: set[str] = set()
        self.owned: frozenset[str] = frozenset()
        self.left: dict[str, dict[str, str]] = {}
        self.marked: str | None = None
        self.kept: tuple[str, ...] = ()
        """The keys that go along from page to page, where the browser's address says nothing of them."""
        self.shown: dict[str, ControlValue] = {}
        """What the page's controls showed last, by key; those `of_part` belong to a part of it."""
        self.of_part, self.clicked = set[str](), set[str]()
        """`clicked` are the keys that a click has put since the last run."""
        self.owners: dict[tuple[str, ...], object] = {}
        self.labels: dict[str, str] = {}
        """What the controls of the page are called, by key."""
        self.arrival, self._brought = 0, dict[str, str]()
        self.run = ScriptRun("first", {}, is_under_way=False)
        self._ours: deque[dict[str, str]] = deque(maxlen=REMEMBERED)
        self.wants_whole = False
        """Whether the page's next run is to draw all of the page by itself (`is_whole`), without parts."""

    def begin(self, *keep: str) -> None:
        """Take the address that the browser came with, if it is none that this page wrote, or if Back brought it."""
        arrived, self.kept = dict(st.query_params.to_dict()), keep
        is_first, is_back = self.page is None and not self._ours, session.came_by_history()
        if is_back:
            self.run = ScriptRun("history", arrived)
        elif is_first:
            self.run = ScriptRun("first", arrived, session.brought())
        else:
            self.run = ScriptRun("own" if arrived in self._ours else "link", arrived)
        self.run.is_whole, self.wants_whole = self.wants_whole, False
        self._hear()
        if self.run.by != "own":
            self._arrive()

    def go_on(self, keys: Collection[str] = ()) -> bool:
        """Begin a run of a part of the open page; False where it concerns the rest of the page too.

        So it does where the browser's address is none that this page wrote, or a click in the part has put the value of
        a control outside; of a part that alone follows `keys`, any other value.
        """
        arrived = dict(st.query_params.to_dict())
        elsewhere = self.clicked.difference(keys) if keys else (self.clicked & self.shown.keys()) - self.of_part
        if elsewhere or arrived not in self._ours:
            return False
        self.run = ScriptRun("own", arrived)
        self._hear()
        return True

    def enter(self, page: str, brought: Mapping[str, str] | None = None) -> None:
        """Show a page: coming from another one, by its address alone, or by what is `brought` in its place."""
        if self.page != page:
            self._ours.clear()
            self.labels.clear()
            self._arrive()
            self.marked = None
            if self.page is not None and self.run.by == "own":
                self.run.by = "link"
            if brought is not None and self.run.by != "history":
                self.values = {**self._along(), **brought}
        self.page = page

    def end(self) -> None:
        """Write the address, if it is not what the browser came with, or may not be what stands there by now.

        A run that was under way when Back or a link asked for this one may have written its own address since.
        """
        self.run.is_under_way = False
        self.clicked.clear()
        address = {key: value for key, value in self.values.items() if key not in self.kept_out}
        if self.page is not None:
            self.left[self.page] = address
        self._ours.append(address)
        if address != self.run.address or self.run.by in {"history", "link"}:
            st.query_params.from_dict(address)

    def put(self, key: str, value: str | None) -> None:
        """A value under a key, or none; whatever its control holds in this run is out of date."""
        self.clicked.add(key)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        if key in st.session_state:
            self.shown[key] = ControlValue(st.session_state[key], self.shown.get(key, ControlValue(None, ())).among)

    def own(self, *keys: str) -> dict[str, Any]:
        """Say that scripts of the page own these keys: they write them behind # in the address, without a run.

        `values` has what a link said of them, or what a view told that the server draws. It gives what those scripts
        have to know: which arrival at the page this is, as this session counts them, and what was known of the keys
        then. With a later arrival, they take it; in between, they alone know. What nobody owned before is news to the
        browser.
        """
        if not self.owned.issuperset(keys):
            self.arrival += 1
            self._brought = {key: value for key, value in self.values.items() if key in keys}
        self.owned |= frozenset(keys)
        self.kept_out |= self.owned
        return {"session": session.session_id(), "arrival": self.arrival, "values": dict(self._brought)}

    def seed(
        self, key: str, valid: Callable[[Any], Any], default: Any, among: tuple[object, ...] = ()
    ) -> tuple[Any, bool]:
        """Before a control is drawn: the value that it shows, and whether the session's state says so.

        `valid` gives None for a value that the control cannot have. The state says only what is news to the browser:
        told in every run, a control would undo what its user does meanwhile. Where it does not, the
        value has to be the control's own initial value, since Streamlit may take it for a new control.
        """
        is_fresh = self.run.by != "own"
        (self.of_part.add if self.run.is_in_part else self.of_part.discard)(key)
        self.kept_out.discard(key)
        self.owned -= {key}
        said = self._said(key)
        value = None if said is None else valid(said)
        last = self.shown.get(key)
        if key in self.hidden:
            return default if value is None else value, False
        current = st.session_state.get(key)
        if current is not None and not is_fresh and (last is None or current != last.value):
            moved = valid(current)
            value = value if moved is None else moved
        value = default if value is None else value
        news = current is None or current != value or last is None or last.among != among
        # A run that a script asked for itself begins before the browser has answered: what was told is news still.
        is_stated = (is_fresh or news or session.is_unanswered(key)) and key not in self.run.brought
        if is_stated:
            st.session_state[key] = value
        return value, is_stated

    @property
    def hidden(self) -> dict[str, str | None]:
        """The controls that a lesson link takes out of the page, and the values that it gives them."""
        listed = [one.partition("~") for one in self.values.get(HIDE, "").split(".") if one]
        return {key: unquote(value) if pins else None for key, pins, value in listed}

    def hides(self, key: str, label: str) -> bool:
        """After a control is seeded: whether a link takes it out of the page. Any other is known by its label."""
        self.labels[key] = label
        return key in self.hidden

    def _said(self, key: str) -> str | None:
        """What the address says of a control; a link's own value, or a locked link, counts more than its key."""
        hidden = self.hidden
        if key in hidden and (hidden[key] is not None or LOCK in self.values):
            self.values.pop(key, None)
            return hidden[key]
        return self.values.get(key)

    def written(
        self, key: str, value: Any, default: Any, word: Callable[[Any], str] = str, among: tuple[object, ...] = ()
    ) -> Any:
        """After a control is drawn (a run may end before that): its value stands here, as its `word`, but no default.

        None as the default lets every value stand here.
        """
        self.shown[key] = ControlValue(value, among)
        if value == default:
            self.values.pop(key, None)
        else:
            self.values[key] = word(value)
        return value

    def _hear(self) -> None:
        """Take what scripts of the page told of the keys that they own."""
        reported: Mapping[str, str] | None = st.session_state.pop(REPORTED, None)
        if reported is not None:
            rest = {key: value for key, value in self.values.items() if key not in self.owned}
            self.values = {**rest, **{key: str(value) for key, value in reported.items() if key in self.owned}}

    def _arrive(self) -> None:
        """The browser's address is the state; what is `kept` goes along where it says nothing."""
        self.values = {**(self._along() if self.run.by != "history" else {}), **self.run.address}
        self.owned = frozenset()
        self._ours.append(self.run.address)
        self.owners.clear()
        self.kept_out.clear()

    def _along(self) -> dict[str, str]:
        return {key: self.values[key] for key in self.kept if key in self.values}


_OPEN: ContextVar[PageState | None] = ContextVar("page state", default=None)
"""The state that `opened` has looked up."""


@contextmanager
def opened() -> Iterator[PageState]:
    """Inside, this session's state is looked up once: a page needs it a hundred times; Streamlit's is slow."""
    token = _OPEN.set(page_state())
    try:
        yield page_state()
    finally:
        _OPEN.reset(token)


def page_state() -> PageState:
    """This session's state of the open page."""
    known = _OPEN.get()
    if known is not None:
        return known
    if STATE not in st.session_state:
        st.session_state[STATE] = PageState()
    found: PageState = st.session_state[STATE]
    return found


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
    shown = {option: text(option) for option in options}  # in this run's language, whoever asks later
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

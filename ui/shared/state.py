"""The state of the open page, as `ui.shared.address` keeps it for each session.

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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import streamlit as st

from ui.components.shared.mounting import REPORTED
from ui.patches import session

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

    @property
    def fixed(self) -> frozenset[str]:
        """The controls whose value a lesson link gives: nothing else sets them."""
        locked = LOCK in self.values
        return frozenset(key for key, value in self.hidden.items() if locked or value is not None)

    def hides(self, key: str, label: str) -> bool:
        """After a control is seeded: whether a link takes it out of the page. Any other is known by its label."""
        self.labels[key] = label
        return key in self.hidden

    def _said(self, key: str) -> str | None:
        """What the address says of a control; a link's own value, or a locked link, counts more than its key."""
        if key in self.fixed:
            self.values.pop(key, None)
            return self.hidden[key]
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

"""One session's visit of the pages: the state of the page that is open, and how it and the browser's address agree.

What Streamlit 1.67 does, read in its sources: a run brings the query string that the browser had when it asked for the
run, and says whether Back or Forward asked. Every write to `st.query_params` sends a message, for each of which the
browser makes an entry of its history, unless its address is that already, or the run is one of Back or Forward: then it
changes the present entry. Values of controls come along with every run, with those of Back and Forward too.

Scripts of a page may write keys of the address too (`held` ones): `ui/history.js` has every run bring what they wrote.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state import get_session_state
from streamlit.runtime.state.common import user_key_from_element_id

VISIT = "address.visit"
"""Where a session keeps its visit."""

REMEMBERED = 200
"""So many addresses of a page are known again as our own, when the browser was slower than its user."""


class Shown(NamedTuple):
    """What a control showed at the end of a run, and among what: its labels or its range."""

    value: object
    among: tuple[object, ...]


class Visit:
    """The state of the open page (`values`, by key, as the address holds it) and what its controls showed last.

    A control whose value is not what it showed last was moved by the user; any other follows the address.
    """

    def __init__(self) -> None:
        self.page: str | None = None
        self.values: dict[str, str] = {}
        self.left: dict[str, dict[str, str]] = {}
        self._arrived: dict[str, str] | None = None
        self._fresh = True
        self._linked = self._back = False
        self._shown: dict[str, Shown] = {}
        self._seeded: dict[str, Shown] = {}
        self._kept_out: set[str] = set()
        self._ours: deque[dict[str, str]] = deque(maxlen=REMEMBERED)
        self._owners: dict[tuple[str, ...], object] = {}
        self._decided: set[tuple[str | None, str]] = set()
        self._brought: frozenset[str] = frozenset()
        self._put: set[str] = set()
        self._of_part: set[str] = set()
        self._held: set[str] = set()
        self.arrival = 0
        self.brought_by_arrival: dict[str, str] = {}
        self.is_under_way = self.is_in_part = self.is_alone = False
        self.is_whole = self._wants_whole = False

    def begin(self, keep: Sequence[str]) -> None:
        """Take the address that the browser came with, if it is none that this page wrote, or if Back brought it."""
        self.is_under_way = True
        self.is_whole, self._wants_whole = self._wants_whole, False
        first, self._back = self._arrived is None, came_by_history()
        self._brought = brought() if first and not self._back else frozenset()
        self._arrived = dict(st.query_params.to_dict())
        self._fresh = self._linked = False
        if first or self._back or not self._is_ours(self._arrived):
            self._linked = not first and not self._back
            self._arrive(keep)
        else:
            self._take_held(self._arrived)
        self._held.clear()

    def go_on(self, keys: Collection[str] = ()) -> bool:
        """Begin a run of a part of the open page; False where it concerns the rest of the page too.

        So it does where the browser's address is none that this page wrote, or a click in the part has put the value of
        a control outside; of a part that alone follows `keys`, any other value.
        """
        arrived = dict(st.query_params.to_dict())
        elsewhere = self._put.difference(keys) if keys else (self._put & self._shown.keys()) - self._of_part
        if elsewhere or not self._is_ours(arrived):
            return False
        self.is_under_way, self._arrived = True, arrived
        self._fresh = self._linked = self._back = False
        self._take_held(arrived)
        return True

    def want_whole(self) -> None:
        """Have the page's next run draw all of the page by itself (`is_whole`), without parts."""
        self._wants_whole = True

    def enter(self, page: str, keep: Sequence[str]) -> None:
        """Show a page: coming from another one, by its address alone."""
        if self.page != page:
            self._ours.clear()
            self._arrive(keep)
            self._linked = self.page is not None
        self.page = page

    def end(self) -> None:
        """Write the address, if it is not what the browser came with, or may not be what stands there by now.

        A run that was under way when Back or a link asked for this one may have written its own address since.
        """
        self.is_under_way = False
        self._put.clear()
        address = {key: value for key, value in self.values.items() if key not in self._kept_out}
        if self.page is not None:
            self.left[self.page] = address
        self._ours.append(address)
        if address != self._arrived or self._linked or self._back:
            st.query_params.from_dict(address)

    def belong_to(self, owner: object, keys: tuple[str, ...]) -> None:
        """See `address.belong_to`."""
        if self._owners.get(keys, owner) != owner:
            for key in keys:
                self.put(key, None)
        self._owners[keys] = owner

    def suggest(self, key: str, value: str) -> None:
        """See `address.suggest`."""
        if key not in self.values and (self.page, key) not in self._decided and self.left and not self._back:
            self.values[key] = value

    def is_decided(self, page: str, key: str) -> bool:
        """Whether a page has drawn a control since `undecide`."""
        return (page, key) in self._decided

    def undecide(self, key: str) -> None:
        """Let a suggestion for this key count again on every page."""
        self._decided = {(page, known) for page, known in self._decided if known != key}

    def put(self, key: str, value: str | None) -> None:
        """A value under a key, or none; whatever its control holds in this run is out of date."""
        self._put.add(key)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        if key in st.session_state:
            self._shown[key] = Shown(st.session_state[key], self._shown.get(key, Shown(None, ())).among)

    def hold(self, keys: Collection[str]) -> None:
        """See `address.held`."""
        self._held.update(keys)

    def keep_out(self, key: str, is_out: bool) -> None:
        """Whether a key's value is too long for an address."""
        (self._kept_out.add if is_out else self._kept_out.discard)(key)

    def seed(
        self,
        key: str,
        valid: Callable[[Any], Any],
        default: Any,
        among: tuple[object, ...] = (),
        *,
        always: bool = False,
    ) -> tuple[Any, bool]:
        """Before a control is drawn: the value that it shows, and whether the session's state says so.

        `valid` gives None for a value that the control cannot have. The state says only what is news to the browser
        (unless `always`): told in every run, a control would undo what its user does meanwhile. Where it does not, the
        value has to be the control's own initial value, since Streamlit may take it for a new control.

        The first run of a session may be a later one of its browser, whose server was replaced: what its controls hold
        is what the address says, or was moved since, and it is left to them.
        """
        (self._of_part.add if self.is_in_part else self._of_part.discard)(key)
        said = self.values.get(key)
        value = None if said is None else valid(said)
        last = self._shown.get(key)
        held = st.session_state.get(key)
        left_alone = not self._fresh or (always and key in self._brought)
        if held is not None and left_alone and (last is None or held != last.value):
            moved = valid(held)
            value = value if moved is None else moved
        value = default if value is None else value
        news = held is None or held != value or last is None or last.among != among
        # A run that a script asked for itself begins before the browser has answered: what was told is news still.
        told = always or self._fresh or news or get_session_state().is_new_state_value(key)
        told = told and (always or key not in self._brought)
        if told:
            st.session_state[key] = value
        self._seeded[key] = Shown(value, among)  # shown once it is drawn: a run may end before that
        self._decided.add((self.page, key))
        return value, told

    def written(self, key: str, value: Any, default: Any, word: str | None = None) -> Any:
        """After a control is drawn: its value (as `word`, if the address has another) stands here, but no default.

        None as the default lets every value stand here.
        """
        self._shown[key] = self._seeded[key]._replace(value=value)
        if value == default:
            self.values.pop(key, None)
        else:
            self.values[key] = str(value) if word is None else word
        return value

    def _is_ours(self, arrived: Mapping[str, str]) -> bool:
        """Whether this page wrote an address, but for what scripts of the page write there."""
        return any(_without(arrived, self._held) == _without(one, self._held) for one in self._ours)

    def _take_held(self, arrived: Mapping[str, str]) -> None:
        """Take what scripts of the page have written; any other value is as this page wrote it."""
        if self._held:
            there = {key: value for key, value in arrived.items() if key in self._held or key in self.values}
            self.values = {**there, **_without(self.values, self._held)}

    def _arrive(self, keep: Sequence[str]) -> None:
        """The browser's address is the state; `keep` goes along where it says nothing."""
        arrived = self._arrived or {}
        kept = {key: self.values[key] for key in keep if key in self.values and not self._back}
        self.values = {**kept, **arrived}
        self.arrival += 1
        self.brought_by_arrival = dict(self.values)
        self._ours.append(arrived)
        self._fresh = True
        self._owners.clear()
        self._kept_out.clear()


_OPEN: ContextVar[Visit | None] = ContextVar("visit", default=None)
"""The visit that `opened` has looked up."""


@contextmanager
def opened() -> Iterator[Visit]:
    """Inside, this session's visit is looked up once: a page needs it a hundred times; Streamlit's state is slow."""
    token = _OPEN.set(visit())
    try:
        yield visit()
    finally:
        _OPEN.reset(token)


def visit() -> Visit:
    """This session's visit."""
    known = _OPEN.get()
    if known is not None:
        return known
    if VISIT not in st.session_state:
        st.session_state[VISIT] = Visit()
    found: Visit = st.session_state[VISIT]
    return found


def brought() -> frozenset[str]:
    """Keys of the controls whose values the browser sent with this run."""
    keys = (user_key_from_element_id(state.id) for state in get_session_state().get_widget_states())
    return frozenset(key for key in keys if key is not None)


def _without(address: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: value for key, value in address.items() if key not in keys}


def came_by_history() -> bool:
    """Whether Back or Forward asked for this run."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation

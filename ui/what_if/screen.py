"""What this page does for every kind of model: what is changed, the board of heads, and the map of the chosen one.

A kind says what it reads, what a run of it is under changes, and how its answer is shown before and after.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from heedmap import Checkpoint, Record
from heedmap.checkpoint.checkpoint import ChangedExample
from heedmap.errors import HeedmapError
from heedmap.runs.measures.importance import WHOLE, mean_against_zero
from ui.shared import address, controls, files
from ui.shared import changes as changes_
from ui.shared.changes import CHANGES, DONOR, OFF, Changes, Group
from ui.shared.controls import MEAN, Selection
from ui.shared.files import Provenance
from ui.shared.heads import importance
from ui.shared.part import part
from ui.shared.sequence import POOLING
from ui.store import store
from ui.store.refs import Revision
from ui.texts import as_text, language, said, t
from ui.what_if import below

OPEN: Final = "try-this"
"""Whether the list of changes worth trying is open, in the session's state."""

SHOWN = 3
"""Changes of that list."""

WAY: Final = "off"
"""The query parameter of what new switches write; what stands in the address is done as it stands there."""


class Places(NamedTuple):
    """Where a kind shows its answer: above and below what is changed, beside the board, and below both."""

    above: DeltaGenerator
    below: DeltaGenerator
    effects: DeltaGenerator
    steps: DeltaGenerator


@dataclass(frozen=True)
class Screen(ABC):
    """One kind of model with what it reads. It holds plain values alone, since a part of the page keeps it."""

    name: str
    text: str

    hiding: ClassVar[str] = "token_for_nobody"
    """The text of the button that hides the position of a key from everybody."""

    text_key: ClassVar[str] = "text"
    """The query parameter of what is read."""

    has_donor: ClassVar[bool] = False
    """Whether another text may stand beside it, whose attention is put in."""

    widths: ClassVar[tuple[int, int]] = (2, 3)
    """Of the board and the answer."""

    @classmethod
    @abstractmethod
    def asked(cls, checkpoint: Checkpoint) -> "Screen":
        """The form in which a text is typed, and what stands in it.

        Raises:
            HeedmapError: it cannot be read.
        """

    @abstractmethod
    def begin(self, checkpoint: Checkpoint) -> None:
        """Run what was asked for, unchanged, and say what has to be known of it.

        Raises:
            HeedmapError: it cannot be run.
        """

    @abstractmethod
    def run(self, changes: Changes) -> Any:
        """The run of the text under changes, which has a record; looked up where it was made before.

        Raises:
            InputError: a change does not fit.
        """

    @abstractmethod
    def answer(self, changes: Changes, origin: Provenance, choice: Selection, places: Places) -> None:
        """What the model says, before and after."""

    @property
    def revision(self) -> Revision:
        """The checkpoint as it is now."""
        return store.revision(self.name)

    @property
    def origin(self) -> str:
        """What files call the text."""
        return self.text

    def tried(self, example: ChangedExample) -> None:
        """A picture of what a change worth trying does; of what is read alone."""
        st.text(said(example.text))

    def hidden(self, changes: Changes) -> Sequence[Group]:
        """Controls that hide words from everybody, and which changes these are."""
        return ()

    def choose(self, record: Record, kind_at: DeltaGenerator) -> Selection:
        """The head that is looked at: at first the surest."""
        return controls.selection(record, controls.surest(record), kind_at=kind_at)

    def hides(self, record: Record, site: str) -> changes_.ForNobody:
        """What hides the position of a key from everybody."""
        return changes_.from_everybody(record, site)

    def more(self, changes: Changes, choice: Selection, action: str) -> bool:
        """What else there is below the map; whether a run follows that goes on with it."""
        return False


def show(name: str, kind: type[Screen]) -> None:
    """Everything below the checkpoint's choice.

    Raises:
        HeedmapError: what was asked for cannot be run.
    """
    checkpoint = store.checkpoint(name)
    screen = kind.asked(checkpoint)
    screen.begin(checkpoint)
    board, answer = st.columns(kind.widths, gap="large")
    with answer:
        with st.container(horizontal=True, gap="small"):
            _try_this(checkpoint, screen)
            if kind.has_donor:
                with st.popover(t("what_if.second"), icon=":material/splitscreen_right:"):
                    changes_.donor_line()
        sentences, effects = st.container(key=f"answer-{kind.__name__.lower()}"), st.container()
    changed = partial(_changed, screen, board, sentences, effects)
    if below.is_asked():  # the page's own run draws everything, since a button stops it
        changed()
    else:
        part(changed)


def _changed(screen: Screen, board: DeltaGenerator, sentences: DeltaGenerator, effects: DeltaGenerator) -> None:
    """What is changed, and what comes of it: looked up anew, since a part keeps nothing."""
    before = screen.run(()).record
    with sentences:
        above = st.container()
        force = changes_.in_force(changes_.asked(), screen.run)
        changes_.chips(force, screen.hidden(force.changes))
        below_ = st.container()
    changes, changed = force.changes, screen.run(force.changes)
    after = changed.record
    origin = Provenance(screen.name, screen.origin, after.interventions)
    with board, st.container(key="board"):
        kind_at, switches, heads = st.container(key="kind-at"), st.container(), st.container()
    steps, chosen, map_ = (st.container() for _ in range(3))
    with chosen:
        choice = screen.choose(before, kind_at)
    on_board = replace(choice, kind="encoder.self", head=MEAN) if choice.kind == POOLING else choice
    with switches, st.popover(t("what_if.switches"), icon=":material/tune:"):
        action = _off_choice(store.checkpoint(screen.name))
        changes_.switches(after, on_board.kind, action)
        if POOLING in before:
            with st.container(horizontal=True, gap="xsmall"):
                for site, head in changes_.every_head(before, [POOLING]):
                    turn = partial(changes_.turn, after, [(site, head)], action)
                    st.button(t("what_if.pooling_switch", head=head), key=f"switch-{site}-{head}", on_click=turn)
    with heads:
        changes_.switchboard(after, on_board, changes, action, origin)
    screen.answer(changes, origin, choice, Places(above, below_, effects, steps))
    with map_:
        part(partial(_map, screen, changes, origin, choice), *changes_.KEYS)
    goes_on = screen.more(changes, choice, action)
    with st.expander(t("what_if.take_away"), icon=":material/download:"):
        files.downloads_panel(changed, choice)
    if goes_on:
        st.rerun()


def _map(screen: Screen, changes: Changes, origin: Provenance, choice: Selection) -> None:
    """The map of the chosen head, and what can be done to a cell of it."""
    before, after = (screen.run(some).record for some in ((), changes))
    changes_.map_panel(
        before, after, choice.site, choice.head, screen.hides(before, choice.site),
        owner=(screen.name, screen.text), origin=origin, hiding=screen.hiding,
    )  # fmt: skip


def _off_choice(checkpoint: Checkpoint) -> str:
    """What a head gives on that is switched off from now on: its mean output, or zero (also where no means are known).

    What is changed already keeps its way. Which way costs more is said where that was measured.
    """
    if checkpoint.means is None:
        st.caption(t("what_if.no_means"))
        return "zero"
    chosen = address.named("what_if.off", OFF, key=WAY)
    st.caption(t(f"what_if.off_{chosen}_why", set=checkpoint.means.reference))
    try:
        found = importance(checkpoint.name)
    except HeedmapError as error:
        controls.explain(error)
        return chosen
    costs = None if found is None else mean_against_zero(found.heads[WHOLE])
    if found is not None and costs is not None:
        about = {"pairs": found.about.pairs, "source": found.about.source}
        st.caption(t("what_if.off_measured", **about, **costs._asdict()))
    return chosen


def _try_this(checkpoint: Checkpoint, screen: Screen) -> None:
    """Changes worth trying, as the checkpoint's own file lists them, each with a picture of what it does.

    The list closes on a choice, which puts text and changes into the address. Nothing of it runs before it is opened.
    """
    if not checkpoint.changed_examples or address.fixed(screen.text_key):
        return
    with st.popover(t("what_if.try_this"), icon=":material/lightbulb:", key=OPEN, on_change="rerun") as found:
        if not found.open:
            return
        for number, example in enumerate(checkpoint.changed_examples[:SHOWN]):
            with st.container(border=True, gap="xsmall"):
                name = as_text(example.names.get(language(), str(number + 1)))
                take = partial(_take, example, screen.text_key)
                st.button(name, key=f"try-{number}", width="stretch", on_click=take)
                screen.tried(example)


def _take(example: ChangedExample, text_key: str) -> None:
    """Done as the list says, and the list is closed."""
    st.session_state[OPEN] = False
    address.put(**{text_key: example.text, "force": None, CHANGES: example.change, DONOR: example.donor or None})

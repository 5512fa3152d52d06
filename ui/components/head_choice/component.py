"""Head choice: the kind of attention, layer and head of the page's record that is shown, and what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

component = CanvasComponent("head_choice")


@dataclass(frozen=True)
class Picker:
    """A group of buttons: what it is called, what is to be known of it, and the buttons' names where they have some."""

    label: str
    help: str
    names: Mapping[str, str]


@dataclass(frozen=True)
class Link:
    """A link to a page of the app: `path` with `query`, and what of the choice goes along under which name."""

    label: str
    path: str
    query: Mapping[str, str]
    along: Mapping[str, str]


@dataclass(frozen=True)
class Known:
    """What is known of one head: sentences, each with an explanation or an empty text."""

    sentences: Sequence[tuple[str, str]] = ()
    links: Sequence[Link] = ()


def head_choice(
    local: Local,
    pickers: tuple[Picker, Picker, Picker],
    known: Mapping[str, Sequence[Known]],
    links: Sequence[Link],
    *,
    drawn: tuple[str, int, int | None],
    key: str,
    followed: bool = False,
) -> None:
    """Buttons for the kind, the layer and the head (the last of them the mean), and what is known of the chosen head.

    Where the record's layers have names that tell the kind too, there are none for the kind.

    A choice is written into the address by the browser, and every component of the page that draws from the record
    follows; no run is started. `known` holds, by site, one entry a head. `links` are shown whatever the head is.

    It is `followed` where the server draws something that depends on the choice: `drawn` is the kind, layer and head
    (None: the mean) that it draws. Once another one is chosen, and none for a quarter of a second, a run starts.
    """
    component(
        key=key,
        header={
            **local.message(),
            "pickers": [asdict(picker) for picker in pickers],
            "known": {str(site): list(map(_told, each)) for site, each in known.items()},
            "links": [asdict(link) for link in links],
        },
        arrays={},
        options={"asks": followed, "drawn": list(drawn)},
        events={"asked": _ask if followed else None},
    )


def _ask(_: Any) -> None:
    """Nothing is left to do: the browser has changed the address, and the run that this starts reads it."""


def _told(known: Known) -> dict[str, Any]:
    """`asdict`, which copies whatever it meets: a page has fifty heads."""
    return {"sentences": known.sentences, "links": [vars(link) for link in known.links]}

"""Bitext: two sentences, such as a source over its translation, joined by the lines of one head of the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.plots.canvas.about import About
from ui.components.shared.mounting import CanvasComponent
from ui.components.shared.record import Local

component = CanvasComponent("bitext")


@dataclass(frozen=True)
class Words:
    """The words of one sentence: `attached` ones stand without a space before them, `special` ones are no text."""

    texts: Sequence[str]
    attached: Sequence[bool]
    special: Sequence[bool]
    language: str

    def message(self) -> dict[str, Any]:
        """What the browser is sent of them."""
        return {**vars(self), "texts": list(self.texts), "attached": list(self.attached), "special": list(self.special)}


@dataclass(frozen=True)
class Sides:
    """The sentences of one kind of attention: keys above (`source`), queries below (`target`).

    `heads` are the heads' names within a sentence and `file_names` those of saved pictures, by layer and head, the mean
    the last of them. `within` says that a sentence that is read looks at itself; `about` stands in saved pictures.
    """

    source: Words
    target: Words
    heads: Sequence[Sequence[str]]
    file_names: Sequence[Sequence[str]]
    within: bool
    about: About

    def message(self) -> dict[str, Any]:
        """What the browser is sent."""
        return {
            "key": self.source.message(),
            "query": self.target.message(),
            "heads": list(map(list, self.heads)),
            "file_names": list(map(list, self.file_names)),
            "within": self.within,
            "about": self.about.message(),
        }


def bitext(local: Local, sides: Mapping[str, Sides], how: str, *, key: str) -> None:
    """Solid lines from each word below to the words above that the chosen head looked at, whatever kind it is of.

    Pointing at a word (or reaching it with the arrow keys) shows its lines alone and says them; a click or Enter keeps
    it, in the address. Where the record says which source word decides each written one, a dotted line leads to that
    one if it is not looked at most; `how` says how that was found. All of it stays in the browser.
    """
    header = {**local.message(), "sides": {kind: one.message() for kind, one in sides.items()}, "how": how}
    component(key=key, header=header, arrays={}, options={}, events={})

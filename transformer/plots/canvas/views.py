"""What the browser is told of a record: all numbers at once, what each view says besides them, and its sentences.

Views are sent these dataclasses field by field (`blob.pack`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from string import Formatter
from typing import Any

import numpy as np
from jaxtyping import Float

from ...messages import catalogue, language, speaking, words
from . import blob

MASKED = -np.inf
"""What stands for a masked cell."""


@dataclass(frozen=True)
class AxisWords:
    """One side of a kind's maps: what it is called, and its words, unique (`labels`) and as they are (`texts`)."""

    name: str
    labels: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class MapKind:
    """One kind of attention, all its layers and heads, as they are shown: `MASKED` where the mask hides a cell.

    Weights travel in 16 bits where they are given so, which rounds them to 1/2048 of themselves; else in 32.
    """

    name: str
    sites: Sequence[str]
    queries: AxisWords
    keys: AxisWords
    weights: Float[np.ndarray, "layer head query key"]
    layers: Sequence[str] = ()
    """What addresses call the layers, where that alone tells the kind too; else their numbers."""
    numbers: Sequence[str] = ()
    """The layers' own numbers, where they are not 0, 1, 2 and so on; an empty text for a site without one."""
    there: Sequence[int] | None = None
    """The layers that `weights` holds, where it does not hold all of them."""
    decided: Sequence[tuple[int, float]] | None = None
    """For each query the key that decides it, by deletion (-1: none does), and the nats that it loses without it.

    Empty where that is not known in this form of the record, None where nobody asks for it.
    """


@dataclass(frozen=True, eq=False)
class Packed:
    """A record as the browser is sent it, under the name (`id`) by which its views ask for it."""

    id: str
    message: bytes


def packed(
    kinds: Sequence[MapKind],
    usual: tuple[int, int | None],
    kind: int = 0,
) -> Packed:
    """A record for the browser: `usual` are the layer and head (None: the mean) that are shown at first.

    So they are unless the address says otherwise, of the kind of number `kind`.
    """
    header, arrays = header_and_arrays(kinds, usual, kind)
    name = blake2b(blob.pack(header, arrays), digest_size=8).hexdigest()
    return Packed(name, blob.pack({**header, "id": name}, arrays))


def header_and_arrays(
    kinds: Sequence[MapKind], usual: tuple[int, int | None], kind: int = 0
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `packed` packs, still without a name."""
    header = {
        "kinds": [
            {
                "name": one.name,
                "sites": list(map(str, one.sites)),
                "heads": one.weights.shape[1],
                **({} if one.there is None else {"there": list(one.there)}),
                **({"layers": list(one.layers)} if one.layers else {}),
                **({"numbers": list(one.numbers)} if one.numbers else {}),
                **({} if one.decided is None else {"decided": [[key, round(lost, 4)] for key, lost in one.decided]}),
                "queries": one.queries,
                "keys": one.keys,
            }
            for one in kinds
        ],
        "usual": {"kind": kind, "layer": int(usual[0]), "head": None if usual[1] is None else int(usual[1])},
    }
    return header, {f"weights_{order}": one.weights for order, one in enumerate(kinds)}


@dataclass(frozen=True)
class About:
    """A title (the site, the head), lines below it: what is shown, of what sentence, by what checkpoint; formulas.

    The page says this around a component; in a file, nobody else does.
    """

    title: str = ""
    lines: Sequence[str] = ()
    formulas: Sequence[str] = ()

    def message(self) -> dict[str, Any]:
        """What the browser is sent: each text on one line."""
        lines, formulas = ([" ".join(line.split()) for line in texts] for texts in (self.lines, self.formulas))
        return {"title": " ".join(self.title.split()), "lines": lines, "formulas": formulas}


@dataclass(frozen=True)
class SiteTexts:
    """What a site's maps say: titles, names of files and notes of its heads, the mean the last of them."""

    titles: Sequence[str]
    file_names: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class AxesTexts:
    """What a kind's maps say: the titles of their axes, what is to be known of them, and facts for saved pictures."""

    queries: str
    keys: str
    notes: str
    facts: Sequence[str] = ()
    edges: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Queries and keys before which a group of them ends."""

    def message(self) -> dict[str, Any]:
        """What the browser is sent."""
        return {**vars(self), "facts": About("", self.facts).message()["lines"]}


@dataclass(frozen=True)
class Grid:
    """What the grid of one kind says: the name of its file, what a saved picture says, what each head does.

    `size` are rows and columns of thumbnails that are sent apart, where the browser has not all of the record.
    """

    file_name: str
    about: About
    roles: Sequence[Sequence[str]]
    size: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SideTexts:
    """What one side of the lines is called, as a language or as a column.

    `attached` words of it stand without a space before them, `special` ones are no text.
    """

    name: str
    attached: Sequence[bool] = ()
    special: Sequence[bool] = ()


@dataclass(frozen=True)
class Sides:
    """What the lines of one kind say. `heads` are the heads' names within a sentence, `file_names` of saved pictures.

    Both are told by layer and head, the mean the last of them; `abouts` by layer. `within` says that queries and keys
    are one sentence, which looks at itself.
    """

    query: SideTexts
    key: SideTexts
    heads: Sequence[Sequence[str]]
    file_names: Sequence[Sequence[str]]
    abouts: Sequence[About]
    within: bool = True


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


EVERYWHERE = "canvas"
"""How the codes of sentences begin that every component says which draws a picture."""

DECIDED = {"lines", "heatmap"}
"""Components that show what decided a word; they say the sentences whose codes begin with `decided_`."""


def sentences(component: str) -> dict[str, str]:
    """A component's sentences by their codes without its name: `words.hint` in head_view's scripts is `head_view_hint`.

    Fields stay as they are written, such as `{count}`: the browser fills them.
    """
    return dict(_sentences(component, language()))


@cache
def _sentences(component: str, spoken: str) -> dict[str, str]:
    found = {}
    with speaking(spoken):
        for code, text in catalogue("en").items():
            for prefix in (f"{component}_", f"{EVERYWHERE}_", *(["decided_"] if component in DECIDED else ())):
                if code.startswith(prefix):
                    fields = {name: f"{{{name}}}" for _, name, _, _ in Formatter().parse(text) if name}
                    found[code.removeprefix(prefix)] = words(code, **fields)
    return found

"""What each view of a record is told besides the numbers: titles, names of files, and what stands around a map."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer.messages import words
from transformer.plots.canvas.about import About


@dataclass(frozen=True)
class Site:
    """What a site's maps say: titles, names of files and notes of its heads, the mean the last of them."""

    titles: Sequence[str]
    file_names: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class Axes:
    """What a kind's maps say: the titles of their axes, what is to be known of them, and facts for saved pictures."""

    queries: str
    keys: str
    notes: str
    facts: Sequence[str] = ()
    edges: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Queries and keys before which a group of them ends."""

    def message(self) -> dict[str, Any]:
        """What the browser is sent."""
        return {**asdict(self), "facts": About("", self.facts).message()["lines"]}


def heatmap_header(
    sites: Mapping[str, Site], axes: Mapping[str, Axes], dense: bool = False, save_csv: str = ""
) -> dict[str, Any]:
    """What the view of one head is told: `sites` by site, `axes` by kind.

    A `dense` map shrinks its cells until it fits its room, and does not name each query and key. `save_csv` is what the
    button says that saves the numbers; without it there is none.
    """
    return {
        "sites": {str(name): asdict(site) for name, site in sites.items()},
        "axes": {name: one.message() for name, one in axes.items()},
        "dense": dense,
        "save_csv": save_csv,
    }


@dataclass(frozen=True)
class Grid:
    """What the grid of one kind says: the name of its file, what a saved picture says, what each head does.

    `size` are rows and columns of thumbnails that are sent apart, where the browser has not all of the record.
    """

    file_name: str
    about: About
    roles: Sequence[Sequence[str]]
    size: tuple[int, ...] | None = None

    def message(self) -> dict[str, Any]:
        """What the browser is sent."""
        return {**asdict(self), "about": self.about.message()}


def all_heads_header(grids: Mapping[str, Grid]) -> dict[str, Any]:
    """What the view of all heads is told, by kind."""
    return {
        "grids": {kind: one.message() for kind, one in grids.items()},
        "query_axis": words("component_queries"),
        "key_axis": words("component_keys"),
    }


@dataclass(frozen=True)
class Sides:
    """What the lines of one kind say: the titles of their columns; files' names and what they say, one a layer."""

    query_title: str
    key_title: str
    file_names: Sequence[str]
    abouts: Sequence[About]


def head_view_header(sides: Mapping[str, Sides], heads: Sequence[str]) -> dict[str, Any]:
    """What the lines are told, by kind; `heads` are the heads' names, that of the mean the last."""
    return {
        "sides": {
            kind: {
                "query_title": one.query_title,
                "key_title": one.key_title,
                "file_names": list(one.file_names),
                "abouts": [about.message() for about in one.abouts],
            }
            for kind, one in sides.items()
        },
        "names": list(heads),
    }


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


def head_choice_header(
    pickers: tuple[Picker, Picker, Picker],
    known: Mapping[str, Sequence[Known]] | None = None,
    links: Sequence[Link] = (),
) -> dict[str, Any]:
    """What the buttons for kind, layer and head are told; `known` holds, by site, one entry a head."""
    return {
        "pickers": [asdict(picker) for picker in pickers],
        "known": {str(site): list(map(_told, each)) for site, each in (known or {}).items()},
        "links": [asdict(link) for link in links],
    }


def _told(known: Known) -> dict[str, Any]:
    """`asdict`, which copies whatever it meets: a page has fifty heads."""
    return {"sentences": known.sentences, "links": [vars(link) for link in known.links]}

"""Labels for the axes of a recording: by length, or by site."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from transformer.errors import RecordError
from transformer.messages import Message
from transformer.plots.axes import Axis

Labels = Axis | Sequence[str]
"""What stands at each position."""

Given = Labels | Mapping[str, Labels] | None
"""Labels for every axis of their length, or by site."""

MOST_LEADING = 8
"""Tokens before the patches of a picture: [CLS], one for distillation, a few registers."""

NAMES = {"queries": Message("axis_query"), "keys": Message("axis_key")}


class Labelling:
    """Which labels an axis of a site gets: those that were given for the site, else those of its length."""

    def __init__(self, queries: Given, keys: Given, grid: tuple[int, int] | None = None) -> None:
        if grid is not None and (len(grid) != 2 or min(grid) < 1):
            raise RecordError("grid_no_size", grid=tuple(grid))
        self._grid, self._has_grid = grid, False
        self._by_site = {"queries": _by_site(queries), "keys": _by_site(keys)}
        both = {"queries": queries, "keys": keys}
        self._by_length = {
            what: _axis(what, given)
            for what, given in both.items()
            if given is not None and not isinstance(given, Mapping)
        }
        self._used: set[str] = set()
        self._lengths: set[int] = set()

    def axis(self, what: str, site: str, length: int) -> Axis:
        """The labels of a site's `queries` or `keys`; positions where none were given.

        Raises:
            RecordError: labels that were given for the site do not fit, or two lists of this length differ.
        """
        self._lengths.add(length)
        own = self._by_site[what].get(site)
        if own is not None:
            axis = _axis(what, own)
            if len(axis) != length:
                raise RecordError("labels_wrong_length", what=what, site=site, found=len(axis), needed=length)
            return self._on_grid(axis)
        fitting = {name: axis for name, axis in self._by_length.items() if len(axis) == length}
        if len({axis.texts for axis in fitting.values()}) > 1:
            raise RecordError("labels_ambiguous", what=what, site=site, count=length)
        self._used |= set(fitting)
        chosen = fitting.get(what) or next(iter(fitting.values()), None)
        if chosen is not None and chosen.name in NAMES.values():  # labels of the other side are no name of this one
            chosen = replace(chosen, name=NAMES[what])
        return self._on_grid(chosen or Axis.of_tokens(NAMES[what], self._positions(length)))

    def _positions(self, length: int) -> list[str]:
        """What positions are called for want of labels: patches by row and column, others by number."""
        if self._grid is None or not 0 <= length - prod(self._grid) <= MOST_LEADING:
            return [str(i) for i in range(length)]
        rows, columns = self._grid
        patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        return [*map(str, range(length - len(patches))), *patches]

    def _on_grid(self, axis: Axis) -> Axis:
        """The axis with the grid, where it has as many patches and a few tokens before them."""
        if self._grid is None or not 0 <= len(axis) - prod(self._grid) <= MOST_LEADING:
            return axis
        self._has_grid = True
        return axis if axis.grid is not None else replace(axis, grid=self._grid)

    def refuse_unused(self) -> None:
        """Refuse labels, and a grid, that no axis took.

        Raises:
            RecordError: names them, and the lengths that there are.
        """
        lengths = tuple(map(str, sorted(self._lengths)))
        if self._grid is not None and not self._has_grid:
            raise RecordError("grid_fits_nothing", grid=tuple(self._grid), most=MOST_LEADING, lengths=lengths)
        for what, axis in self._by_length.items():
            if what not in self._used:
                raise RecordError("labels_fit_nothing", what=what, found=len(axis), lengths=lengths)


def _axis(what: str, labels: Labels) -> Axis:
    if isinstance(labels, Axis):
        return labels
    return Axis.of_pieces(NAMES[what], list(labels), [False] * len(labels))


def _by_site(given: Given) -> Mapping[str, Labels]:
    return given if isinstance(given, Mapping) else {}

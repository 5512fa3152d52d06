"""Labels for the axes of a module's record: given by site or by length; patches of a picture have their own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ...errors import RecordError
from ...messages import Message
from ...plots.axes import Axis

Labels = Axis | Sequence[str]
"""What stands at each position."""

Given = Labels | Mapping[str, Labels] | None
"""Labels for every axis of their length, or by site."""

MOST_LEADING = 8
"""Tokens before the patches of a picture: [CLS], one for distillation, a few registers."""

NAMES = {"queries": Message("axis_query"), "keys": Message("axis_key")}


def labelled(
    sizes: Mapping[str, tuple[int, int]], queries: Given, keys: Given, grid: tuple[int, int] | None = None
) -> dict[str, tuple[Axis, Axis]]:
    """The axes of each site, of which `sizes` counts queries and keys: labels of the site, or of the length.

    Without either, patches of a `grid` are called by row and column, other positions by number.

    Raises:
        RecordError: labels do not fit their site, two lists of one length differ, or labels or the grid fit no axis.
    """
    if grid is not None and (len(grid) != 2 or min(grid) < 1):
        raise RecordError("grid_no_size", grid=tuple(grid))
    given = {"queries": queries, "keys": keys}
    common = {what: _axis(what, one) for what, one in given.items() if one is not None and not isinstance(one, Mapping)}
    found: dict[str, list[Axis]] = {site: [] for site in sizes}
    used: set[str] = set()
    for site, lengths in sizes.items():
        for (what, labels), length in zip(given.items(), lengths, strict=True):
            own = labels.get(site) if isinstance(labels, Mapping) else None
            fitting = {name: axis for name, axis in common.items() if len(axis) == length}
            if own is not None:
                axis = _axis(what, own)
                if len(axis) != length:
                    raise RecordError("labels_wrong_length", what=what, site=site, found=len(axis), needed=length)
            elif len({one.texts for one in fitting.values()}) > 1:
                raise RecordError("labels_ambiguous", what=what, site=site, count=length)
            elif fitting:
                used |= set(fitting)
                axis = fitting.get(what) or next(iter(fitting.values()))
                if axis.name in NAMES.values():  # labels of the other side are no name of this one
                    axis = replace(axis, name=NAMES[what])
            else:
                axis = Axis.of_tokens(NAMES[what], _positions(length, grid))
            has_grid = _has_patches(length, grid) and axis.grid is None
            found[site].append(replace(axis, grid=grid) if has_grid else axis)
    every = {length for lengths in sizes.values() for length in lengths}
    counts = tuple(map(str, sorted(every)))
    if grid is not None and not any(_has_patches(length, grid) for length in every):
        raise RecordError("grid_fits_nothing", grid=tuple(grid), most=MOST_LEADING, lengths=counts)
    for what, axis in common.items():
        if what not in used:
            raise RecordError("labels_fit_nothing", what=what, found=len(axis), lengths=counts)
    return {site: (axes[0], axes[1]) for site, axes in found.items()}


def _has_patches(length: int, grid: tuple[int, int] | None) -> bool:
    """Whether an axis has as many patches as the grid, and a few tokens before them."""
    return grid is not None and 0 <= length - prod(grid) <= MOST_LEADING


def _positions(length: int, grid: tuple[int, int] | None) -> list[str]:
    if grid is None or not _has_patches(length, grid):
        return [str(i) for i in range(length)]
    patches = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    return [*map(str, range(length - len(patches))), *patches]


def _axis(what: str, labels: Labels) -> Axis:
    if isinstance(labels, Axis):
        return labels
    return Axis.of_pieces(NAMES[what], list(labels), [False] * len(labels))

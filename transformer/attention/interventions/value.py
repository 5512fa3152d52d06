"""One change of one attention, as a value: frozen, hashable, and written to and read from a text (`text`).

Notation of the formulas: scores s, weights a = softmax(s), head output z_t = sum_j a_tj v_j; the sub-layer adds
sum_h z_h W_O[h] + b_O. Rows t are queries, columns j are keys. Sources: knock-out, Geva et al. 2023; heads off by zero
and by their mean, Michel et al. 2019 and the practice of ablation; patching, Heimersheim and Nanda 2024.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from jaxtyping import Float
from torch import Tensor

from transformer.errors import InputError
from transformer.messages import Message
from transformer.sites import Site

Action = Literal[
    "knock_out",
    "cut",
    "force",
    "uniform",
    "sharpest",
    "temperature",
    "zero",
    "mean",
    "patch_weights",
    "patch_output",
]
"""What can be done to an attention:

- `knock_out`: s_tj := -inf, so the rest of the row is renormalised; a row with no key left gives z_t = 0.
- `cut`: a_tj := 0 and nothing else: the row sums to less than 1.
- `force`: a_t := `value`, a distribution over what the row may see.
- `uniform`: a_tj := 1 / (number of keys that t sees), among `keys` where they are given.
- `sharpest`: a_tj := 1 at the key with the highest score (the first of equals), among `keys` where they are given.
- `temperature`: a_t := softmax(s_t / `value`).
- `zero`: z_t := 0. The bias b_O of the output projection stays.
- `mean`: z_t := `value`, a vector of the head's d_v numbers; without one, the mean output that the checkpoint brings.
- `patch_weights`: a_t := the weights of the donor run `value`, whose rows and keys stand for those of this run.
- `patch_output`: z_t := the head's output in the donor run `value`.

Scores are changed first (temperature, then knock-outs), then whole rows (of several, the last wins; a forced or patched
row is what it is, keys that are knocked out included), then cells are cut, then outputs replaced (the last wins).
"""

ACTIONS: tuple[Action, ...] = get_args(Action)
OF_CELLS = frozenset({"knock_out", "cut"})
OF_ROWS = frozenset({"force", "uniform", "sharpest", "patch_weights"})
OF_OUTPUTS = frozenset({"zero", "mean", "patch_output"})
TAKES_KEYS = OF_CELLS | {"force", "uniform", "sharpest"}

MOST_POSITIONS = 20_000
"""More heads, rows or keys than this cannot be named one by one."""

SUM_TOLERANCE = 1e-6
"""How far from 1 a forced row may sum, for numbers that were rounded when they were written."""

Positions = Any
"""Whole numbers from 0 in any container, or one; kept as a tuple in order, each once. None stands for all."""

Value = Any
"""What the action takes; kept as a float, a tuple of floats or a `Donor`."""

_SITE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.#-]{0,199}")


@dataclass(frozen=True, eq=False)
class Donor:
    """Weights and head outputs of every site of a run, to patch into another run. `name` appears in texts.

    Position i of a donor stands for position i of the run that it is put into. A batch of 1 serves every sentence.
    """

    name: str
    weights: Mapping[Site, Float[Tensor, "batch head query key"]]
    outputs: Mapping[Site, Float[Tensor, "batch head query d_v"]]


@dataclass(frozen=True)
class Intervention:
    """A change of attention at one site: an `action` on heads, `queries` (rows) and `keys` (columns); None is all.

    `site` is the name that records have (`decoder.2.cross`). Positions count from 0; a decoder's row t is the step that
    writes token t, and rows past the end of what is written do nothing. `value` is what `Action` says.

    Raises:
        InputError: no such action, positions that are none, or a value that does not fit the action.
    """

    site: str
    action: str
    heads: Positions = None
    queries: Positions = None
    keys: Positions = None
    value: Value = None

    def __post_init__(self) -> None:
        if not _SITE.fullmatch(self.site):
            raise InputError("intervention_site", site=str(self.site)[:100])
        object.__setattr__(self, "site", str(self.site))
        if self.action not in ACTIONS:
            raise InputError("intervention_action", action=str(self.action)[:100], choices=ACTIONS)
        if self.keys is not None and self.action not in TAKES_KEYS:
            raise InputError("intervention_without_keys", action=self.action)
        if self.action == "force" and self.keys is not None:
            self._pair_values_with_keys()
        for name in ("heads", "queries", "keys"):
            object.__setattr__(self, name, _positions(name, getattr(self, name)))
        object.__setattr__(self, "value", self._checked_value())

    @property
    def place(self) -> Site:
        """Its site, which knows its stack and kind."""
        return Site(self.site)

    @property
    def message(self) -> Message:
        """What is done where, in one line."""
        return self.message_at(self.site)

    def message_at(self, site: str) -> Message:
        """The same, of a site or several that are called otherwise (`decoder.0-3.cross`)."""
        named = (("head", self.heads), ("query", self.queries), ("key", self.keys))
        parts = [
            Message(f"part_{name}" if len(positions) == 1 else f"part_several_{name}", positions=_ranges(positions))
            for name, positions in named
            if positions is not None
        ]
        where = Message("part_where", parts=tuple(parts)) if parts else ""
        return Message(f"did_{self.action}", site=site, where=where, value=self._said_value())

    def touches_head(self, head: int) -> bool:
        """Whether it changes this head."""
        return self.heads is None or head in self.heads

    def _pair_values_with_keys(self) -> None:
        """Put keys in order, each with its weight."""
        given = tuple(cast(Iterable[float], self.value)) if isinstance(self.value, Iterable) else ()
        keys = tuple(cast(Iterable[int], self.keys))
        if len(given) != len(keys) or len(set(keys)) != len(keys):
            raise InputError("forced_needs_a_weight_a_key", keys=len(keys), weights=len(given))
        pairs = sorted(zip(keys, given, strict=True))
        object.__setattr__(self, "keys", tuple(key for key, _ in pairs))
        object.__setattr__(self, "value", tuple(weight for _, weight in pairs))

    def _checked_value(self) -> Value:
        """The value in its own form, if it fits the action."""
        value = self.value
        if self.action in ("patch_weights", "patch_output"):
            if not isinstance(value, Donor):
                raise InputError("patch_needs_a_donor", action=self.action)
            return value
        if self.action == "temperature":
            number, *more = _numbers(self.action, value)
            if more:
                raise InputError("value_is_no_number", action=self.action, value=str(value)[:100])
            if number <= 0:
                raise InputError("temperature_not_positive", value=number)
            return number
        if self.action == "force" or (self.action == "mean" and value is not None):
            numbers = _numbers(self.action, value)
            if self.action == "force" and (min(numbers) < 0 or abs(sum(numbers) - 1) > SUM_TOLERANCE):
                raise InputError("forced_is_no_distribution", lowest=min(numbers), total=sum(numbers))
            return numbers
        if value is not None:
            raise InputError("intervention_without_value", action=self.action)
        return None

    def _said_value(self) -> str:
        if isinstance(self.value, Donor):
            return self.value.name
        if isinstance(self.value, tuple):
            shown = " ".join(f"{number:.3g}" for number in self.value[:6])
            return f"{shown} ..." if len(self.value) > 6 else shown
        return "" if self.value is None else f"{self.value:g}"


def _positions(name: str, given: object) -> tuple[int, ...] | None:
    """Positions in order, each once."""
    if given is None:
        return None
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not found:
        raise InputError("no_positions", name=name)
    if len(found) > MOST_POSITIONS:
        raise InputError("positions_many", name=name, found=len(found), most=MOST_POSITIONS)
    for position in found:
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise InputError("no_position", name=name, position=str(position)[:100])
    return tuple(sorted(set(found)))


def _numbers(action: str, given: object) -> tuple[float, ...]:
    """Finite numbers."""
    found = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not found or len(found) > MOST_POSITIONS:
        raise InputError("value_has_no_numbers", action=action, found=len(found), most=MOST_POSITIONS)
    try:
        numbers = tuple(float(number) for number in cast(Iterable[float], found))
    except (TypeError, ValueError):
        raise InputError("value_is_no_number", action=action, value=str(given)[:100]) from None
    if not all(map(math.isfinite, numbers)):
        raise InputError("value_is_no_number", action=action, value=str(given)[:100])
    return numbers


def _ranges(positions: tuple[int, ...]) -> str:
    """`0-2, 5` for 0, 1, 2 and 5; a long list is cut."""
    parts = ranges(positions)
    return ", ".join(parts[:8]) + (" ..." if len(parts) > 8 else "")


def ranges(positions: tuple[int, ...]) -> list[str]:
    """Runs of positions, which are in order: `0-2` and `5` for 0, 1, 2 and 5."""
    parts: list[str] = []
    start = previous = positions[0]
    for position in (*positions[1:], -1):
        if position != previous + 1:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = position
        previous = position
    return parts

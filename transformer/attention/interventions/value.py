"""One change of one attention, as a value: frozen, hashable, written to a text and read back with every check.

Notation of the formulas: scores s, weights a = softmax(s), head output z_t = sum_j a_tj v_j; the sub-layer adds
sum_h z_h W_O[h] + b_O. Rows t are queries, columns j are keys. Sources: knock-out, Geva et al. 2023; heads off by zero
and by their mean, Michel et al. 2019 and the practice of ablation; patching, Heimersheim and Nanda 2024.

A text, for addresses and files, is `SITE~ACTION`, then what is given of `~hHEADS ~qROWS ~kKEYS ~vVALUE`, in this order;
interventions are joined by `~~`. Positions are runs joined by dots (`0-2.5`), numbers are joined by underscores, a
donor stands by its name. All of these characters stand in an address as they are.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import InputError
from ...messages import Message
from ...sites import Site

OF_CELLS = ("knock_out", "cut")
OF_ROWS = ("force", "uniform", "sharpest", "patch_weights")
OF_WEIGHTS = (*OF_CELLS, *OF_ROWS, "temperature")
OF_OUTPUTS = ("zero", "mean", "patch_output")
ACTIONS = (*OF_WEIGHTS, *OF_OUTPUTS)
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

TAKES_KEYS = (*OF_CELLS, "force", "uniform", "sharpest")

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
    writes token t, and rows past the end of what is written do nothing. `value` is what `ACTIONS` says.

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
        value, action = self.value, self.action
        if action in ("patch_weights", "patch_output"):
            if not isinstance(value, Donor):
                raise InputError("patch_needs_a_donor", action=action)
            return value
        if value is None and action not in ("temperature", "force"):
            return None
        if action not in ("temperature", "force", "mean"):
            raise InputError("intervention_without_value", action=action)
        numbers = _numbers(action, value)
        if action == "force" and (min(numbers) < 0 or abs(sum(numbers) - 1) > SUM_TOLERANCE):
            raise InputError("forced_is_no_distribution", lowest=min(numbers), total=sum(numbers))
        if action != "temperature":
            return numbers
        if len(numbers) > 1:
            raise InputError("value_is_no_number", action=action, value=str(value)[:100])
        if numbers[0] <= 0:
            raise InputError("temperature_not_positive", value=numbers[0])
        return numbers[0]

    def _said_value(self) -> str:
        if isinstance(self.value, Donor):
            return self.value.name
        if isinstance(self.value, tuple):
            shown = " ".join(f"{number:.3g}" for number in self.value[:6])
            return f"{shown} ..." if len(self.value) > 6 else shown
        return "" if self.value is None else f"{self.value:g}"


def _items(given: object) -> tuple[Any, ...]:
    """What a container holds, or the one thing that was given."""
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def _positions(name: str, given: object) -> tuple[int, ...] | None:
    """Positions in order, each once."""
    if given is None:
        return None
    found = _items(given)
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
    found = _items(given)
    if not found or len(found) > MOST_POSITIONS:
        raise InputError("value_has_no_numbers", action=action, found=len(found), most=MOST_POSITIONS)
    try:
        numbers = tuple(map(float, found))
    except (TypeError, ValueError):
        numbers = (math.nan,)
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


MOST_CHARACTERS = 20_000
"""Longest text that is read."""

MOST_PARTS = 500
"""Most interventions that are read from one text."""

BETWEEN, WITHIN = "~~", "~"
_RUNS = r"\d{1,9}(?:-\d{1,9})?(?:\.\d{1,9}(?:-\d{1,9})?)*"
_PART = re.compile(rf"([^~]*)~([^~]*)(?:~h({_RUNS}))?(?:~q({_RUNS}))?(?:~k({_RUNS}))?(?:~v([^~]*))?")


def to_text(interventions: Iterable[Intervention]) -> str:
    """The short string; empty for no intervention."""
    return BETWEEN.join(map(written, interventions))


def from_text(text: str, donors: Mapping[str, Donor] | None = None) -> tuple[Intervention, ...]:
    """The interventions of a short string, in order; a donor's name is looked up in `donors`.

    Raises:
        InputError: it is too long, or a part of it is no intervention: says which, and what is wrong with it.
    """
    return tuple(read(part, donors or {}) for part in parts_of(text))


def parts_of(text: str) -> list[str]:
    """The short string of each intervention alone, unread.

    Raises:
        InputError: it is too long.
    """
    count = text.count(BETWEEN) + 1
    if count > MOST_PARTS or len(text) > MOST_CHARACTERS:
        raise InputError("interventions_many", parts=count, most=MOST_PARTS, found=len(text), longest=MOST_CHARACTERS)
    return text.split(BETWEEN) if text else []


def written(one: Intervention) -> str:
    """The short string of one intervention."""
    named = zip("hqk", (one.heads, one.queries, one.keys), strict=True)
    parts = [one.site, one.action, *(prefix + ".".join(ranges(found)) for prefix, found in named if found is not None)]
    if one.value is not None:
        value = one.value.name if isinstance(one.value, Donor) else "_".join(map(repr, _items(one.value)))
        parts.append(f"v{value}")
    return WITHIN.join(parts)


def read(part: str, donors: Mapping[str, Donor]) -> Intervention:
    """The intervention of a short string.

    Raises:
        InputError: it is none.
    """
    found = _PART.fullmatch(part)
    if found is None:
        raise _unreadable(part)
    site, action, *runs, value = found.groups()
    heads, queries, keys = (None if one is None else _expanded(part, one) for one in runs)
    return Intervention(site, action, heads, queries, keys, _read_value(part, action, value, donors))


def _expanded(part: str, runs: str) -> list[int]:
    """Every position of runs: 0, 1, 2 and 5 for `0-2.5`."""
    found: list[int] = []
    for run in runs.split("."):
        start, _, end = run.partition("-")
        first, last = int(start), int(end or start)
        if last < first or len(found) + last - first >= MOST_POSITIONS:
            raise _unreadable(part)
        found += range(first, last + 1)
    return found


def _read_value(part: str, action: str, text: str | None, donors: Mapping[str, Donor]) -> Value:
    if text is None:
        return None
    if action in ("patch_weights", "patch_output"):
        if text not in donors:
            raise InputError("donor_not_known", name=text[:100])
        return donors[text]
    try:
        return tuple(map(float, text.split("_")))
    except ValueError:
        raise _unreadable(part) from None


def _unreadable(part: str) -> InputError:
    return InputError("intervention_unreadable", part=part[:100] + ("..." if len(part) > 100 else ""))


MEANS_FILE = "means.json"
"""What it is called in a checkpoint's folder."""

DIGITS = 6
"""Significant digits that are written: of a mean over thousands of positions, more are noise."""


@dataclass(frozen=True, eq=False)
class Means:
    """One vector for each site and head: the mean of its output over all real queries of `size` inputs of a set.

    `reference` names the set.
    """

    reference: str
    size: int
    vectors: Mapping[Site, Float[Tensor, "head d_v"]]

    def to_json(self) -> str:
        """A JSON object, each head's vector on a line of its own."""
        rows = {
            site: [[float(f"{number:.{DIGITS}g}") for number in head] for head in vectors.tolist()]
            for site, vectors in self.vectors.items()
        }
        text = json.dumps({"reference": self.reference, "size": self.size, "sites": rows})
        return text.replace("[[", "[\n[").replace("], [", "],\n[") + "\n"

    @classmethod
    def of_json(cls, text: str, name: str) -> "Means":
        """Means that were written so; `name` is the file's, for a refusal.

        Raises:
            InputError: it is no such object, or a vector holds what is no finite number.
        """
        try:
            found = json.loads(text)
            vectors = {Site(site): _matrix(rows) for site, rows in found["sites"].items()}
            return cls(str(found["reference"])[:200], int(found["size"]), vectors)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError("means_unreadable", name=name, error=str(error)[:200]) from error


def _matrix(rows: Any) -> Float[Tensor, "head d_v"]:
    matrix = torch.tensor(rows, dtype=torch.float64)
    if matrix.dim() != 2 or not all(math.isfinite(number) for row in rows for number in row):
        raise ValueError("a site holds no matrix of finite numbers")
    return matrix

"""Interventions as text: a short string, for addresses and files, that is read back with every check.

A string is `SITE~ACTION`, then what is given of `~hHEADS ~qROWS ~kKEYS ~vVALUE`, in this order; interventions are
joined by `~~`. Positions are runs joined by dots (`0-2.5`), numbers are joined by underscores, a donor stands by its
name. All of these characters stand in an address as they are.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from transformer.attention.interventions.value import MOST_POSITIONS, Donor, Intervention, ranges
from transformer.errors import InputError

MOST_CHARACTERS = 20_000
"""Longest text that is read."""

MOST_PARTS = 500
"""Most interventions that are read from one text."""

BETWEEN, WITHIN = "~~", "~"
_RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PREFIXES = {"h": "heads", "q": "queries", "k": "keys", "v": "value"}


def to_text(interventions: Iterable[Intervention]) -> str:
    """The short string; empty for no intervention."""
    return BETWEEN.join(map(written, interventions))


def from_text(text: str, donors: Mapping[str, Donor] | None = None) -> tuple[Intervention, ...]:
    """The interventions of a short string, in order; a donor's name is looked up in `donors`.

    Raises:
        InputError: it is too long, or a part of it is no intervention: says which, and what is wrong with it.
    """
    return tuple(read(part, donors or {}) for part in parts(text))


def parts(text: str) -> list[str]:
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
    parts = [str(one.site), one.action]
    for prefix, positions in (("h", one.heads), ("q", one.queries), ("k", one.keys)):
        if positions is not None:
            parts.append(prefix + ".".join(ranges(positions)))
    if one.value is not None:
        parts.append("v" + _value_to_text(one))
    return WITHIN.join(parts)


def _value_to_text(one: Intervention) -> str:
    if isinstance(one.value, Donor):
        return one.value.name
    numbers = one.value if isinstance(one.value, tuple) else (one.value,)
    return "_".join(map(repr, numbers))


def read(part: str, donors: Mapping[str, Donor]) -> Intervention:
    """The intervention of a short string.

    Raises:
        InputError: it is none.
    """
    fields = part.split(WITHIN)
    if len(fields) < 2:
        raise _unreadable(part)
    site, action, *rest = fields
    given: dict[str, Any] = {}
    for field in rest:
        name = _PREFIXES.get(field[:1])
        if name is None or name in given:
            raise _unreadable(part)
        given[name] = field[1:] if name == "value" else _positions(part, field[1:])
    value = given.pop("value", None)
    if value is not None:
        value = _value(part, action, value, donors)
    return Intervention(site, action, **given, value=value)


def _positions(part: str, text: str) -> tuple[int, ...]:
    found: list[int] = []
    for run in text.split("."):
        match = _RUN.fullmatch(run)
        if match is None:
            raise _unreadable(part)
        start, stop = int(match[1]), int(match[2] or match[1])
        if stop < start or len(found) + stop - start >= MOST_POSITIONS:
            raise _unreadable(part)
        found += range(start, stop + 1)
    return tuple(found)


def _value(part: str, action: str, text: str, donors: Mapping[str, Donor]) -> object:
    if action in ("patch_weights", "patch_output"):
        return _donor(text, donors)
    try:
        numbers = tuple(float(number) for number in text.split("_"))
    except ValueError:
        raise _unreadable(part) from None
    return numbers[0] if action == "temperature" and len(numbers) == 1 else numbers


def _donor(name: str, donors: Mapping[str, Donor]) -> Donor:
    if name not in donors:
        raise InputError("donor_not_known", name=name[:100])
    return donors[name]


def _unreadable(part: str) -> InputError:
    return InputError("intervention_unreadable", part=part[:100] + ("..." if len(part) > 100 else ""))

"""Interventions as text: a short string for an address, and JSON for a file. Both are read back with every check.

A string is `SITE~ACTION`, then what is given of `~hHEADS ~qROWS ~kKEYS ~vVALUE`, in this order; interventions are
joined by `~~`. Positions are runs joined by dots (`0-2.5`), numbers are joined by underscores, a donor stands by its
name. All of these characters stand in an address as they are.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from transformer.attention.interventions.donors import Donor
from transformer.attention.interventions.value import MOST_POSITIONS, Intervention, ranges
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
    return BETWEEN.join(map(_one_to_text, interventions))


def from_text(text: str, donors: Mapping[str, Donor] | None = None) -> tuple[Intervention, ...]:
    """The interventions of a short string, in order; a donor's name is looked up in `donors`.

    Raises:
        InputError: it is too long, or a part of it is no intervention: says which, and what is wrong with it.
    """
    return tuple(_one_from_text(part, donors or {}) for part in parts(text))


def parts(text: str) -> list[str]:
    """The short string of each intervention alone, unread.

    Raises:
        InputError: it is too long.
    """
    count = text.count(BETWEEN) + 1
    if count > MOST_PARTS or len(text) > MOST_CHARACTERS:
        raise InputError("interventions_many", parts=count, most=MOST_PARTS, found=len(text), longest=MOST_CHARACTERS)
    return text.split(BETWEEN) if text else []


def to_json(interventions: Iterable[Intervention]) -> str:
    """A JSON list with an object for each intervention; what stands for all is left out."""
    return json.dumps([_one_to_json(one) for one in interventions])


def from_json(text: str, donors: Mapping[str, Donor] | None = None) -> tuple[Intervention, ...]:
    """The interventions of such a list; a donor's name is looked up in `donors`.

    Raises:
        InputError: it is no such list, or one of them is no intervention.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("interventions_no_json", error=str(error)[:200]) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError("interventions_no_list")
    if len(found) > MOST_PARTS:
        raise InputError(
            "interventions_many", parts=len(found), most=MOST_PARTS, found=len(text), longest=MOST_CHARACTERS
        )
    return tuple(_one_from_json(one, donors or {}) for one in found)


def _one_to_text(one: Intervention) -> str:
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


def _one_from_text(part: str, donors: Mapping[str, Donor]) -> Intervention:
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


def _one_to_json(one: Intervention) -> dict[str, Any]:
    value = one.value.name if isinstance(one.value, Donor) else one.value
    fields = dict(heads=one.heads, queries=one.queries, keys=one.keys, value=value)
    return {"site": str(one.site), "action": one.action} | {k: v for k, v in fields.items() if v is not None}


def _one_from_json(one: dict[str, Any], donors: Mapping[str, Donor]) -> Intervention:
    known = {"site", "action", *_PREFIXES.values()}
    if not {"site", "action"} <= one.keys() <= known:
        raise InputError("intervention_other_fields", found=tuple(map(str, list(one)[:10])), known=tuple(sorted(known)))
    value = one.get("value")
    if one["action"] in ("patch_weights", "patch_output"):
        value = _donor(str(value), donors)
    fields = {name: one.get(name) for name in ("heads", "queries", "keys")}
    return Intervention(str(one["site"]), str(one["action"]), **fields, value=value)


def _unreadable(part: str) -> InputError:
    return InputError("intervention_unreadable", part=part[:100] + ("..." if len(part) > 100 else ""))

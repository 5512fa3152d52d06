"""What a head usually does, by thresholds that were published, from its sums over a corpus; and a line that says it.

Never from one sentence. A head may have several roles or none. Sources: positional by Voita et al. 2019, section 5.2.1
(the largest weight lies at one offset in 90 % of rows), and by Clark et al. 2019, section 3.1 (half of the weight lies
there); separator by Clark et al. 2019, section 3.2 (60 % on special tokens); rare words after Voita et al. 2019,
section 5.2.3, who name no threshold: half of the sentences, here. Classifiers of sequences have classes of their own,
by the windows that rows look at most, from the threshold for positional on. Clark's 3.8 nats are out of reach of a
short sentence, so broad is a share of what can be reached.
"""

from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Any

from ..distribution import extra
from ..errors import InputError
from ..messages import Message
from ..sites import Site

SHARE = 0.5
"""A head has a role by position (Clark), or by punctuation, if that takes at least this mean share of its weight."""

BROAD = 0.9
"""A head is broad from this mean normalised entropy on; 1 is the same weight for every key."""

ALIGNED = 0.9
"""A cross-attention head is aligned from this correlation of query position and centre of attention on."""

VOITA = 0.9
"""A head is positional (Voita) if its largest weight lies at one offset in at least this share of rows."""

SEPARATOR = 0.6
"""A head rests on special tokens (Clark) from this mean share of weight on."""

RARE = 0.5
"""A head points to rare words if it does in at least this share of the sentences that have one."""

ABOVE_CHANCE = 1.5
"""A share is worth naming, where a head has no role, if it is at least so many times its chance level."""

NAMED_SHARES = ("previous", "same", "next", "start", "end", "padding", "punctuation", "number", "sibling")
"""The shares that a line about a head without a role may name."""

ROLES = (
    "place", "letters", "width", "positional", "half_previous", "half_same", "half_next", "separator", "rare",
    "punctuation", "aligned", "broad",
)  # fmt: skip
"""Every role, the most telling first."""

FOLDER = "atlas"
"""Where the atlas of a shipped checkpoint lies, in its folder."""


def roles_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The roles of a row of `heads.parquet`, the most telling first.

    - place, letters, width: at least `VOITA` of a classifier's rows look most at windows round one letter of the
      sequence, at windows that have one letter in one column, or put that much weight on windows of one of its widths;
    - positional: in a self-attention, the largest weight lies at one offset in at least `VOITA` of the rows;
    - half_previous, half_same, half_next: that position has at least half of the weight (Clark);
    - separator: start and end tokens have at least `SEPARATOR` of the weight;
    - rare: the rarest token is the most attended one in at least `RARE` of the sentences that have a rare one;
    - punctuation: at least half of the weight;
    - aligned: a cross-attention whose mean position advances with the query, and that is sure (`measures`);
    - broad: the mean entropy is at least `BROAD` of what is possible.
    """
    kind = Site(row["site"]).kind
    found = {
        "place": _reaches(row.get("place_share"), VOITA),
        "letters": _reaches(row.get("pattern_share"), VOITA),
        "width": len(row.get("widths") or ()) > 1 and _reaches(row["width_share"], VOITA),
        "positional": kind == "self" and _reaches(row["peak_share"], VOITA),
        "half_previous": _reaches(row["previous"], SHARE),
        "half_same": _reaches(row["same"], SHARE),
        "half_next": _reaches(row["next"], SHARE),
        "separator": _reaches(row["special"], SEPARATOR),
        "rare": _reaches(row["rare"], RARE),
        "punctuation": _reaches(row["punctuation"], SHARE),
        "aligned": kind == "cross" and _reaches(row["advance"], ALIGNED) and _reaches(row["confidence"], SHARE),
        "broad": _reaches(row["normalised_entropy"], BROAD),
    }
    return tuple(role for role in ROLES if found[role])


def line_of(row: Mapping[str, Any]) -> Message:
    """One line that says what a head usually does, with the number that says how usually."""
    role = next(iter(roles_of(row)), "")
    if not role:
        return _without_role(row)
    if role == "positional":
        return _offset(row, int(row["peak_offset"]), row["peak_share"])
    if role.startswith("half_"):
        name = role.removeprefix("half_")
        return Message("atlas_half", place=_place(row, name), percent=_percent(row[name]))
    if role == "aligned":
        return Message("atlas_role_aligned", correlation=f"{row['advance']:.2f}")
    measure, fields = {
        "place": ("place_share", {"letter": "place"}),
        "letters": ("pattern_share", {"letters": "pattern", "at": "pattern_at", "width": "pattern_width"}),
        "width": ("width_share", {"width": "width"}),
        "separator": ("special", {}),
        "broad": ("normalised_entropy", {}),
    }.get(role, (role, {}))
    of = {name: row[column] for name, column in fields.items()}
    return Message(f"atlas_role_{role}", **of, percent=_percent(row[measure]))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file.

    Raises:
        InputError: it cannot be read.
    """
    with extra("atlas"):  # waits until something is read
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError("atlas_damaged", path="/".join(path.parts[-3:])) from error
    return rows


def largest_shares(row: Mapping[str, Any], count: int) -> list[tuple[str, float, float]]:
    """The shares that are furthest above their chance level: name, share, and how many times chance that is."""
    known = [(name, row[name], row[f"{name}_chance"]) for name in NAMED_SHARES]
    there = [(name, share, chance) for name, share, chance in known if _reaches(share, 0.0) and chance > 0]
    there.sort(key=lambda one: one[2] - one[1])
    return [(name, share, share / chance) for name, share, chance in there[:count]]


def share_name(row: Mapping[str, Any], name: str) -> Message:
    """What a share is on, in words; positions of a decoder are where tokens are read."""
    return _place(row, name) if name in {"previous", "same", "next"} else Message(f"atlas_share_{name}")


def _without_role(row: Mapping[str, Any]) -> Message:
    if _reaches(row.get("place_share"), ABOVE_CHANCE * (row.get("place_chance") or 1.0)):
        ratio = row["place_share"] / row["place_chance"]
        fields = {"percent": _percent(row["place_share"]), "ratio": f"{ratio:.1f}"}
        return Message("atlas_most_place", letter=row["place"], **fields)
    best = [one for one in largest_shares(row, 1) if one[2] >= ABOVE_CHANCE]
    if not best:
        return Message("atlas_no_habit", percent=_percent(row["normalised_entropy"]))
    name, share, ratio = best[0]
    return Message("atlas_no_role", what=share_name(row, name), percent=_percent(share), ratio=f"{ratio:.1f}")


def _offset(row: Mapping[str, Any], offset: int, share: float) -> Message:
    percent, way = _percent(share), "back" if offset < 0 else "on"
    if abs(offset) > 1:
        return Message(f"atlas_positional_far_{way}", count=abs(offset), percent=percent)
    here = "read" if Site(row["site"]).stack == "decoder" else "same"
    return Message(f"atlas_positional_{way if offset else here}", percent=percent)


def _place(row: Mapping[str, Any], name: str) -> Message:
    side = "_read" if Site(row["site"]).stack == "decoder" and name in {"previous", "same"} else ""
    return Message(f"atlas_place_{name}{side}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _reaches(value: float | None, threshold: float) -> bool:
    return value is not None and not isnan(value) and value >= threshold

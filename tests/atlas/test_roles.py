"""Roles by their published thresholds, and the line that says what a head does."""

from math import inf, nan
from pathlib import Path

import pytest

from transformer.atlas.roles import largest_shares, line_of, roles, roles_of
from transformer.atlas.statistics import MEASURES


def row(site: str = "encoder.1.self", **values: object) -> dict[str, object]:
    """A head that does nothing in particular, but for `values`."""
    plain = dict.fromkeys(MEASURES, 0.1) | {f"{name}_chance": 0.1 for name in MEASURES}
    return plain | {"site": site, "head": 0, "peak_offset": 2, "peak_share": 0.2, "normalised_entropy": 0.5} | values


ALIGNS = {"error_read": 0.27, "error_written": 0.9, "site": "decoder.0.cross"}
PLACE = {"place": 30, "place_share": 0.91, "place_chance": 0.05}
LETTERS = {"pattern": "AG", "pattern_at": 10, "pattern_width": 11, "pattern_share": 0.92}
WIDTH = {"widths": [0.06, 0.94], "width": 11, "width_share": 0.94}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, ()),
        ({"peak_offset": -1, "peak_share": 0.9}, ("positional",)),
        ({"peak_offset": -1, "peak_share": 0.899}, ()),
        ({"peak_share": 0.95, "site": "decoder.1.cross"}, ()),
        ({"previous": 0.5, "peak_share": 0.9}, ("positional", "half_previous")),
        ({"next": 0.499}, ()),
        ({"special": 0.6}, ("separator",)),
        ({"special": 0.59}, ()),
        ({"rare": 0.5}, ("rare",)),
        ({"punctuation": 0.7}, ("punctuation",)),
        ({"normalised_entropy": 0.9}, ("broad",)),
        ({"advance": 0.95, "confidence": 0.6, "site": "decoder.0.cross"}, ("aligned",)),
        ({"advance": 0.95, "confidence": 0.6}, ()),
        ({"advance": 0.95, "confidence": 0.4, "site": "decoder.0.cross"}, ()),
        ({"previous": nan, "rare": nan, "special": nan}, ()),
        (ALIGNS, ("aligns",)),
        (ALIGNS | {"error_read": 0.28}, ()),
        ({"error_read": nan, "error_written": nan}, ()),
        (PLACE | LETTERS, ("place", "letters")),
        (PLACE | {"place_share": 0.89}, ()),
        (LETTERS | {"pattern_share": 0.89}, ()),
        (WIDTH, ("width",)),
        (WIDTH | {"widths": [1.0]}, ()),
        ({"place_share": None, "pattern_share": None, "widths": None}, ()),
    ],
)
def test_a_role_begins_at_its_threshold(values, found) -> None:
    assert roles_of(row(**values)) == found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"peak_offset": -1, "peak_share": 0.94}, "looks one position back in 94 % of rows"),
        ({"peak_offset": 3, "peak_share": 0.94}, "looks 3 positions ahead in 94 % of rows"),
        (
            {"peak_offset": 0, "peak_share": 0.94, "site": "decoder.0.self"},
            "looks at the token read last in 94 % of rows",
        ),
        ({"same": 0.61, "site": "decoder.0.self"}, "puts 61 % of its weight on the token read last"),
        ({"next": 0.61}, "puts 61 % of its weight on the next position"),
        ({"special": 0.7}, "rests on start and end tokens: 70 % of its weight"),
        ({"punctuation": 0.3}, "30 % of its weight on punctuation, 3.0 times chance"),
        ({}, "no single habit: 50 % of the greatest possible entropy"),
        (ALIGNS, "aligns the word written last: 27 % error"),
        (ALIGNS | {"error_written": 0.1}, "aligns the word that it writes: 10 % error"),
        (PLACE, "looks round letter 30 of every sequence in 91 % of rows"),
        (PLACE | {"place_share": 0.4}, "looks round letter 30 in 40 % of rows, 8.0 times chance"),
        (LETTERS, "looks at windows with AG at letter 10 of 11: 92 % of rows"),
        (WIDTH, "reads windows of 11 letters: 94 % of its weight"),
    ],
)
def test_a_line_says_what_a_head_does_and_how_usually(values, said) -> None:
    line = line_of(row(**values))
    assert line == said
    assert line.in_language("zh") != said


def test_shares_are_ordered_by_how_far_they_are_above_chance() -> None:
    """Six times a chance of a hundredth is less than twice one of a third."""
    values = {"number": 0.06, "number_chance": 0.01, "previous": 0.66, "previous_chance": 0.33, "end": nan}
    names = [name for name, _, _ in largest_shares(row(**values), 2)]
    assert names == ["previous", "number"]
    assert all(ratio < inf for _, _, ratio in largest_shares(row(**values, start_chance=0.0), 9))


def test_a_checkpoint_without_an_atlas_says_nothing(tmp_path: Path) -> None:
    assert roles(tmp_path) == {}

"""Interventions as values: written to text and read back, and refused by name where they are none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedmap.attention.interventions.value import MOST_PARTS, Intervention, from_text, to_text
from heedmap.errors import InputError
from tests.attention.interventions.by_hand import FIELDS, donor, made_of

NUMBERS = st.lists(st.floats(-1e9, 1e9, allow_subnormal=True), min_size=1, max_size=5)


@given(st.lists(FIELDS, max_size=4), NUMBERS, st.sets(st.integers(0, 300), min_size=1))
def test_text_brings_back_what_it_was_written_from(
    drawn: list[dict[str, Any]], numbers: list[float], rows: set[int]
) -> None:
    every = (
        Intervention("pooling", "temperature", value=abs(numbers[0]) + 1e-6),
        Intervention("decoder.cross", "mean", value=numbers),
        *(made_of(fields | dict(queries=rows)) for fields in drawn),
    )
    assert from_text(to_text(every), {"other": donor()}) == every
    assert hash(every) == hash(from_text(to_text(every), {"other": donor()}))
    assert not set(to_text(every)) - set("abcdefghijklmnopqrstuvwxyz0123456789._~-+")


def test_the_short_string_is_short_and_says_what_it_says() -> None:
    forced = Intervention("decoder.2.cross", "force", heads=[1], queries=2, keys=(5, 3), value=(0.25, 0.75))
    off = Intervention("encoder.0.self", "mean", heads=(3, 0, 1, 2, 2))
    assert to_text([forced, off]) == "decoder.2.cross~force~h1~q2~k3.5~v0.75_0.25~~encoder.0.self~mean~h0-3"
    assert forced.keys == (3, 5)
    assert forced.value == (0.75, 0.25), "weights go with their keys"
    assert str(forced.message) == "decoder.2.cross (head 1, row 2, keys 3, 5) forced to 0.75 0.25"
    assert forced.message.in_language("zh") != str(forced.message)
    assert from_text("") == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (dict(site="no site!", action="zero"), "is no name of an attention"),
        (dict(site="a", action="explode"), "action='explode' is not known: choose one of knock_out, cut"),
        (dict(site="a", action="zero", keys=(1,)), "zero changes whole rows or heads: leave keys out"),
        (dict(site="a", action="zero", heads=()), "heads names no position"),
        (dict(site="a", action="zero", heads=(-1,)), "heads holds '-1', which is no position"),
        (dict(site="a", action="zero", heads=(True,)), "heads holds 'True'"),
        (dict(site="a", action="zero", queries="12"), "queries holds '12'"),
        (dict(site="a", action="zero", queries=range(10**5)), "queries names 100000 positions, at most 20000"),
        (dict(site="a", action="zero", value=1.0), "zero takes no value"),
        (dict(site="a", action="temperature"), "value='None' does not fit temperature"),
        (dict(site="a", action="temperature", value=0), "a temperature of 0 is no temperature"),
        (dict(site="a", action="temperature", value=float("nan")), "does not fit temperature: give finite numbers"),
        (dict(site="a", action="force", value=(0.5, 0.6)), r"a sum of 1 \(here 1.1\)"),
        (dict(site="a", action="force", value=(1.5, -0.5)), r"lowest here -0.5"),
        (dict(site="a", action="force", keys=(1, 1), value=(0.5, 0.5)), "2 keys and 2 weights: give each key, once"),
        (dict(site="a", action="force", keys=(1,)), "1 keys and 0 weights"),
        (dict(site="a", action="force", value=("x",)), "does not fit force"),
        (dict(site="a", action="patch_output", value=(1.0,)), "patch_output needs a donor"),
        (dict(site="a", action="mean", value=()), "the value of mean holds 0 numbers"),
    ],
)  # fmt: skip
def test_what_is_no_intervention_is_refused_by_name(given: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Intervention(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("zero", "'zero' is no intervention: write SITE~ACTION"),
        ("a~zero~h", "is no intervention"),
        ("a~zero~h1~h2", "is no intervention"),
        ("a~zero~x1", "is no intervention"),
        ("a~zero~h3-1", "is no intervention"),
        ("a~zero~h0-999999999", "is no intervention"),
        ("a~zero~h99999999999999999999", "is no intervention"),
        ("a~force~v0.5_x", "is no intervention"),
        ("a~temperature~v1_2", "does not fit temperature"),
        ("a~patch_output~vwhose", "the donor 'whose' is not here"),
        ("<script>~zero", "'<script>' is no name of an attention"),
        ("~~".join(["a~zero"] * 10**5), f"holds 100000 interventions in 799998 characters: at most {MOST_PARTS}"),
        ("a~zero~h" + "1." * 20_000, "at most 500 in 20000 are read"),
    ],
)
def test_a_hostile_string_is_refused_by_what_is_wrong_in_it(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        from_text(text)
    assert len(str(refused.value)) < 500

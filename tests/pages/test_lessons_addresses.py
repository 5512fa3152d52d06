"""Addresses that no control of a lesson wrote: each value is ignored, and the lesson opens."""

import pytest

from tests.pages.opening import fine, opened

HOSTILE: dict[str, dict[str, tuple[str, ...]]] = {
    "attention_steps": {
        "cell": ("S0:99,1", "<script>:1,1", "S0:-1,\N{SUPERSCRIPT TWO}", "", "none", "S0:1", "S0:1,2,3", "S0:,"),
        "attention": ("<b>", "additive"), "d_model": ("1e9", "6"), "n_heads": ("4",), "n_tokens": ("-4", "2"),
        "seed": ("99999999999999999999",), "dropout": ("nan", "1e", "."), "blind": ("77",), "lang": ("xx",),
        "at_step": ("8",), "scaled": ("maybe",), "stage": ("mask",), "split": ("8",),
        "temperature": ("0", "99", "inf"),
    },
    "inside_layer": {
        "stage": ("<b>", "norm", "output", "order", "residual"), "cell": ("Y.1e9.2",), "form": ("layer",),
        "side": ("decoder",), "part": ("pooling", "cross"), "norm_first": ("maybe",), "position": ("99", "-1"),
        "at_layer": ("7",), "d_model": ("3",), "n_tokens": ("1",),
    },
    "masks": {
        "mask": ("<b>",), "row": ("9",), "screen": ("nothing",), "how": ("?",), "convention": ("numpy",),
        "given": ("numpy",),
    },
    "positions": {
        "screen": ("?", "rotation"), "base": ("0",), "d_table": ("1e3",), "n_rows": ("-1",), "variant": ("<b>",),
        "steps": ("500",), "p": ("99",),
    },
}  # fmt: skip
"""By page and key: values that are none, each of which stands in an address with one of every other key."""


@pytest.mark.parametrize("page", HOSTILE)
def test_a_hostile_address_is_ignored(page: str) -> None:
    values = HOSTILE[page]
    for turn in range(max(map(len, values.values()))):
        fine(opened(page, **{key: found[turn % len(found)] for key, found in values.items()}))

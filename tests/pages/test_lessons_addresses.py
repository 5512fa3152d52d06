"""Addresses that no control of a lesson wrote: each is ignored, and the lesson opens."""

import pytest

from tests.pages.opening import fine, opened

HOSTILE: dict[str, list[dict[str, str]]] = {
    "attention_steps": [
        {"cell": "S0:99,1"}, {"cell": "<script>:1,1"}, {"cell": "S0:-1,²"}, {"cell": ""}, {"attention": "<b>"},
        {"d_model": "1e9"}, {"n_tokens": "-4"}, {"seed": "99999999999999999999"}, {"dropout": "nan"},
        {"dropout": "1e"}, {"dropout": "."}, {"blind": "77"}, {"lang": "xx"}, {"n_heads": "4", "d_model": "6"},
        {"attention": "additive", "at_step": "8", "n_tokens": "2"}, {"scaled": "maybe"},
        {"stage": "mask", "attention": "additive"}, {"split": "8"},
        {"temperature": "0"}, {"temperature": "99"}, {"temperature": "inf"}, {"cell": "none"},
        {"cell": "S0:1"}, {"cell": "S0:1,2,3"}, {"cell": "S0:0,1"}, {"cell": "S0:,"},
    ],
    "inside_layer": [
        {"stage": "<b>"}, {"cell": "Y.1e9.2", "stage": "norm"}, {"form": "layer"},
        {"side": "decoder", "part": "pooling"}, {"norm_first": "maybe", "stage": "residual"},
        {"stage": "output", "position": "99"}, {"position": "-1", "stage": "output"}, {"at_layer": "7"},
        {"d_model": "3", "stage": "norm"}, {"part": "cross", "stage": "order"}, {"n_tokens": "1", "stage": "output"},
    ],
    "masks": [
        {"mask": "<b>"}, {"row": "9"}, {"screen": "nothing"}, {"how": "?"}, {"convention": "numpy"},
        {"given": "numpy"}, {"lang": "zh"},
    ],
    "positions": [
        {"base": "0"}, {"d_table": "1e3"}, {"n_rows": "-1"}, {"variant": "<b>"}, {"screen": "?"},
        {"screen": "rotation"}, {"screen": "rotation", "steps": "500"}, {"screen": "rotation", "p": "99"},
        {"screen": "rotation", "base": "0"}, {"screen": "rotation", "d_table": "1e3"},
        {"screen": "rotation", "n_rows": "-1"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "address"), [(page, address) for page, addresses in HOSTILE.items() for address in addresses]
)
def test_a_hostile_address_is_ignored(page: str, address: dict[str, str]) -> None:
    fine(opened(page, **address))

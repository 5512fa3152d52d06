"""Options that configs of our own folders once had: a folder that was written with their defaults is still read."""

from collections.abc import Mapping
from typing import Any

RETIRED: Mapping[str, Mapping[str, Any]] = {
    "encoder": {
        "segment": False, "norm_after_embedding": False, "conv_width": 0, "conv_reads": 0, "conv_stride": 1,
        "conv_padding": 0, "conv_activation": "none", "conv_pool": 1, "conv_dilation": 1, "early": [],
        "conv_norms": [], "conv_norm_late": False, "conv_norm_eps": 1e-5, "cls_id": -1, "cls_positioned": True,
    },
    "kmer": {"position_place": "before"},
    "recurrent": {"wide_output": False, "feeds_input": False, "first_states": "usual", "swaps_states": False},
}  # fmt: skip
"""By architecture: each option with the value that changes nothing."""


def current_options(architecture: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a config without retired ones that change nothing; one that would is left, and refused by name."""
    retired = RETIRED.get(architecture, {})
    return {
        key: value
        for key, value in config.items()
        if not (key in retired and type(value) is type(retired[key]) and value == retired[key])
    }

"""Every view of the dashboard by its address: one list for all tests that look at every view."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LISTED: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

VIEWS: Mapping[str, Sequence[str]] = LISTED["views"]
"""By page, the rest of the address of each view."""

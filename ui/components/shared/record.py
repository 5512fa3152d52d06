"""The record of the page, brought to the browser once, and what a component is told that draws from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from transformer.plots.canvas.record import Packed
from ui.components.shared import bundle

TOLD = "address.told"
"""Where a session keeps what the browser told of the keys that it owns, until the run that it asked for."""

_bring = st.components.v2.component("heedmap.record", js=bundle.script("record.js"))


@dataclass(frozen=True)
class Local:
    """What a component is told that draws from a record by what the address says, both of which the browser has.

    `address` is what `ui.shared.address.browser_owned` says of the keys that the browser owns: what it found at which
    arrival.
    """

    record: str
    address: Mapping[str, Any]

    def message(self) -> dict[str, Any]:
        """The part of a component's header that tells it so."""
        return {"local": {"record": self.record, **self.address}}


def post(record: Packed, key: str) -> None:
    """Bring a record to the browser, where it is kept while it stays the same."""
    _bring(key=key, data=record.message)

"""Put a canvas component on the page: its weights in one message, its options in another, the page's record in a third.

The browser gets the scripts as `make scripts` builds them from the modules here; they are committed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import streamlit as st

from heedmap.plots.canvas import blob
from heedmap.plots.canvas.views import Packed, sentences

BUILT = Path(__file__).parents[1] / "built"
"""Where the built scripts lie."""

ALL, MAP = "all.js", "all.js.map"
"""The script that brings all components with their styles, and where its lines come from."""

REPORTED = "address.told"
"""Where a session keeps what the browser told of the keys that it owns, until the run that it asked for."""

_by_page = list[None]()
"""One, where the page loads all scripts by itself (`ui.frame`)."""


@cache
def script(name: str) -> str:
    """A built script: an ES module that imports nothing."""
    return (BUILT / name).read_text(encoding="utf-8")


_post_options = st.components.v2.component("heedmap.options", js=script("options.js"))
_bring_scripts = st.components.v2.component("heedmap.scripts", js=script(ALL))
_bring_record = st.components.v2.component("heedmap.record", js=script("record.js"))


def page_brings_scripts() -> None:
    """Say that every page of this server loads all components' scripts by itself: no message brings them any more."""
    _by_page[:] = [None]


Local = Mapping[str, Any]
"""What a component is told that draws from a record by what the address says, both of which the browser has: the
`record` by its name, and what `ui.shared.state` says of the keys that the browser owns."""


def post(record: Packed, key: str) -> None:
    """Bring a record to the browser, where it is kept while it stays the same."""
    _bring_record(key=key, data=record.message)


class CanvasComponent:
    """The component whose script is called `name`, drawn from weights, words (those of `words`) and a few options.

    Streamlit sends a message again as a whole when any of it changes. So scripts and styles have one message, where the
    page does not load them by itself, which the browser keeps for good, the weights have another, which it keeps while
    they stay the same, and the options (selection, threshold) have a third one of a few bytes. The first and the last
    are of elements without size. The container's key ends in `-canvas`: what is below waits until it has drawn.
    """

    def __init__(self, name: str, words: str = "") -> None:
        self.name, self._words = name, words or name
        self._mount = st.components.v2.component(f"heedmap.{name}", js=script("mount.js"))

    def message(self, key: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
        """What the browser is sent besides options: `header` with what every component needs, and the arrays."""
        return blob.pack({"instance": key, "words": sentences(self._words), **header}, arrays)

    def __call__(
        self,
        *,
        key: str,
        header: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray] = MappingProxyType({}),
        options: Mapping[str, Any] = MappingProxyType({}),
        events: Mapping[str, Callable[[Any], None] | None] = MappingProxyType({}),
    ) -> None:
        """Draw.

        `events` names the events; each function is called with the event's value before the run that the event starts,
        as a widget's `on_change` is. What nobody listens to (None) starts no run.
        """
        heard = {name: function for name, function in events.items() if function is not None}

        def before_run(name: str) -> Callable[[], None]:
            def tell() -> None:
                value = st.session_state[key][name]
                if value is not None:
                    heard[name](value)

            return tell

        listeners: dict[str, Any] = {f"on_{name}_change": before_run(name) for name in heard}
        with st.container(gap=None, key=f"{key}-canvas"):
            if not _by_page:
                _bring_scripts(key=f"{key}.script")
            self._mount(key=key, data=self.message(key, header, arrays), **listeners)
            _post_options(key=f"{key}.options", data={"instance": key, "events": list(heard), **options})

    def of_record(
        self,
        local: Local,
        key: str,
        arrays: Mapping[str, np.ndarray] = MappingProxyType({}),
        *,
        options: Mapping[str, Any] = MappingProxyType({}),
        events: Mapping[str, Callable[[Any], None] | None] = MappingProxyType({}),
        **header: Any,
    ) -> None:
        """Draw from the page's record, which the browser has: what is chosen is written into the address there.

        Every view of the record follows, and no run is started.
        """
        self(key=key, header={"local": local, **header}, arrays=arrays, options=options, events=events)

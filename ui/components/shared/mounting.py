"""Put a canvas component on the page: its weights in one message, its options in another."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import streamlit as st

from transformer.plots.canvas import blob
from transformer.plots.canvas.sentences import sentences
from ui.components.shared import bundle

_by_page = list[None]()
"""One, where the page loads all scripts by itself (`ui.scripts`)."""

_post_options = st.components.v2.component("heedmap.options", js=bundle.script("options.js"))
_bring_scripts = st.components.v2.component("heedmap.scripts", js=bundle.script(bundle.ALL))


def page_brings_scripts() -> None:
    """Say that every page of this server loads all components' scripts by itself: no message brings them any more."""
    _by_page[:] = [None]


class CanvasComponent:
    """The component whose scripts stand in the folder `name`, drawn from weights, words and a few options.

    Streamlit sends a message again as a whole when any of it changes. So scripts and styles have one message, where the
    page does not load them by itself, which the browser keeps for good, the weights have another, which it keeps while
    they stay the same, and the options (selection, threshold) have a third one of a few bytes. The first and the last
    are of elements without size. The container's key ends in `-canvas`: what is below waits until it has drawn.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._mount = st.components.v2.component(bundle.registered(name), js=bundle.script("mount.js"))

    def message(self, key: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
        """What the browser is sent besides options: `header` with what every component needs, and the arrays."""
        return blob.pack({"instance": key, "words": sentences(self._name), **header}, arrays)

    def __call__(
        self,
        *,
        key: str,
        header: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        options: Mapping[str, Any],
        events: Mapping[str, Callable[[Any], None] | None],
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

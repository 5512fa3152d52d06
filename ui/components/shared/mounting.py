"""Put a canvas component on the page: its weights in one message, its options in another."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from ui.components.shared import bundle

_post_options = st.components.v2.component("heedmap.options", js=bundle.script("options.js"))


class CanvasComponent:
    """A component of one ES module, drawn from a blob of weights and a few options.

    Streamlit sends a message again as a whole when any of it changes. So the weights have one message, which the
    browser keeps while they stay the same, and the options (selection, threshold) have another of a few bytes, from an
    element without size.
    """

    def __init__(self, name: str, module: str) -> None:
        self._mount = st.components.v2.component(f"heedmap.{name}", css=bundle.stylesheet(), js=bundle.script(module))

    def __call__(
        self,
        *,
        key: str,
        blob: bytes,
        options: Mapping[str, Any],
        events: Mapping[str, Callable[[Any], None]],
    ) -> Mapping[str, Any]:
        """Draw, and return what each event brought in this run (None for one that did not happen).

        `blob`'s header must hold `"instance": key`. `events` names the events; each function is called with the event's
        value before the run that the event starts, as a widget's `on_change` is.
        """

        def before_run(name: str) -> Callable[[], None]:
            return lambda: events[name](st.session_state[key][name])

        listeners: dict[str, Any] = {f"on_{name}_change": before_run(name) for name in events}
        with st.container(gap=None):
            result = self._mount(key=key, data=blob, **listeners)
            _post_options(key=f"{key}.options", data={"instance": key, **options})
        return {name: result.get(name) for name in events}

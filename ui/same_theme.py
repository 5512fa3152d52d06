"""The theme is read from the configuration once: Streamlit reads all of its options again for every run, six times."""

from collections.abc import Callable

from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session

Fill = Callable[[CustomThemeConfig, str], None]
"""What Streamlit fills one section of a theme with, by the section's name."""


def once(fill: Fill) -> Fill:
    """The same, for options that do not change while the server runs."""
    kept: dict[str, CustomThemeConfig] = {}

    def filled(message: CustomThemeConfig, section: str = "theme") -> None:
        if section not in kept:
            made = CustomThemeConfig()
            fill(made, section)
            kept[section] = made
        if kept[section].ByteSize():  # an empty section is not there, and stays away
            message.MergeFrom(kept[section])

    return filled


def read_once() -> None:
    """Let Streamlit do so from now on."""
    app_session._populate_theme_msg = once(app_session._populate_theme_msg)

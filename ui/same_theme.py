"""The theme is read from the configuration once: Streamlit reads all of its options again for every run, six times."""

from typing import Protocol

from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session


class Fill(Protocol):
    """What Streamlit fills one section of a theme with, by the section's name."""

    def __call__(self, msg: CustomThemeConfig, section: str = "theme") -> None:
        """Write what the configuration says."""


def once(fill: Fill) -> Fill:
    """The same, for options that do not change while the server runs."""
    kept: dict[str, CustomThemeConfig] = {}

    def filled(msg: CustomThemeConfig, section: str = "theme") -> None:
        if section not in kept:
            made = CustomThemeConfig()
            fill(made, section)
            kept[section] = made
        if kept[section].ByteSize():  # an empty section is not there, and stays away
            msg.MergeFrom(kept[section])

    return filled


def read_once() -> None:
    """Let Streamlit do so from now on."""
    app_session._populate_theme_msg = once(app_session._populate_theme_msg)

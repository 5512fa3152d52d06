"""Every run tells the browser the theme that Streamlit would read for it."""

from streamlit.proto.NewSession_pb2 import CustomThemeConfig
from streamlit.runtime import app_session

from ui.same_theme import once

SECTIONS = ("theme", "theme.light", "theme.dark", "theme.sidebar", "theme.light.sidebar", "theme.dark.sidebar")


def told(fill) -> bytes:
    """The theme as a run tells it: sections within sections."""
    message = CustomThemeConfig()
    light, dark = message.light, message.dark
    parts = (message, light, dark, message.sidebar, light.sidebar, dark.sidebar)
    for part, section in zip(parts, SECTIONS, strict=True):
        fill(part, section)
    return message.SerializeToString(deterministic=True)


def test_the_theme_is_the_same_in_every_run_and_read_once():
    asked = []

    def counted(message, section):
        asked.append(section)
        app_session._populate_theme_msg(message, section)

    own = told(app_session._populate_theme_msg)
    assert b"#0b6472" in own, "the project's own theme"
    quick = once(counted)
    assert [told(quick) for _ in range(3)] == [own] * 3
    assert asked == list(SECTIONS)

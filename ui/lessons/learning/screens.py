"""The screens of the lesson "Learning" by name; each gets the row in which its controls stand."""

from collections.abc import Callable

from streamlit.delta_generator import DeltaGenerator

from ui.lessons.learning.history import history_panel
from ui.lessons.learning.pair import pair_panel
from ui.lessons.learning.theory import rate_panel, smoothing_panel, start_panel
from ui.lessons.learning.watch import watch_panel

SCREENS: dict[str, Callable[[DeltaGenerator], None]] = {
    "watch": watch_panel,
    "rate": rate_panel,
    "smoothing": smoothing_panel,
    "start": start_panel,
    "lesson": pair_panel,
    "training": history_panel,
}

"""The screens of the lesson "Masks" by name; each gets the row in which its controls stand."""

from collections.abc import Callable

from streamlit.delta_generator import DeltaGenerator

from ui.lessons.masks.breaking import break_panel
from ui.lessons.masks.conventions import conventions_panel
from ui.lessons.masks.example import Example
from ui.lessons.masks.leaks import leak_panel
from ui.lessons.masks.module import module_panel
from ui.lessons.masks.panels import build_panel, scores_panel

OF_A_BATCH: dict[str, Callable[[Example, DeltaGenerator], None]] = {
    "build": build_panel,
    "scores": scores_panel,
    "conventions": conventions_panel,
    "break": break_panel,
}
"""Screens that look at the typed sentences."""

ALONE: dict[str, Callable[[DeltaGenerator], None]] = {
    "module": module_panel,
    "test": leak_panel,
}
"""Screens that do not."""

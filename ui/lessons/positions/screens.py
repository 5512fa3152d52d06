"""The screens of the lesson "Positions" by name; each gets the row in which its controls stand."""

from collections.abc import Callable

from streamlit.delta_generator import DeltaGenerator

from ui.lessons.positions.experiments import end_panel, later_panel, order_panel, share_panel
from ui.lessons.positions.tables import distance_panel, rotation_panel, table_panel, waves_panel
from ui.lessons.positions.variants import variants_panel

SIZED: dict[str, Callable[[int, int, float, DeltaGenerator], None]] = {
    "table": table_panel,
    "waves": waves_panel,
    "distance": distance_panel,
    "rotation": rotation_panel,
    "variants": variants_panel,
}
"""Screens that show a table of chosen size."""

UNSIZED: dict[str, Callable[[DeltaGenerator], None]] = {
    "later": later_panel,
    "order": order_panel,
    "end": end_panel,
    "share": share_panel,
}
"""Screens that do not."""

OF_A_MODEL = ("order", "share")
"""Screens whose checkpoint is chosen beside the page, which only the page's own run can draw."""

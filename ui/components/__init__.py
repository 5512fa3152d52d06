"""The two canvas components of the dashboard: a grid of all heads, and one layer's heads as lines between tokens."""

from ui.components.all_heads import Picked, all_heads
from ui.components.head_view import HeadViewEvent, Token, head_view

__all__ = ["HeadViewEvent", "Picked", "Token", "all_heads", "head_view"]

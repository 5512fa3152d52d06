"""The scripts of components as the browser gets them: built from the modules here by `make scripts`, and committed."""

from functools import cache
from pathlib import Path

BUILT = Path(__file__).parents[1] / "built"
"""Where the built scripts lie."""

ALL, MAP = "all.js", "all.js.map"
"""The script that brings all components with their styles, and where its lines come from."""


@cache
def script(name: str) -> str:
    """A built script: an ES module that imports nothing."""
    return (BUILT / name).read_text(encoding="utf-8")


def registered(component: str) -> str:
    """What Streamlit calls a component."""
    return f"heedmap.{component}"

"""The scripts and styles of components as Streamlit takes them: inline, each a module of its own, or all in one."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from transformer.plots.canvas import linker

HERE = Path(__file__).parents[1]
"""The folder of all components; scripts are named by their paths below it."""


@cache
def script(module: str) -> str:
    """`module` (a path below `HERE`, with a default export) and all that it imports, as one ES module."""
    return linker.script(HERE / module)


@cache
def library(component: str) -> str:
    """The script of a component, and its styles, as a module that brings them to the page and draws nothing."""
    modules, arrivals = _brought([component])
    return f"{modules}\nexport default () => {{ {arrivals} }};"


@cache
def libraries() -> str:
    """The same of all components, each of their modules once, for a page that loads it by itself."""
    return "\n".join(_brought(sorted(path.parent.name for path in HERE.glob("*/component.py"))))


def entry(component: str) -> Path:
    """The script of a component, which stands beside its Python, or with the views that notebooks show too."""
    beside = HERE / component / f"{component}.js"
    return beside if beside.is_file() else linker.CANVAS / component / f"{component}.js"


def _brought(components: Sequence[str]) -> tuple[str, str]:
    """Components' scripts with all that they import, and the calls that bring them, with their styles, to a page."""
    found = linker.Linker()
    drawn = [f"const drawn_{name} = {found.default(entry(name))};" for name in components]
    arrived = f"{found.module(HERE / 'shared' / 'scripts.js')}.arrived"
    styles = f"const styles = {json.dumps(stylesheet())};"
    arrivals = (f"{arrived}({json.dumps(registered(name))}, drawn_{name}, styles);" for name in components)
    return "\n".join([*found.modules(), styles, *drawn]), " ".join(arrivals)


def registered(component: str) -> str:
    """What Streamlit calls a component."""
    return f"heedmap.{component}"


@cache
def stylesheet() -> str:
    """The components' CSS."""
    return f"{linker.stylesheet()}\n{(HERE / 'shared' / 'components.css').read_text(encoding='utf-8')}"

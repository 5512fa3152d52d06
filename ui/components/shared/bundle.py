"""Join ES modules into the one inline script that a Streamlit component takes, without a build step.

Streamlit loads an inline script from a blob address, where a relative `import` leads nowhere. So each module that is
imported becomes a function that runs once and returns its exports, in the order in which they are needed. Scripts are
written in the part of the language that this can link, and anything else is refused:

    import { name, name } from "../folder/module.js";
    export function name, export async function name, export class name, export const name, export default (entry only)
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

HERE = Path(__file__).parents[1]
"""The folder of all components; scripts are named by their paths below it."""

IMPORT = re.compile(r'^import \{(\s*\w+(?:\s*,\s*\w+)*\s*,?\s*)\} from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"^[ \t]*(?:/\*\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
"""A comment that has its lines to itself: it is for whoever reads the script here, and not sent."""

FOREIGN = re.compile(r"^(?:import|export)\b[^\n]*|[^\n]*\bimport\s*\([^\n]*", re.MULTILINE)


class LinkError(ValueError):
    """A script is written in a way that cannot be linked: a mistake in the code, which a test finds."""


@cache
def script(module: str, folder: Path = HERE) -> str:
    """`module` (a path below `folder`, with a default export) and all that it imports, as one ES module.

    Raises:
        LinkError: a module imports or exports in a form that is not linked, imports itself by way of others, or
            imports what is not there.
    """
    linked: dict[Path, _Module] = {}
    entry = _linked(folder / module, linked, ())
    return "\n".join([*(f"const {one.name} = (() => {{\n{one.text}\n}})();" for one in linked.values()), entry])


@cache
def library(component: str) -> str:
    """The script of a component, and its styles, as a module that brings them to the page and draws nothing."""
    modules, arrivals = _brought([component])
    return f"{modules}\nexport default () => {{ {arrivals} }};"


@cache
def libraries() -> str:
    """The same of all components, each of their modules once, for a page that loads it by itself."""
    return "\n".join(_brought(sorted(path.parent.name for path in HERE.glob("*/component.py"))))


def _brought(components: Sequence[str]) -> tuple[str, str]:
    """Components' scripts with all that they import, and the calls that bring them, with their styles, to a page."""
    linked: dict[Path, _Module] = {}
    drawn = []
    for component in components:
        entry = _linked(HERE / component / f"{component}.js", linked, ())
        body = entry.replace("export default ", "const drawn = ", 1)
        drawn.append(f"const drawn_{component} = (() => {{\n{body.rstrip()}\nreturn drawn;\n}})();")
    scripts = HERE / "shared" / "scripts.js"
    if scripts not in linked:
        linked[scripts] = _Module(scripts, _linked(scripts, linked, (HERE,)), len(linked))
    modules = (f"const {one.name} = (() => {{\n{one.text}\n}})();" for one in linked.values())
    styles = f"const styles = {json.dumps(stylesheet())};"
    arrived = f"{linked[scripts].name}.arrived"
    arrivals = (f"{arrived}({json.dumps(registered(name))}, drawn_{name}, styles);" for name in components)
    return "\n".join([*modules, styles, *drawn]), " ".join(arrivals)


def registered(component: str) -> str:
    """What Streamlit calls a component."""
    return f"heedmap.{component}"


@cache
def stylesheet() -> str:
    """The components' CSS."""
    return (HERE / "shared" / "components.css").read_text(encoding="utf-8")


class _Module:
    """A module as the body of a function that returns its exports, under a name that no other has."""

    def __init__(self, path: Path, body: str, number: int) -> None:
        self.exports = tuple(match[1] for match in EXPORT.finditer(body))
        self.name = f"module{number}_{re.sub(r'[^a-z0-9]', '_', path.stem)}"
        text = EXPORT.sub("", body)
        _refuse_foreign(path, text)
        self.text = f"{text.rstrip()}\nreturn {{ {', '.join(self.exports)} }};"


def _linked(path: Path, linked: dict[Path, _Module], above: tuple[Path, ...]) -> str:
    """The text of a module that takes its imports from the functions that `linked` gains for them."""
    if not path.is_file():
        raise LinkError(f"{above[-1].name if above else 'a component'} imports {path}, which is not there")
    text = REMARK.sub("", path.read_text(encoding="utf-8"))
    for names, address in IMPORT.findall(text):
        other = (path.parent / address).resolve()
        if other in (path, *above):
            circle = " > ".join(one.name for one in (*above, path, other))
            raise LinkError(f"modules import each other in a circle ({circle}): move what they share to a third one")
        if other not in linked:
            body = _linked(other, linked, (*above, path))
            linked[other] = _Module(other, body, len(linked))
        for name in set(re.findall(r"\w+", names)) - set(linked[other].exports):
            raise LinkError(f"{path.name} imports {name}, which {other.name} does not export")
    taken = IMPORT.sub(lambda match: _taken(match, path, linked), text)
    if not above:
        _refuse_foreign(path, re.sub(r"^export default\b", "", taken, count=1, flags=re.MULTILINE))
    return taken


def _taken(match: re.Match[str], path: Path, linked: Mapping[Path, _Module]) -> str:
    return f"const {{{match[1]}}} = {linked[(path.parent / match[2]).resolve()].name};"


def _refuse_foreign(path: Path, text: str) -> None:
    """What is left of imports and exports in a linked text was in no form that is linked."""
    if found := FOREIGN.search(COMMENT.sub("", text)):
        raise LinkError(
            f"{path.name}: “{found[0].strip()}” cannot be linked: import names in braces, without `as`, from a "
            "relative path; export a function, a class or a const where it is defined"
        )

"""Join ES modules into one inline script, without a build step.

In a notebook's cell, a saved page or a component of Streamlit a relative `import` leads nowhere. So each module that is
imported becomes a function that runs once and returns its exports, in the order in which they are needed. Scripts are
written in the part of the language that this can link, and anything else is refused:

    import { name, name } from "../folder/module.js";
    export function name, export async function name, export class name, export const name, export default (entry only)
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

CANVAS = Path(__file__).parent
"""The folder of the views that draw a record, one folder each, with what they share."""

IMPORT = re.compile(r'^import \{(\s*\w+(?:\s*,\s*\w+)*\s*,?\s*)\} from "(\.\.?/[\w./-]+\.js)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"^[ \t]*(?:/\*\*.*?\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL)
"""A comment that has its lines to itself: it is for whoever reads the script here, and not sent."""

FOREIGN = re.compile(r"^(?:import|export)\b[^\n]*|[^\n]*\bimport\s*\([^\n]*", re.MULTILINE)


class LinkError(ValueError):
    """A script is written in a way that cannot be linked: a mistake in the code, which a test finds."""


@cache
def script(entry: Path) -> str:
    """A module and all that it imports, as one ES module.

    Raises:
        LinkError: a module imports or exports in a form that is not linked, imports itself by way of others, or
            imports what is not there.
    """
    linker = Linker()
    text = linker.entry(entry)
    return "\n".join([*linker.modules(), text])


@cache
def stylesheet() -> str:
    """The CSS of the views of a record."""
    return (CANVAS / "canvas.css").read_text(encoding="utf-8")


class Linker:
    """Several entries that share the modules which they import: each is there once."""

    def __init__(self) -> None:
        self._linked: dict[Path, _Module] = {}

    def entry(self, path: Path) -> str:
        """The text of a module that may have a default export, or none; it is to stand below `modules`."""
        return _linked(path.resolve(), self._linked, ())

    def default(self, path: Path) -> str:
        """An expression for the default export of a module, which runs it; it is to stand below `modules`."""
        body = self.entry(path).replace("export default ", "const drawn = ", 1)
        return f"(() => {{\n{body.rstrip()}\nreturn drawn;\n}})()"

    def module(self, path: Path) -> str:
        """What the exports of a module are called in the script."""
        whole = path.resolve()
        if whole not in self._linked:
            body = _linked(whole, self._linked, (whole.parent,))
            self._linked[whole] = _Module(whole, body, len(self._linked))
        return self._linked[whole].name

    def modules(self) -> list[str]:
        """All that was imported so far, in the order in which it is needed."""
        return [f"const {one.name} = (() => {{\n{one.text}\n}})();" for one in self._linked.values()]


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

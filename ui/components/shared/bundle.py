"""Join ES modules into the one inline script that a Streamlit component takes, without a build step.

Streamlit loads an inline script from a blob address, where a relative `import` leads nowhere. So each module that is
imported becomes a function that runs once and returns its exports, in the order in which they are needed.
"""

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parents[1]

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@cache
def script(module: str) -> str:
    """`module` (a file of this folder with a default export) and all that it imports, as one ES module."""
    before: dict[str, str] = {}
    text = _linked(module, before)
    return "\n".join([*before.values(), text])


@cache
def stylesheet() -> str:
    """The components' CSS."""
    return (HERE / "components.css").read_text(encoding="utf-8")


def _linked(module: str, before: dict[str, str]) -> str:
    """The text of a module with imports taken from the functions that `before` gains for them."""
    text = (HERE / module).read_text(encoding="utf-8")
    for imported in (match[2] for match in IMPORT.finditer(text)):
        if imported not in before:
            body = _linked(imported, before)
            names = ", ".join(match[1] for match in EXPORT.finditer(body))
            before[imported] = (
                f"const {_name(imported)} = (() => {{\n{EXPORT.sub('', body)}return {{ {names} }};\n}})();"
            )
    return IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_name(match[2])};\n", text)


def _name(module: str) -> str:
    return f"module_{module.removesuffix('.js')}"

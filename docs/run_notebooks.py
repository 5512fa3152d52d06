"""`python -m docs.run_notebooks`: run every notebook of docs/notebooks and keep its outputs in it.

Outputs are small on purpose: text, tables and pictures, but not the interactive views of a record (130 kB each).
"""

import ast
import base64
import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "notebooks"
ROOT = HERE.parent.parent
Output = dict[str, Any]


def outputs(code: str, names: dict[str, object]) -> list[Output]:
    """Run a cell; returns what it prints, and its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    found: list[Output] = []
    value: object = None
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the code is ours
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - the same
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        found.append({"output_type": "display_data", "metadata": {}, "data": _shown(value)})
    return found


def run(path: Path) -> dict[str, Any]:
    """A notebook with the outputs that its code gives now, in the repository's root as the working directory."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = outputs("".join(cell["source"]), names)
    finally:
        os.chdir(before)
    return notebook


def _shown(value: Any) -> dict[str, Any]:
    """What a notebook shows of a value, as far as it reads well without its scripts."""
    if hasattr(value, "_repr_mimebundle_") and not hasattr(value, "_repr_png_"):
        return {"text/plain": _lines(value._repr_mimebundle_()["text/plain"])}
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    if hasattr(value, "_repr_png_"):
        data = {"text/plain": ["a picture"], "image/png": base64.b64encode(value._repr_png_()).decode()}
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
    return data


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Run all and write them."""
    for path in sorted(HERE.glob("*.ipynb")):
        path.write_text(json.dumps(run(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

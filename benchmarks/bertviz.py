"""BertViz's model_view and head_view drawing the same weights in the same browser.

`python -m benchmarks.bertviz FOLDER` puts BertViz and the three scripts that its page asks the network for into
FOLDER (with pip and npm, nothing else on this machine is touched).
"""

import json
import subprocess
import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Route

from benchmarks.browsing import chromium_seconds, seconds_until_calm
from benchmarks.heads import N_HEADS, N_LAYERS, TOKENS, attention_of_heads
from transformer.attention.record import AttentionMap

View = Literal["model_view", "head_view"]

VERSION = "1.4.1"
SCRIPTS = {
    "require.min.js": ("requirejs@2.3.6", "requirejs/require.js"),
    "d3.min.js": ("d3@5.7.0", "d3/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.2.4", "jquery/dist/jquery.min.js"),
}
"""What the page loads: its name there, the npm package, and the file in it."""


def install(folder: Path) -> None:
    """Fill `folder` with BertViz and its scripts."""
    packages = [package for package, _ in SCRIPTS.values()]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        f"bertviz=={VERSION}",
    ]
    subprocess.run(pip, check=True)
    subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), *packages], check=True)


def drawn(browser: Browser, folder: Path, view: View = "model_view") -> tuple[int, float]:
    """Bytes of the page of a view, and the browser's CPU seconds from opening it until it is calm again."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / f"{view}.html"
        path.write_text(page_of(folder, attention_of_heads(), view), encoding="utf-8")
        size = path.stat().st_size
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        for name, (_, source) in SCRIPTS.items():
            script = (folder / "node_modules" / source).read_text(encoding="utf-8")
            page.route(f"**/{name}", partial(_answer, script))
        before = chromium_seconds()
        page.goto(path.as_uri(), timeout=600_000)
        page.wait_for_function("document.querySelectorAll('#vis svg line').length > 0", timeout=600_000)
        seconds_until_calm(page, 600)
        lines = page.evaluate("document.querySelectorAll('#vis svg line').length")
        seconds = chromium_seconds() - before
        page.close()
    expected = (N_LAYERS if view == "model_view" else 1) * N_HEADS * len(TOKENS) ** 2
    if lines < expected:
        raise AssertionError(f"BertViz drew {lines} of {expected} lines: its page did not finish")
    return size, seconds


def page_of(folder: Path, maps: list[AttentionMap], view: View = "model_view") -> str:
    """The page that a view makes with `html_action="return"`, without the notebook that it expects around it."""
    program = (folder / "bertviz" / f"{view}.js").read_text(encoding="utf-8")
    root = f"bertviz-{uuid.uuid4().hex}"
    attention = {"name": None, "attn": [layer.all_weights().tolist() for layer in maps]}
    parameters = {
        "attention": [attention | {"left_text": TOKENS, "right_text": TOKENS}],
        "default_filter": "0",
        "display_mode": "dark",
        "root_div_id": root,
        "include_layers": list(range(N_LAYERS)),
        "include_heads": list(range(N_HEADS)),
        "total_heads": N_HEADS,
    }
    return (
        '<!DOCTYPE html><meta charset="utf-8"><script src="https://example.org/require.min.js"></script>'
        f'<div id="{root}"><select id="layer"></select><div id="vis"></div></div>'
        f"<script>{program.replace('PYTHON_PARAMS', json.dumps(parameters))}</script>"
    )


def _answer(script: str, route: Route) -> None:
    route.fulfill(body=script, content_type="text/javascript")


if __name__ == "__main__":
    install(Path(sys.argv[1]))

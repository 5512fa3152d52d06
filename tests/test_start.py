"""What starts fast stays fast: heavy libraries are imported where they are used, not before the first page."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

STARTED = """
import pkgutil, sys
import transformer, ui
for package in (transformer, ui):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            __import__(module.name)
print(*(name for name in ("scipy", "transformers") if name in sys.modules))
"""


def test_no_module_imports_what_only_some_runs_need() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-2000:]

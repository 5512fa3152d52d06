"""`python -m benchmarks [SECTION ...]`: measure, print, and write results.json and the tables of docs/performance.md.

Without a section all are measured, which takes a quarter of an hour; with some, the other lines of results.json stay.
The times are worth most on a machine that does nothing else.
"""

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import plotly
import streamlit
import torch

from benchmarks import any_module, atlas, first_screen, forward, load, reading, scan
from benchmarks.measuring import Result, machine

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of what was measured -->"
REACHED = {True: "yes", False: "**no**", None: ""}
SECTIONS: dict[str, Callable[[], list[Result]]] = {
    "forward": forward.measure,
    "any_module": any_module.measure,
    "reading": reading.measure,
    "scan": scan.measure,
    "load": load.measure,
    "atlas": atlas.measure,
    "first_screen": first_screen.measure,
}


def run(sections: list[str]) -> None:
    """Measure some sections and write all that is known."""
    torch.set_num_threads(1)
    path = HERE / "results.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    versions = {"torch": torch.__version__, "streamlit": streamlit.__version__, "plotly": plotly.__version__}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    for section in sections:
        results = SECTIONS[section]()
        known["measured_on"][section] = f"{machine()}; Python {platform.python_version()}, {told}"
        known["results"][section] = [asdict(result) for result in results]
        for result in results:
            print(f"{result.what}: {result.measured}" + (f" (goal: {result.goal})" if result.goal else ""), flush=True)
        path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        publish(table(known))


def publish(measured: str) -> None:
    """Write the same lines between the two comments of docs/performance.md that name them."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{before}\n{measured}{after}", encoding="utf-8")


def table(known: dict[str, Any]) -> str:
    """Everything measured as Markdown, ready to be included."""
    lines = [
        "One thread. Variants take turns; ratios are medians over the rounds, of CPU time, which on an idle machine is",
        "wall time. `make benchmark` repeats it.",
    ]
    for section in SECTIONS:
        rows = [Result(**row) for row in known["results"].get(section, [])]
        if rows:
            lines += [
                "",
                f"**{rows[0].section}**",
                "",
                f"On {known['measured_on'][section]}.",
                "",
                "| what | measured | goal | reached |",
                "| --- | --- | --- | --- |",
            ]
            lines += [f"| {row.what} | {row.measured} | {row.goal} | {REACHED[row.reached]} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what the project promises.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of {', '.join(SECTIONS)}; default: all")
    chosen = parser.parse_args().sections or list(SECTIONS)
    unknown = [section for section in chosen if section not in SECTIONS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no section: choose from {', '.join(SECTIONS)}")
    run(chosen)

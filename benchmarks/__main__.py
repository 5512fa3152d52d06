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

from benchmarks import corpus, first_screen, load, memory, recording
from benchmarks.measuring import Result, machine

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of what was measured -->"
HEAD = """One thread. Variants take turns; ratios are medians over the rounds, of CPU time, which on an idle machine is
wall time. `make benchmark` repeats it.
"""
COLUMNS = "| what | measured | goal | reached |\n| --- | --- | --- | --- |\n"
REACHED = {True: "yes", False: "**no**", None: ""}
SECTIONS: dict[str, Callable[[], list[Result]]] = {
    "forward": recording.measure,
    "any_module": recording.measure_any,
    "reading": recording.measure_reading,
    "scan": corpus.measure_scan,
    "load": load.measure,
    "memory": memory.measure,
    "atlas": corpus.measure_atlas,
    "first_screen": first_screen.measure,
}


def run(sections: list[str]) -> None:
    """Measure some sections, and write all that is known after each."""
    torch.set_num_threads(1)
    path = HERE / "results.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    versions = {"torch": torch.__version__, "streamlit": streamlit.__version__, "plotly": plotly.__version__}
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    for section in sections:
        results = SECTIONS[section]()
        known["measured_on"][section] = f"{machine()}; Python {platform.python_version()}, {said}"
        known["results"][section] = [asdict(result) for result in results]
        for result in results:
            print(f"{result.what}: {result.measured}" + (f" (goal: {result.goal})" if result.goal else ""), flush=True)
        path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
        before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        PAGE.write_text(f"{before}\n{table(known)}{after}", encoding="utf-8")


def table(known: dict[str, Any]) -> str:
    """Everything measured as Markdown, as docs/performance.md holds it between two comments."""
    text = HEAD
    for section in (section for section in SECTIONS if known["results"].get(section)):
        rows = [Result(**row) for row in known["results"][section]]
        text += f"\n**{rows[0].section}**\n\nOn {known['measured_on'][section]}.\n\n{COLUMNS}"
        text += "".join(f"| {row.what} | {row.measured} | {row.goal} | {REACHED[row.reached]} |\n" for row in rows)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what the project promises.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"some of {', '.join(SECTIONS)}; default: all")
    chosen = parser.parse_args().sections or list(SECTIONS)
    unknown = [section for section in chosen if section not in SECTIONS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no section: choose from {', '.join(SECTIONS)}")
    run(chosen)

"""Why `runner.fastReruns` is off: what a slider dragged over a page that computes makes the server do.

`python -m benchmarks.reruns` prints both settings side by side. With it on, each move starts a run beside those that
still compute; with it off, a move waits for the run before it, and moves in between are left out.
"""

import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, expect

from benchmarks.browsing import served
from benchmarks.measuring import Result
from tests.browser.visiting import chromium_opened

MOVES = 10
PAUSE = 0.3
"""Seconds between moves: longer than the slider's own delay before it reports, shorter than a run."""

SECTION = "A slider dragged over a page that computes 0.4 s"


def drag(browser: Browser, fast: bool) -> tuple[int, int, float]:
    """Runs that one drag of `MOVES` steps started, the most that ran at once, seconds from the last move to the end."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        settings = {"LOG": str(log), "STREAMLIT_RUNNER_FAST_RERUNS": str(fast).lower()}
        with served("slow_page.py", **settings) as address:
            page = browser.new_page()
            page.goto(address)
            expect(page.get_by_text("shown 0", exact=True)).to_be_visible(timeout=60_000)
            thumb = page.get_by_role("slider")
            thumb.focus()
            log.write_text("")
            for _ in range(MOVES):
                thumb.press("ArrowRight")
                time.sleep(PAUSE)
            moved = time.monotonic() - PAUSE
            expect(page.get_by_text(f"shown {MOVES}", exact=True)).to_be_visible(timeout=60_000)
            waited = time.monotonic() - moved
            time.sleep(2)  # runs that were overtaken may still compute
            page.close()
            events = sorted((float(line.split()[1]), line.startswith("begin")) for line in log.read_text().splitlines())
    together = most = 0
    for _, begins in events:
        together += 1 if begins else -1
        most = max(most, together)
    return sum(begins for _, begins in events), most, waited


def measure(rounds: int = 3) -> list[Result]:
    """Both settings, in turns."""
    drags: dict[bool, list[tuple[int, int, float]]] = {True: [], False: []}
    with chromium_opened() as browser:
        for turn in range(2 * rounds):
            drags[turn % 2 == 0].append(drag(browser, fast=turn % 2 == 0))
    results = []
    for fast in (True, False):
        runs, at_once, waited = (statistics.median(column) for column in zip(*drags[fast], strict=True))
        measured = f"{runs:.0f} runs for {MOVES} moves, {at_once:.0f} at once, last move to picture {waited:.1f} s"
        results.append(Result(SECTION, f"fastReruns = {str(fast).lower()}", measured))
    return results


if __name__ == "__main__":
    for result in measure():
        print(f"{result.what}: {result.measured}")

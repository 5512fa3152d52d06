"""What a scan costs: the windows of a long sequence that may hold a splice site, and every one, on both strands."""

import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.measuring import Result, cpu_seconds
from transformer.checkpoint import load
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.scan import ScanPlan, plan_scan

SECTION = "A scan of both strands (the shipped splice-junction classifier)"
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "splice-junctions"
MEASURED = {False: 60_000, True: 10_000}
"""Letters of the scans that are measured, by whether every window is read."""

MEGABASE, GOAL = 1_000_000, 40
"""Letters of the goal, and seconds that two cores may take for those of their windows that may hold a site."""


def random_letters(length: int) -> str:
    """The same letters every time."""
    chosen = torch.randint(4, (length,), generator=torch.Generator().manual_seed(0))
    return "".join("ACGT"[i] for i in chosen.tolist())


def scan(plan: ScanPlan, workers: int = 1) -> None:
    """Read everything."""
    for _ in plan.blocks(workers):
        pass


def measure() -> list[Result]:
    """Windows a CPU second, and what a million letters take."""
    checkpoint = load(CHECKPOINT)
    _, task = classifier(checkpoint)
    results = []
    for every, length in MEASURED.items():
        plan = plan_scan(checkpoint, task.alphabet.read(random_letters(length)), every=every)
        started = time.perf_counter()
        seconds = cpu_seconds(partial(scan, plan, workers=2))
        wall, cpu = (taken * MEGABASE / length for taken in (time.perf_counter() - started, seconds))
        what = "every window" if every else "windows with GT or AG"
        whole = f"{what}, a million letters by two threads (from {length:,})"
        results.append(Result(SECTION, what, f"{plan.reads / seconds:,.0f} windows a CPU second"))
        goal = () if every else (f"at most {GOAL} s", wall <= GOAL)
        results.append(Result(SECTION, whole, f"{wall:.0f} s ({cpu:.0f} s of CPU time)", *goal))
    return results

"""What a scan costs: every window of a long sequence, on both strands, beside a plain loop over the same windows."""

import time

import torch

from benchmarks.measuring import Result, cpu_seconds, interleaved, ratio
from benchmarks.sequences import CHECKPOINT, random_letters
from transformer.checkpoint import load
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.classify import calibrated, classifier
from transformer.runs.sequences.scan import ScanPlan, plan_scan

SECTION = "A scan of both strands at step 1 (the shipped splice-junction classifier)"
LETTERS, MEASURED = 1_000, 20_000
"""Letters that the plain loop and the scan take turns over, and those of the scan on two cores."""

MEGABASE, SECONDS = 1_000_000, 180
LOOP = 64
"""Windows of a pass of the plain loop, with which it is quickest."""


def scan(plan: ScanPlan, workers: int = 1) -> None:
    """Read everything."""
    for _ in plan.blocks(workers):
        pass


def plain(checkpoint: Checkpoint, plan: ScanPlan) -> None:
    """Each window through the model, as anyone would write it."""
    model, task = classifier(checkpoint)
    with torch.inference_mode():
        for text in (plan.letters.text, task.alphabet.reverse_complement(plan.letters.text)):
            windows = torch.tensor(task.alphabet.ids(text)).unfold(0, plan.width, plan.step)
            for start in range(0, len(windows), LOOP):
                calibrated(model(windows[start : start + LOOP]), task)


def measure() -> list[Result]:
    """Windows a CPU second of the loop and of the scan, and how long a million letters take on two cores."""
    checkpoint = load(CHECKPOINT)
    _, task = classifier(checkpoint)
    short, long = (plan_scan(checkpoint, task.alphabet.read(random_letters(n))) for n in (LETTERS, MEASURED))
    times = interleaved({"loop": lambda: plain(checkpoint, short), "scan": lambda: scan(short)}, 7)
    rates = {name: short.passes / min(seconds) for name, seconds in times.items()}
    faster = 1 / ratio(times, "scan", "loop")
    began = time.monotonic()
    used = cpu_seconds(lambda: scan(long, workers=2))
    waited = time.monotonic() - began
    passes = 2 * (MEGABASE - long.width + 1)
    minutes = waited / long.passes * passes / 60
    return [
        Result(SECTION, "a plain loop", f"{rates['loop']:,.0f} windows a CPU second"),
        Result(SECTION, "a scan", f"{rates['scan']:,.0f} windows a CPU second, {faster:.1f} times the plain loop"),
        Result(
            SECTION,
            f"a million letters on two threads (from {MEASURED:,}; wall time)",
            f"{minutes:.1f} min ({used / long.passes * passes / 60:.1f} min of CPU time)",
            f"under {SECONDS / 60:.0f} min",
            60 * minutes < SECONDS,
        ),
    ]

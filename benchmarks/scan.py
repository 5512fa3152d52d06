"""What a scan costs: every window of a long sequence, on both strands."""

from benchmarks.measuring import Result, cpu_seconds
from benchmarks.sequences import CHECKPOINT, random_letters
from transformer.checkpoint import load
from transformer.runs.sequences.classify import classifier
from transformer.runs.sequences.scan import ScanPlan, plan_scan

SECTION = "A scan of both strands at step 1 (the shipped splice-junction classifier)"
MEASURED = 20_000
"""Letters of the scan that is measured."""

MEGABASE = 1_000_000


def scan(plan: ScanPlan, workers: int = 1) -> None:
    """Read everything."""
    for _ in plan.blocks(workers):
        pass


def measure() -> list[Result]:
    """Windows a CPU second, and what a million letters take."""
    checkpoint = load(CHECKPOINT)
    _, task = classifier(checkpoint)
    plan = plan_scan(checkpoint, task.alphabet.read(random_letters(MEASURED)))
    rate = plan.passes / cpu_seconds(lambda: scan(plan, workers=2))
    minutes = 2 * (MEGABASE - plan.width + 1) / rate / 60
    return [
        Result(SECTION, "a scan", f"{rate:,.0f} windows a CPU second"),
        Result(SECTION, f"a million letters (from {MEASURED:,})", f"{minutes:.1f} min of CPU time"),
    ]

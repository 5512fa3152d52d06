"""What the page Learning claims, over five seeds: `python -m benchmarks.learning [SEEDS]`, about six CPU minutes."""

import sys
from collections.abc import Callable
from dataclasses import replace

import torch

from transformer.training.snapshots import SCHEDULE, Learning, Measures
from transformer.training.tasks import Settings

DEEP = Settings(n_layers=4, n_heads=2, norm_first=False, rate=0.01)
REPEAT = Settings(task="repeat", n_layers=2)


def first(
    settings: Settings, until: Callable[[Measures], bool], seconds: float, updates: int = SCHEDULE[-1]
) -> Measures:
    """The first snapshot that is so, else the last one within so many processor seconds and updates."""
    run = Learning(settings)
    for update in SCHEDULE:
        run.advance(update)
        found = run.snapshot(keeps=False).measures
        if until(found) or found.seconds > seconds or update >= updates:
            return found
    return found


def said(found: Measures) -> str:
    """A snapshot in one line."""
    weight = found.sharpest[2] if found.sharpest else float("nan")
    return (
        f"{found.accuracy:6.1%} right, weight {weight:.2f}, top {found.top:.3f}, {found.update:,} updates, "
        f"{found.seconds:.1f} s"
    )


def main(seeds: int = 5) -> None:
    """Print a line a run."""
    torch.set_num_threads(1)
    runs: dict[str, tuple[Settings, Callable[[Measures], bool], float, int]] = {
        "reverse: 99 % right within 10 s": (Settings(), lambda one: one.accuracy >= 0.99, 10.0, 4_000),
        "reverse: weight 0.9 within 20 s": (
            Settings(),
            lambda one: (one.sharpest or ("", 0, 0.0))[2] >= 0.9,
            20.0,
            4_000,
        ),
        "smoothing: top 0.89 to 0.92": (Settings(smoothing=True), lambda _: False, 60.0, 400),
        "repeat, two layers: weight 0.5": (REPEAT, lambda one: (one.sharpest or ("", 0, 0.0))[2] >= 0.5, 20.0, 1_000),
        "repeat, one layer": (replace(REPEAT, n_layers=1), lambda _: False, 60.0, 1_000),
        "post-norm without warm-up: at most 10 %": (DEEP, lambda _: False, 60.0, 1_000),
        "post-norm with warm-up: 99 % within 1,000": (
            replace(DEEP, warmup=True),
            lambda one: one.accuracy >= 0.99,
            60.0,
            1_000,
        ),
    }
    for name, (settings, until, seconds, updates) in runs.items():
        for seed in range(1, seeds + 1):
            found = first(replace(settings, seed=seed), until, seconds, updates)
            sys.stdout.write(f"{name} | seed {seed} | {said(found)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

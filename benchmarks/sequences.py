"""What 4,096 letters cost that are read as one, and a map of 16,000 windows of which no complete one is ever held."""

from functools import partial
from operator import getitem
from pathlib import Path

import torch

from benchmarks.measuring import Result, median_seconds
from transformer import Checkpoint
from transformer.attention.zoom import Zoom
from transformer.checkpoint import load
from transformer.plots.canvas import blob
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, classify
from ui.components.heatmap.component import layers_of

SECTION = f"A sequence of {LETTERS_AT_ONCE:,} letters (the shipped splice-junction classifier)"
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "splice-junctions"
SPANS = (20_000, 8_000, 2_000, 700, 480, 240, 60)
"""Cells along a side of the windows that are looked through."""

SECONDS = 1.0
"""What a person waits without losing the thread; each look is computed once a sequence."""


def random_letters(length: int) -> str:
    """The same letters every time."""
    chosen = torch.randint(4, (length,), generator=torch.Generator().manual_seed(0))
    return "".join("ACGT"[i] for i in chosen.tolist())


def measure() -> list[Result]:
    """Classifying with everything recorded, and looking through a window at what was recorded."""
    checkpoint = load(CHECKPOINT)
    run = partial(classify, checkpoint, random_letters(LETTERS_AT_ONCE))
    seen = run()
    seconds = median_seconds(run, 5)
    what = f"classified, everything recorded ({len(seen.spans):,} windows)"
    first = Result(SECTION, what, f"{seconds:.2f} s", f"under {SECONDS:.0f} s", seconds < SECONDS)
    return [first, *_zooming(checkpoint)]


def _zooming(checkpoint: Checkpoint) -> list[Result]:
    """A map of more than 16,000 windows through its window: made ready once, then a step of each size."""
    run = classify(checkpoint, random_letters(2 * LETTERS_AT_ONCE))
    attention = run.record[run.record.sites[0]]
    size = len(run.spans)
    ready = median_seconds(lambda: Zoom.of(attention, 1), 3)
    zoom = Zoom.of(attention, 1)
    took, sent = 0.0, 0
    for span in SPANS:
        rows, keys = (slice(first, first + min(span, size - first)) for first in (size // 3, size // 5))
        look = partial(zoom.view, rows, keys)
        look()  # rows are known once they were looked at
        took = max(took, median_seconds(look, 9))
        names = partial(getitem, attention.keys.labels)
        sent = max(sent, len(blob.pack({}, layers_of([look()], zoom.largest, names, names)[1])))
    what = f"{size:,} windows"
    return [
        Result(SECTION, f"{what}: one head made ready to be zoomed", f"{ready:.2f} s", "2 s", ready < 2),
        Result(SECTION, f"{what}: a step of the zoom, the slowest", f"{1e3 * took:.2f} ms", "1 ms", took < 1e-3),
        Result(SECTION, f"{what}: bytes of a step, the most", f"{sent / 1e3:.1f} kB", "64 kB", sent < 64_000),
    ]

"""What it costs to say where a written word came from: each method on the shipped translator, one sentence, one thread.

The sentence has 21 source tokens; the goal is what a page may cost while somebody looks.
"""

from functools import partial

from benchmarks.measuring import Result, median_seconds
from transformer.attribution.methods import METHODS
from transformer.checkpoint import load
from transformer.runs.translate import translate

SECTION = "Where a word came from (shipped translator, 21 source tokens)"
SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window of the old house today."
GOAL = 1.0
"""CPU seconds."""


def measure(repeats: int = 5) -> list[Result]:
    """Every method, source and prefix."""
    checkpoint = load("checkpoints/multi30k-en-de")
    translation = translate(checkpoint, SENTENCE)
    results = []
    for method in METHODS:
        seconds = median_seconds(partial(translation.attribution, checkpoint, method), repeats)
        goal, reached = f"under {GOAL:g} s", seconds < GOAL
        results.append(Result(SECTION, method.replace("_", " "), f"{1e3 * seconds:.0f} ms", goal, reached))
    return results

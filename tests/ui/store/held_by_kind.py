"""Bytes that results of each kind hold, and bytes that the budget counts of them, as JSON.

`PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system python -m tests.ui.store.held_by_kind`: then objects of Python and
columns of tables are the C library's blocks too.
"""

import gc
import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.ui.store.holding import in_use, letters, words
from transformer import DecodingOptions
from transformer.atlas.tables import read_rows
from transformer.lessons.recipe import Recipe
from ui.lessons import shared as lessons
from ui.lessons.inside_layer import examples
from ui.map.runs import shown
from ui.sequences.runs import classification
from ui.store import cache, runs, shipped, store
from ui.store.budget import RESULTS
from ui.what_if import runs as what_if

TRANSLATOR, RECURRENT, CLASSIFIER = "multi30k-en-de", "multi30k-en-de-rnn", "splice-junctions"
OPTIONS = DecodingOptions(beam=3)
CHANGE = ("encoder.0.self~mean~h0", "")
EACH_KIND, WARM = 3, 2
chance = random.Random(5)
kept = cache.Store()


def keep(value: Any) -> None:
    """Keep a value as results are kept."""
    kept.put(chance.random(), value)


def attributed() -> None:
    """A translation and where its words came from."""
    runs.attribution(TRANSLATOR, words(chance, 4, 6), DecodingOptions(beam=1), None, None, "norms")


KINDS: Mapping[str, Callable[[], object]] = {
    "objects of Python": lambda: keep([(i + 0.5, str(i), {"at": i + 1_000}) for i in range(500)]),
    "small tensors": lambda: keep([torch.full((3,), i) for i in range(500)]),
    "large tensors": lambda: keep(torch.zeros(chance.randint(10**5, 10**6))),
    "small arrays": lambda: keep([np.full(3, i) for i in range(500)]),
    "a table": lambda: keep(pd.DataFrame({"word": [f"word {i}" for i in range(1_000)], "share": np.arange(1_000.0)})),
    "bytes": lambda: keep(b"x" * chance.randint(10**4, 10**6)),
    "a translation": lambda: runs.translation(TRANSLATOR, words(chance), OPTIONS, None),
    "a forced translation": lambda: runs.translation(TRANSLATOR, words(chance), OPTIONS, words(chance)),
    "a recurrent translation": lambda: runs.translation(RECURRENT, words(chance), OPTIONS, None),
    "texts of a beam": lambda: runs.hypothesis_texts(TRANSLATOR, words(chance), OPTIONS),
    "an attribution": attributed,
    "a run of any model": lambda: runs.any_run(TRANSLATOR, words(chance), OPTIONS, None),
    "a map": lambda: shown(TRANSLATOR, words(chance)),
    "a map of a sequence": lambda: shown(CLASSIFIER, letters(chance)),
    "a classification": lambda: classification(CLASSIFIER, letters(chance)),
    "a changed run": lambda: what_if.on_same_target(TRANSLATOR, (words(chance), OPTIONS, None), CHANGE),
    "a run in float64": lambda: examples.run_of(TRANSLATOR, text := words(chance), text)(),
    "an attention layer in float64": lambda: lessons.shipped_board(
        TRANSLATOR, words(chance, 3, 6), None, "encoder.0.self", Recipe()
    ),
    "an atlas": lambda: keep(read_rows(shipped.CHECKPOINTS / TRANSLATOR / "atlas" / "heads.parquet")),
}
"""What makes another result of each kind, as the dashboard keeps it."""


def main() -> None:
    """Measure each kind."""
    for name in (TRANSLATOR, RECURRENT, CLASSIFIER):
        store.checkpoint(name)
    for make in [*KINDS.values()] * WARM:  # what is prepared once for each kind of model
        make()
    gc.freeze()  # what was there before is not looked through each time that objects are collected
    found = {}
    for kind, make in KINDS.items():
        each = []
        for _ in range(EACH_KIND):
            held, counted = in_use(), RESULTS.held
            make()
            each.append((in_use() - held, RESULTS.held - counted))
        found[kind] = sorted(each, key=lambda one: one[0] / one[1])[EACH_KIND // 2]  # what a size needs once is in one
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()

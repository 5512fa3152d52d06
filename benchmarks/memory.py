"""Whether counted bytes are those that are held: of each kind of result, and of a server while results come and go.

Processes of this module measure themselves, in which objects of Python and columns of tables are blocks of the C
library too.
"""

import ctypes
import gc
import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.measuring import Result
from heedmap import DecodingOptions
from heedmap.atlas.roles import read_rows
from heedmap.lessons.attention import Recipe
from heedmap.runs import memory
from ui.lessons.attention_example import shipped_layer
from ui.lessons.inside_layer import run_of
from ui.map import shown
from ui.sequences.source import classification
from ui.store import cache, limits, runs, store
from ui.store.cache import RESULTS
from ui.what_if import changed as what_if

ROOT = Path(__file__).parents[1]
SECTION = "Memory: what is counted of results, and what they take (glibc)"
TRANSLATOR, RECURRENT, CLASSIFIER = "multi30k-en-de", "multi30k-en-de-rnn", "splice-junctions"
OPTIONS = DecodingOptions(beam=3)
CHANGE = ("encoder.0.self~mean~h0", "")
EACH_KIND, WARM = 3, 2
FIRST, ACTIONS = 16, 48
"""Actions after which all is loaded and prepared that is so once, and those that fill 8 MB three times over."""

WORDS = ("a", "dog", "man", "in", "the", "red", "street", "with", "two", "children", "and", "bicycle", "plays", "near")
FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

chance = random.Random(5)
kept = cache.Store()


class Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in FIELDS.split())


def in_use() -> int:
    """Bytes that somebody refers to, as the allocator tells it (glibc): of heaps, and of blocks beside them."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    return int(mallinfo().uordblks + mallinfo().hblkhd)


def words(least: int = 4, most: int = 12) -> str:
    """A sentence that nobody has typed before."""
    return " ".join(chance.choices(WORDS, k=chance.randint(least, most)))


def letters() -> str:
    """A sequence that nobody has typed before."""
    return "".join(chance.choices("ACGT", k=chance.randint(60, 200)))


def keep(value: Any) -> None:
    """Keep a value as results are kept."""
    kept.put(chance.random(), value)


def attributed() -> None:
    """A translation and where its words came from."""
    runs.attribution(TRANSLATOR, words(4, 6), DecodingOptions(beam=1), None, None, "norms")


KINDS: Mapping[str, Callable[[], object]] = {
    "objects of Python": lambda: keep([(i + 0.5, str(i), {"at": i + 1_000}) for i in range(500)]),
    "small tensors": lambda: keep([torch.full((3,), i) for i in range(500)]),
    "large tensors": lambda: keep(torch.zeros(chance.randint(10**5, 10**6))),
    "small arrays": lambda: keep([np.full(3, i) for i in range(500)]),
    "a table": lambda: keep(pd.DataFrame({"word": [f"word {i}" for i in range(1_000)], "share": np.arange(1_000.0)})),
    "bytes": lambda: keep(b"x" * chance.randint(10**4, 10**6)),
    "a translation": lambda: runs.translation(TRANSLATOR, words(), OPTIONS, None),
    "a forced translation": lambda: runs.translation(TRANSLATOR, words(), OPTIONS, words()),
    "a recurrent translation": lambda: runs.translation(RECURRENT, words(), OPTIONS, None),
    "texts of a beam": lambda: runs.hypothesis_texts(TRANSLATOR, words(), OPTIONS),
    "an attribution": attributed,
    "a run of any model": lambda: runs.any_run(TRANSLATOR, words(), OPTIONS, None),
    "a map": lambda: shown.run_of(TRANSLATOR, words()),
    "a map of a sequence": lambda: shown.run_of(CLASSIFIER, letters()),
    "a classification": lambda: classification(CLASSIFIER, letters(), None),
    "a changed run": lambda: what_if.on_same_target(store.revision(TRANSLATOR), (words(), OPTIONS, None), CHANGE),
    "a run in float64": lambda: run_of(TRANSLATOR, text := words(), text)(),
    "an attention layer in float64": lambda: shipped_layer(
        store.revision(TRANSLATOR), words(3, 6), None, "encoder.0.self"
    ).board(Recipe()),
    "an atlas": lambda: keep(read_rows(store.CHECKPOINTS / TRANSLATOR / "atlas" / "heads.parquet")),
}
"""What makes another result of each kind, as the dashboard keeps it."""


def by_kind() -> dict[str, tuple[int, int]]:
    """Bytes that results of each kind hold, and bytes that are counted of them."""
    for name in (TRANSLATOR, RECURRENT, CLASSIFIER):
        store.checkpoint(name)
    for make in [*KINDS.values()] * WARM:  # what is prepared once for each kind of model
        make()
    gc.freeze()  # what was there before is not looked through each time that objects are collected
    found = {}
    for kind, make in KINDS.items():
        each = []
        for _ in range(EACH_KIND):
            held, counted = in_use(), RESULTS.n_bytes
            make()
            each.append((in_use() - held, RESULTS.n_bytes - counted))
        found[kind] = sorted(each, key=lambda one: one[0] / one[1])[EACH_KIND // 2]  # what a size needs once is in one
    return found


def act(number: int) -> None:
    """One of four actions, on a text that is new."""
    if number % 4 == 0:
        classification(CLASSIFIER, letters(), None)
    elif number % 4 == 1:
        runs.translation(TRANSLATOR, words(), DecodingOptions(beam=5, max_length=30), None)
    else:
        shown.run_of(TRANSLATOR, words())


def while_used() -> dict[str, int]:
    """Bytes that lie in memory, and that are counted, once the cache was filled several times over, two at a time."""
    memory.share_heaps()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(act, range(FIRST)))
        cache.clear()
        gc.collect()
        memory.trim()
        before, counted = limits.resident(), RESULTS.n_bytes
        list(pool.map(act, range(ACTIONS)))
    return {"held": limits.resident() - before, "counted": RESULTS.n_bytes - counted}


def held(what: str, **settings: str) -> Any:
    """What a process of its own measures about itself."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **settings}
    command = [sys.executable, "-m", "benchmarks.memory", what]
    return json.loads(subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def measure() -> list[Result]:
    """Each kind of result, and a cache of 8 MB that is filled several times over."""
    measured = held("by_kind", PYTHONMALLOC="malloc", ARROW_DEFAULT_MEMORY_POOL="system")
    shares = {kind: taken / counted for kind, (taken, counted) in measured.items()}
    table = shares.pop("a table")  # pandas and pyarrow both name a column's bytes
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    said = f"{shares[least]:.2f} ({least}) to {shares[most]:.2f} ({most})"
    kept = held("while_used", HEEDMAP_CACHE_MB="8")
    beyond = (kept["held"] - kept["counted"]) / 2**20
    what = f"taken of each byte that is counted, {len(shares)} kinds of results"
    return [
        Result(SECTION, what, said, "0.80 to 1.20", shares[least] > 0.8 and shares[most] < 1.2),
        Result(SECTION, "the same of a table", f"{table:.2f}", "0.50 to 1.20", 0.5 < table < 1.2),
        Result(SECTION, f"held beyond what is counted after {ACTIONS} actions, two at a time", f"{beyond:.0f} MB",
               "40 MB", beyond < 40),
    ]  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # nobody is there to be shown a spinner
    sys.stdout.write(json.dumps({"by_kind": by_kind, "while_used": while_used}[sys.argv[1]]()))

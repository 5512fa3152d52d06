"""What a pass over a corpus costs: its statistics against plain forward passes, memory, and what two processes gain.

The shipped translator; pairs of random tokens of one length on both sides, as many as run together in a pass; for two
processes the pairs that ship with it, again and again.
"""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import torch

from benchmarks.measuring import Result, interleaved, peak_growth, ratio
from transformer.atlas.adapters import Counts, Reading, TranslatorSubject
from transformer.atlas.corpus import Corpus
from transformer.atlas.executors import Executor, Processes, Serial
from transformer.atlas.run import Request, make_atlas
from transformer.atlas.summarise import batches
from transformer.checkpoint import load
from transformer.runs.memory import recycle_memory

SECTION = "The head atlas (the shipped translator, 48 heads)"
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "multi30k-en-de"
LENGTHS = {8: 30, 16: 20, 32: 12, 64: 8}
"""Tokens of both sides -> rounds."""

PAIRS = 48
COST = 1.25
"""What statistics may cost, as a share of a plain pass."""

SENTENCE, TRANSLATION = "Two dogs are playing in the snow near a lake.", "Zwei Hunde spielen im Schnee an einem See."
LINES = 500

WORKERS, FASTER = 2, 1.5
"""Processes against one, and how many times as fast they should be."""

TIMES, A_CHUNK, ROUNDS = 10, 125, 3
"""How often the pairs that ship are read, lines of a chunk, and rounds."""


def readings_of(length: int) -> list[Reading]:
    """Pairs of random tokens, the same every time."""
    ids = torch.randint(5, 4_000, (PAIRS, 2, length), generator=torch.Generator().manual_seed(length)).tolist()
    return [Reading(i, ("", ""), tuple(source), tuple(target)) for i, (source, target) in enumerate(ids)]


def plain(subject: TranslatorSubject, readings: list[Reading]) -> None:
    """The forward pass, logits included, as whoever runs the model pays for it."""
    source, target = (torch.tensor([getattr(one, side) for one in readings]) for side in ("source", "target"))
    subject.model(source, target)


def measure(rounds: dict[int, int] | None = None) -> list[Result]:
    """Time at each length, then memory."""
    flat = memory()
    recycle_memory()  # as the command does
    subject = TranslatorSubject(load(CHECKPOINT), Counts())
    results = []
    for length, times in (rounds or LENGTHS).items():
        groups = list(batches(readings_of(length), mixed=True))
        with torch.inference_mode():
            seconds = interleaved(
                {
                    "plain": partial(each, partial(plain, subject), groups),
                    "measured": partial(each, subject.run, groups),
                },
                times,
            )
        whole = ratio(seconds, "measured", "plain")
        statistics = whole - 1
        measured = f"{statistics:.2f} x (pass and statistics together: {whole:.2f} x)"
        results.append(
            Result(
                SECTION,
                f"{length} tokens, statistics against plain passes",
                measured,
                f"at most {COST} x",
                statistics <= COST,
            )
        )
    return [*results, flat, workers()]


def each(run: Callable[[list[Reading]], object], groups: list[list[Reading]]) -> None:
    """One batch after the other, of which nothing is kept."""
    for group in groups:
        run(group)


def memory() -> Result:
    """How far memory rises while a text is read, once and ten times as long."""
    with tempfile.TemporaryDirectory() as place:
        peaks = [peak_growth(partial(whole_pass, Path(place), times)) for times in (1, 1, 10)]
    once, ten = peaks[1:]  # the first pass warms up
    return Result(
        SECTION,
        f"extra memory of a pass over {LINES:,} and {10 * LINES:,} pairs",
        f"{once / 1e6:.0f} MB and {ten / 1e6:.0f} MB",
        "flat: at most 20 MB more",
        ten <= once + 20e6,
    )


def whole_pass(place: Path, times: int) -> None:
    """The atlas of a text that repeats itself."""
    name = f"{times}-{len(list(place.iterdir()))}"
    for side, text in (("en", SENTENCE), ("de", TRANSLATION)):
        (place / f"{name}.{side}").write_text(f"{text}\n" * LINES * times, encoding="utf-8")
    corpus = Corpus(place / f"{name}.en", place / f"{name}.de")
    make_atlas(Request(CHECKPOINT, corpus, place / name, chunk=LINES), Serial())


def workers() -> Result:
    """Wall time and CPU time of a pass by one process and by two, which are started for it and load the checkpoint."""
    seconds: dict[str, list[tuple[float, float]]] = {"one": [], "two": []}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for side in ("en", "de"):
            text = (CHECKPOINT / "alignments" / f"sentences.{side}").read_text(encoding="utf-8")
            (place / f"text.{side}").write_text(text * TIMES, encoding="utf-8")
        corpus = Corpus(place / "text.en", place / "text.de")
        executors: dict[str, Executor] = {"one": Serial(), "two": Processes(WORKERS)}
        for turn in range(ROUNDS):
            for name in sorted(executors, reverse=bool(turn % 2)):
                request = Request(CHECKPOINT, corpus, place / f"{name}-{turn}", chunk=A_CHUNK)
                seconds[name].append(wall_and_cpu(partial(make_atlas, request, executors[name])))
    (one, one_cpu), (two, two_cpu) = (
        tuple(statistics.median(values) for values in zip(*found, strict=True)) for found in seconds.values()
    )
    faster = statistics.median(a / b for (a, _), (b, _) in zip(*seconds.values(), strict=True))
    pairs = TIMES * len((CHECKPOINT / "alignments" / "links.txt").read_text(encoding="utf-8").splitlines())
    return Result(
        SECTION,
        f"{pairs:,} pairs by two processes against one, starting them included ({os.cpu_count()} logical cores)",
        f"{faster:.2f} x as fast (wall {two:.1f} s against {one:.1f} s; CPU {two_cpu:.1f} s against {one_cpu:.1f} s)",
        f"at least {FASTER} x",
        faster >= FASTER,
    )


def wall_and_cpu(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and CPU seconds of this process and of those that it started and that have ended since."""
    wall, cpu = time.monotonic(), _cpu()
    action()
    wall = time.monotonic() - wall
    for child in active_children():
        child.join()
    return wall, _cpu() - cpu


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

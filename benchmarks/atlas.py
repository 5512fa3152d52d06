"""What a pass over a corpus costs against plain forward passes, its memory, and what two processes gain.

The shipped translator, and the pairs that ship with it, again and again.
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

from benchmarks.measuring import Action, Result, interleaved, peak_growth, ratio
from transformer.atlas.adapters import Counts, Reading, TranslatorSubject
from transformer.atlas.corpus import Corpus, text_of
from transformer.atlas.executors import Executor, Processes, Serial
from transformer.atlas.in_memory import Held
from transformer.atlas.looks import share_drawn
from transformer.atlas.run import Request, make_atlas
from transformer.atlas.summarise import batches, sums_of
from transformer.checkpoint import load
from transformer.nn.protocols import written_pad
from transformer.runs.memory import recycle_memory
from transformer.text.batch import pad

SECTION = "The head atlas (the shipped translator, 48 heads)"
CHECKPOINT = Path(__file__).parent.parent / "checkpoints" / "multi30k-en-de"
COST = 1.25
"""What a pass may cost, against a forward pass."""

SENTENCE, TRANSLATION = "Two dogs are playing in the snow near a lake.", "Zwei Hunde spielen im Schnee an einem See."
LINES, CORPUS = 500, 29_000
"""Lines of a chunk, and of the text that it is taken from: so many as the translator was trained on."""

WORKERS, FASTER = 2, 1.5
"""Processes against one, and how many times as fast they should be."""

TIMES, A_CHUNK, ROUNDS = 10, 125, 3
"""How often the pairs that ship are read, lines of a chunk, and rounds."""


def measure(times: int = 5) -> list[Result]:
    """The cost of a pass against forward passes, memory, and what two processes gain."""
    flat = memory()
    recycle_memory()  # as the command does
    torch.set_num_threads(1)
    subject = TranslatorSubject(load(CHECKPOINT), Counts())
    chunk = next(shipped_pairs().chunks(LINES, drawn=share_drawn(CORPUS)))
    readings = [
        subject.read(i, text_of(source), text_of(target))
        for i, (source, target) in enumerate(zip(chunk.lines, chunk.targets or (), strict=True))
    ]
    groups = list(batches(readings, mixed=True))
    with torch.inference_mode():
        variants: dict[str, Action] = {
            "plain": partial(plain, subject, groups),
            "pass": partial(sums_of, subject, chunk),
        }
        seconds = interleaved(variants, times)
    whole = ratio(seconds, "pass", "plain")
    cost = Result(
        SECTION,
        f"CPU time of a pass over {len(readings)} pairs of {CORPUS:,} against forward passes of the same batches",
        f"{whole:.2f} x",
        f"at most {COST} x",
        whole <= COST,
    )
    return [cost, flat, workers()]


def plain(subject: TranslatorSubject, groups: list[list[Reading]]) -> None:
    """Forward passes, logits included, as whoever runs the model pays for them."""
    config = subject.model.config
    for group in groups:
        source = pad([one.source for one in group], config.pad_id)
        subject.model(source, pad([(config.bos_id, *one.target[:-1]) for one in group], written_pad(config)))


def shipped_pairs() -> Corpus:
    """The sentence pairs that ship with the checkpoint, so often that they make a chunk."""
    sides = [(CHECKPOINT / "alignments" / f"sentences.{side}").read_bytes().splitlines() for side in ("en", "de")]
    pairs = tuple(zip(*sides, strict=True)) * TIMES
    return Held(Path("text"), Path("text"), False, pairs[:LINES])


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

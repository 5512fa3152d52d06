"""What long texts cost: a scan of a million letters, and a pass of the head atlas over a corpus."""

import time
from functools import partial
from pathlib import Path

import torch

from benchmarks.measuring import Action, Result, cpu_seconds, interleaved, ratio
from heedmap.atlas.corpus import MemoryCorpus, TokenCounts, text_of
from heedmap.atlas.statistics import share_drawn
from heedmap.atlas.subjects import TextSubject
from heedmap.atlas.summarise import batches, sums_of
from heedmap.checkpoint import load
from heedmap.distribution import CHECKPOINTS
from heedmap.nn.common import pad
from heedmap.nn.protocols import written_pad
from heedmap.runs.memory import recycle_memory
from heedmap.runs.sequences.classify import classifier
from heedmap.runs.sequences.scan import plan_scan

SCAN = "A scan of both strands (the shipped splice-junction classifier)"
ATLAS = "The head atlas (the shipped translator, 48 heads)"
MEASURED = {False: 60_000, True: 10_000}
"""Letters of the scans that are measured, by whether every window is read."""

MEGABASE, GOAL = 1_000_000, 40
"""Letters of the goal, and seconds that two cores may take for those of their windows that may hold a site."""

COST, ROUNDS = 1.25, 5
"""What a pass of the atlas may cost, against forward passes, and how often each is measured."""

PAIRS = Path(__file__).resolve().parents[1] / "tools" / "alignments"
"""A folder of sentences and their translations."""

LINES, CORPUS = 500, 29_000
"""Lines of a chunk, and of the text that it is taken from: so many as the translator was trained on."""


def measure_scan() -> list[Result]:
    """Windows a CPU second, and what a million letters take: windows that may hold a splice site, and every one."""
    checkpoint = load(CHECKPOINTS / "splice-junctions")
    _, task = classifier(checkpoint)
    results = []
    for every, length in MEASURED.items():
        letters = torch.randint(4, (length,), generator=torch.Generator().manual_seed(0))
        plan = plan_scan(checkpoint, task.alphabet.read("".join("ACGT"[i] for i in letters.tolist())), every=every)
        started = time.perf_counter()
        seconds = cpu_seconds(lambda plan=plan: list(plan.blocks(2)))  # type: ignore[misc]
        wall, cpu = (taken * MEGABASE / length for taken in (time.perf_counter() - started, seconds))
        what = "every window" if every else "windows with GT or AG"
        whole = f"{what}, a million letters by two threads (from {length:,})"
        results.append(Result(SCAN, what, f"{plan.reads / seconds:,.0f} windows a CPU second"))
        goal = () if every else (f"at most {GOAL} s", wall <= GOAL)
        results.append(Result(SCAN, whole, f"{wall:.0f} s ({cpu:.0f} s of CPU time)", *goal))
    return results


def measure_atlas() -> list[Result]:
    """CPU time of a pass over the pairs of `tools/alignments` against forward passes of the same batches."""
    recycle_memory()  # as the command does
    subject = TextSubject(load(CHECKPOINTS / "multi30k-en-de"), TokenCounts())
    sides = [(PAIRS / f"sentences.{side}").read_bytes().splitlines() for side in ("en", "de")]
    pairs = tuple(zip(*sides, strict=True)) * -(-LINES // len(sides[0]))
    chunk = next(
        MemoryCorpus(Path("text"), Path("text"), False, pairs[:LINES]).chunks(LINES, drawn=share_drawn(CORPUS))
    )
    both = enumerate(zip(chunk.lines, chunk.targets or (), strict=True))
    readings = [subject.read(i, text_of(source), text_of(target)) for i, (source, target) in both]
    groups, config = list(batches(readings, mixed=True)), subject.model.config

    def plain() -> None:
        """Forward passes, logits included, as whoever runs the model pays for them."""
        for group in groups:
            source = pad([one.source for one in group], config.pad_id)
            subject.model(source, pad([(config.bos_id, *one.target[:-1]) for one in group], written_pad(config)))

    with torch.inference_mode():
        variants: dict[str, Action] = {"plain": plain, "pass": partial(sums_of, subject, chunk)}
        whole = ratio(interleaved(variants, ROUNDS), "pass", "plain")
    what = f"CPU time of a pass over {len(readings)} pairs of {CORPUS:,} against forward passes of the same batches"
    return [Result(ATLAS, what, f"{whole:.2f} x", f"at most {COST} x", whole <= COST)]

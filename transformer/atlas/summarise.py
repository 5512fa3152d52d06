"""One chunk of a corpus, from its lines to its sums: the pure function that every worker runs.

What it returns depends on its arguments alone, so a chunk may be computed anywhere, and again. Sentences of like length
are run together; their results are put back into the order of the lines before anything is added up.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from transformer.atlas.accumulators import Accumulator, Example, Moments
from transformer.atlas.adapters import Counts, Observed, Reading, Subject, subject_of
from transformer.atlas.corpus import Chunk, text_of
from transformer.atlas.looks import Looked, Tally, drawn, drawn_by, looked
from transformer.atlas.statistics import NEIGHBOURS
from transformer.attention.measures import Totals
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.load import load
from transformer.checkpoint.ours.folder import CONFIG, TOKENIZER, WEIGHTS, is_folder, load_snapshot
from transformer.errors import CheckpointError, InputError
from transformer.runs.concurrency import let_others

SENTENCES_AT_ONCE = 64
"""Most sentences of a forward pass."""

CELLS_AT_ONCE = 2**15
"""Most cells (queries times keys) of one head in a forward pass, padding counted; one long sentence may have more."""

KEPT = 10
"""Sentences that are kept for each head and measure: those that show it best."""

ORDINARY, N_ORDINARY = "ordinary", 5
"""Sentences that are drawn by a hash of their line's number, whatever heads do there."""

SHOWING = ("previous", "same", "next", "start", "end", "punctuation", "number", "sibling", "confidence")
"""Measures that sentences may be examples of, by the mean over the sentence's rows; `offset` gives the first three."""

SNAPSHOT = "@"
"""Parts a checkpoint's folder from the snapshot of its training, as in `checkpoints/multi30k-en-de@000400`."""


@dataclass(frozen=True)
class Plan:
    """What every chunk needs to know: the checkpoint by path and hash, and how often tokens stand in the corpus."""

    checkpoint: str
    digest: str
    counts: Counts = field(default_factory=Counts)


def summarise(plan: Plan, chunk: Chunk) -> Accumulator:
    """The sums of one chunk. PyTorch uses one thread from now on: workers share a machine by being many.

    Raises:
        CheckpointError: the checkpoint is not there, or is not the one that the plan means.
    """
    torch.set_num_threads(1)
    return sums_of(_subject(plan.checkpoint, plan.digest, plan.counts), chunk)


def sums_of(subject: Subject, chunk: Chunk) -> Accumulator:
    """The sums of one chunk, as a model that is loaded makes them."""
    readings, skipped = _read(subject, chunk)
    found = Accumulator(skipped=tuple(skipped))
    collected: dict[tuple[str, str], list[Totals]] = {}
    tallies: dict[tuple[str, str], Tally] = {}
    fit = [one.number for one in readings if len(one.source) in subject.shown and drawn_by(one.number) <= chunk.drawn]
    keeping = set(drawn(fit) if chunk.shows else ())
    order: list[int] = []
    by_number: dict[int, Reading] = {}
    n_tokens = 0
    with torch.inference_mode():
        for batch in batches(readings, subject.mixed):
            complete = subject.completed(batch)
            order += [reading.number for reading in complete]
            by_number |= {reading.number: reading for reading in complete}
            n_tokens += sum(len(reading.source) + len(reading.target) for reading in complete)
            for observed in subject.run(complete):
                let_others()
                _collect(found, collected, observed)
                for name, tally in observed.tallies.items():
                    key = observed.maps.group, name
                    tallies[key] = tallies[key] + tally if key in tallies else tally
                for place, reading in enumerate(complete):
                    if reading.number in keeping and len(reading.target or reading.source) in subject.shown:
                        _look(found, subject, observed, place, reading)
    back = np.argsort(np.array(order, dtype=np.int64), kind="stable")
    everything = {key: _joined(parts, back) for key, parts in collected.items()}
    if chunk.measured:
        for key, totals in everything.items():
            let_others()
            found.moments[key] = Moments.of(totals)
        found.tallies = tallies
        found.counts = {"lines": len(chunk.lines), "sentences": len(order), "tokens": n_tokens}
    if chunk.shows:
        _show(found, everything, [by_number[number] for number in sorted(by_number)], subject.shown)
    return found


def batches(readings: Sequence[Reading], mixed: bool) -> Iterator[list[Reading]]:
    """Readings of like size together (of one size, unless `mixed`), short ones first."""
    batch: list[Reading] = []
    longest = 0
    for reading in sorted(readings, key=lambda one: (*one.size[::-1], one.number)):
        longest = max(longest, *reading.size)
        if batch:
            full = len(batch) == SENTENCES_AT_ONCE or longest**2 * (len(batch) + 1) > CELLS_AT_ONCE
            if full or not (mixed or reading.size == batch[0].size):
                yield batch
                batch, longest = [], max(reading.size)
        batch.append(reading)
    if batch:
        yield batch


def digest_of(path: str) -> str:
    """The SHA-256 of everything that decides what a checkpoint does: its weights, config and vocabulary.

    Raises:
        CheckpointError: nothing is there.
    """
    folder, snapshot = _parts(path)
    kinds = {".json", ".safetensors", ".model", ".txt", ".pt", ".pth", ".bin", ".chkpt"}
    if is_folder(folder):  # what else lies in our own folders decides nothing
        files = [one for one in (folder / CONFIG, folder / WEIGHTS, folder / TOKENIZER) if one.is_file()]
    elif folder.is_dir():
        files = [one for one in folder.iterdir() if one.is_file() and one.suffix in kinds]
    else:
        files = [folder]
    if snapshot is not None:
        files = [one for one in files if one.suffix != ".safetensors"] + [snapshot]
    total = hashlib.sha256()
    for file in sorted(files):
        try:
            content = file.read_bytes()
        except OSError as error:
            raise CheckpointError("atlas_no_checkpoint", path=path) from error
        total.update(f"{file.name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def opened(path: str) -> Checkpoint:
    """The checkpoint at a path, or after an `@` the snapshot of its training.

    Raises:
        CheckpointError: it is not there or cannot be loaded.
    """
    folder, snapshot = _parts(path)
    found = load(folder)
    return found if snapshot is None else load_snapshot(found, snapshot)


def _parts(path: str) -> tuple[Path, Path | None]:
    whole = Path(path)
    name, at, snapshot = whole.name.rpartition(SNAPSHOT)
    if not at or whole.exists():
        return whole, None
    folder = whole.with_name(name)
    return folder, folder / "history" / f"{snapshot}.safetensors"


@lru_cache(maxsize=2)
def _subject(path: str, digest: str, counts: Counts) -> Subject:
    """The checkpoint, loaded once a process; no other file than the one that is meant."""
    if digest_of(path) != digest:
        raise CheckpointError("atlas_other_checkpoint", path=path)
    return subject_of(opened(path), counts)


def _read(subject: Subject, chunk: Chunk) -> tuple[list[Reading], list[tuple[int, str, str]]]:
    """The readings of a chunk, and which lines cannot be read, and why."""
    readings: list[Reading] = []
    skipped: list[tuple[int, str, str]] = []
    for i, line in enumerate(chunk.lines):
        try:
            target = None if chunk.targets is None else text_of(chunk.targets[i])
            readings.append(subject.read(chunk.first + i, text_of(line), target))
        except InputError as error:
            skipped.append((chunk.first + i, error.code, str(error)))
    return readings, skipped


def _collect(found: Accumulator, collected: dict[tuple[str, str], list[Totals]], observed: Observed) -> None:
    group = observed.maps.group
    found.sites[group] = tuple((str(site), n_heads) for site, n_heads in observed.maps.sites)
    for measure, totals in observed.totals.items():
        collected.setdefault((group, measure), []).append(totals)


def _look(found: Accumulator, subject: Subject, observed: Observed, place: int, reading: Reading) -> None:
    """Keep where each row of a sentence looked."""
    group = observed.maps.group
    labels = subject.labels(reading, group)
    if labels is not None:
        one = found.looked.setdefault(reading.number, Looked({}, {}, {}))
        keys, weights = looked(observed.maps, place)
        found.looked[reading.number] = Looked(
            {**one.labels, group: labels}, {**one.keys, group: keys}, {**one.weights, group: weights}
        )


def _joined(parts: list[Totals], back: Int[np.ndarray, " sentence"]) -> Totals:
    """All batches, in the order of the lines. A measure that some batch lacks has no sentences there."""
    return Totals(
        np.concatenate([one.total for one in parts])[back], np.concatenate([one.counted for one in parts])[back]
    )


def _show(
    found: Accumulator, everything: Mapping[tuple[str, str], Totals], readings: Sequence[Reading], shown: range
) -> None:
    """Keep the sentences that show each head best by each measure, and some that are drawn without looking."""
    fit = [i for i, one in enumerate(readings) if all(size in shown for size in one.size if size)]
    for group, sites in found.sites.items():
        n_heads = sum(count for _, count in sites)
        for measure in SHOWING:
            name, column = ("offset", NEIGHBOURS[measure]) if measure in NEIGHBOURS else (measure, 0)
            if (group, name) not in everything:
                continue
            totals = everything[group, name]
            count = np.broadcast_to(totals.counted, totals.total.shape)[fit, :, column]
            each = np.where(count > 0, totals.total[fit, :, column] / np.maximum(count, 1), -np.inf)
            best = np.argsort(-each, axis=0, kind="stable")[:KEPT]
            for head in range(n_heads):
                scored = zip(each[best[:, head], head].tolist(), best[:, head].tolist(), strict=True)
                kept = tuple(_example(score, readings[fit[i]]) for score, i in scored if score > -np.inf)
                found.examples[group, measure, head] = kept
    drawn = sorted((_example(drawn_by(readings[i].number), readings[i]) for i in fit), key=lambda one: one.order)
    found.examples["", ORDINARY, 0] = tuple(drawn[:KEPT])


def _example(score: float, reading: Reading) -> Example:
    return Example(score, reading.number, *reading.texts)

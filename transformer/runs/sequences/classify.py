"""Sequences: (checkpoint, sequence) -> probabilities and all attention; or a file -> a table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transformer.attention.capture import recording
from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.messages import Message
from transformer.nn.kmer import KmerClassifier
from transformer.nn.kmers import Window
from transformer.plots.axes import Axis, pooling_queries
from transformer.runs.changed import run_of
from transformer.runs.concurrency import forward_slot, letting_others
from transformer.runs.pace import MOST_BYTES, SHORT, Heard, Pace, pace_of, refuse_large
from transformer.sequences.alphabet import Letters
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.task import SequenceTask

MOST_LETTERS = 1_000_000
"""Longest sequence that is looked at at all: a run over more would take days, and a scan takes minutes."""

LETTERS_AT_ONCE = 4_096
"""Letters that share one forward pass when many sequences are classified: with that, it takes well under half a second,
which is how soon a stop is heard."""

MAX_SET_LETTERS = 512
"""Longest sequence of a set of which every one is run with all of its attention."""

LETTERS_AHEAD = 4_096
"""Letters of a file that are read before anything is said of them: equal lengths among them share a pass.

With 64 sequences of 64 letters, as with one of 4,096, there is a sign of life well within a second.
"""


@dataclass(frozen=True, eq=False)
class Classification:
    """A classified sequence: its letters, class probabilities and the attention of every head.

    `spans[i]` are the letters of window i, which is position i of the record. Probabilities are calibrated.
    """

    checkpoint: str
    letters: Letters
    classes: tuple[str, ...]
    probabilities: Float[np.ndarray, " classes"]
    spans: tuple[Window, ...]
    record: Record

    @property
    def predicted(self) -> int:
        """Index of the likeliest class."""
        return int(self.probabilities.argmax())


@dataclass(frozen=True, eq=False)
class Verdict:
    """One record of a file: its probabilities, or the problem that it could not be read for."""

    id: str
    probabilities: Float[np.ndarray, " classes"] | None
    problem: str = ""


def classifier(checkpoint: Checkpoint) -> tuple[KmerClassifier, SequenceTask]:
    """The model and the task of a checkpoint that classifies sequences.

    Raises:
        CheckpointError: it does something else, or does not say what its ids and classes mean.
    """
    if not isinstance(checkpoint.model, KmerClassifier):
        raise CheckpointError("no_sequence_classifier", name=checkpoint.name)
    if checkpoint.task is None:
        raise CheckpointError("no_task", name=checkpoint.name)
    return checkpoint.model, checkpoint.task


def read(checkpoint: Checkpoint, text: str, longest: int | None = None, most_bytes: int = MOST_BYTES) -> Letters:
    """The letters of `text` as the checkpoint reads them.

    `longest` is for whoever cannot stop a run: what has more letters is refused. Otherwise memory is the limit.

    Raises:
        InputError: no letters, foreign ones, too few of them, or so many that a run would take more than `most_bytes`.
    """
    model, task = classifier(checkpoint)
    most = MOST_LETTERS if longest is None else longest
    if len(text) > 4 * most:
        raise InputError("letters_many", found=len(text), most=most)
    letters = task.alphabet.read(text)
    if len(letters) > most:
        raise InputError("letters_many", found=len(letters), most=most)
    if len(letters) > SHORT:
        refuse_large(pace(checkpoint, letters), len(letters), most_bytes)
    model.windows(len(letters))  # refuses what is shorter than the widest
    return letters


def pace(checkpoint: Checkpoint, letters: Letters) -> Pace:
    """What a run takes by its length, measured on the first letters of a sequence; once a checkpoint.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, _ = classifier(checkpoint)
    widest = max(model.config.widths)

    def run(length: int) -> int:
        with run_of(checkpoint), recording() as seen:
            model(torch.tensor([letters.ids[: length + widest]]))
        return sum(seen.source(site).kept_bytes for site in seen.sites)

    return pace_of(model, len(letters) - widest, run)


def classify(
    checkpoint: Checkpoint,
    text: str,
    longest: int | None = None,
    *,
    progress: Heard | None = None,
    most_bytes: int = MOST_BYTES,
) -> Classification:
    """Classify one sequence and record all attention; `progress` is told the share of a long one, and may raise.

    Raises:
        InputError: the sequence cannot be read, is longer than `longest`, or would take more memory than `most_bytes`.
        CheckpointError: the checkpoint does not classify sequences.
    """
    return classify_together(checkpoint, [read(checkpoint, text, longest, most_bytes)], progress)[0]


def classify_together(
    checkpoint: Checkpoint, sequences: Sequence[Letters], progress: Heard | None = None
) -> list[Classification]:
    """Classify sequences of one length in one pass, all attention recorded; their answers do not depend on each other.

    The record of each keeps what was recorded of all of them: give few at a time.

    Raises:
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, task = classifier(checkpoint)
    length = len(sequences[0])
    spans = tuple(model.windows(length))
    told: AbstractContextManager[None] = nullcontext()
    if progress is not None and length > SHORT:
        told = pace(checkpoint, sequences[0]).followed(length, letting_others(progress))
    with run_of(checkpoint), recording() as seen, told:
        probabilities = calibrated(model(torch.tensor([letters.ids for letters in sequences])), task).numpy()
    pooled = pooling_queries(seen.source("pooling").n_queries if "pooling" in seen.sites else 1)
    found = []
    for row, letters in enumerate(sequences):
        axis = Axis.of_tokens(Message("axis_window"), [window_name(letters.text, span) for span in spans])
        queries = {site: pooled if site == "pooling" else axis for site in seen.sites}
        mapped = {site: seen.map(site, queries[site], axis, row) for site in seen.sites}
        maps = {site: replace(one, notes=checkpoint.guesses) for site, one in mapped.items()}
        record = Record(maps, checkpoint.name, letters.text)
        found.append(Classification(checkpoint.name, letters, task.classes, probabilities[row], spans, record))
    return found


def verdicts(checkpoint: Checkpoint, records: Iterable[FastaRecord], longest: int | None = None) -> Iterator[Verdict]:
    """Classify many sequences, in their order; one that cannot be read gets the reason instead of probabilities.

    A sequence's probabilities do not depend on its neighbours: only equal lengths share a pass, so none is padded.
    With `longest`, what has more letters is left out, for whoever has to be able to stop between two passes.
    """
    model, task = classifier(checkpoint)
    for chunk in _ahead(records):
        found: dict[int, Verdict] = {}
        same_length: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        for number, record in enumerate(chunk):
            try:
                ids = read(checkpoint, record.sequence, longest).ids
            except InputError as error:
                found[number] = Verdict(record.id, None, error.message)
            else:
                same_length[len(ids)].append((number, ids))
        for rows in same_length.values():
            probabilities = _in_batches(model, task, [ids for _, ids in rows])
            for (number, _), row in zip(rows, probabilities, strict=True):
                found[number] = Verdict(chunk[number].id, row)
        yield from (found[number] for number in range(len(chunk)))


def calibrated(logits: Float[Tensor, "batch classes"], task: SequenceTask) -> Float[Tensor, "batch classes"]:
    """Probabilities that mean what they say: the softmax of logits divided by the task's temperature, on the CPU."""
    return (logits.cpu().double() / task.temperature).softmax(-1)


def window_name(text: str, span: Window) -> str:
    """A window's positions, counted from 1, and its letters, which a short label may cut: `31-35 GTAAG`."""
    return f"{span.start + 1}-{span.start + span.width} {text[span.start : span.start + span.width]}"


def _ahead(records: Iterable[FastaRecord]) -> Iterator[list[FastaRecord]]:
    """Records that follow one another, of about `LETTERS_AHEAD` letters together; a record without letters counts 1."""
    chunk, letters = list[FastaRecord](), 0
    for record in records:
        chunk.append(record)
        letters += len(record.sequence) or 1
        if letters >= LETTERS_AHEAD:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _in_batches(
    model: KmerClassifier, task: SequenceTask, rows: Sequence[list[int]]
) -> Float[np.ndarray, "row classes"]:
    size, device = max(1, LETTERS_AT_ONCE // len(rows[0])), next(model.parameters()).device
    parts = []
    for start in range(0, len(rows), size):
        with forward_slot():
            parts.append(calibrated(model(torch.tensor(rows[start : start + size], device=device)), task).numpy())
    return np.concatenate(parts)

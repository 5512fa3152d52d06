"""Sequences: (checkpoint, sequence) -> probabilities and all attention; a file -> a table; each mutation -> its effect.

The effect of letters is the change of a class's log-odds (nats) when every other letter is put at each position, one at
a time (in-silico mutagenesis).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...attention.capture import recording
from ...attention.record import Record
from ...checkpoint.checkpoint import Checkpoint
from ...errors import CheckpointError, InputError
from ...explain.attribution.deletion import Progress
from ...messages import Message
from ...nn.common import refuse_elsewhere
from ...nn.kmer import KmerClassifier, Window
from ...plots.axes import Axis
from ...sequences.alphabet import Letters
from ...sequences.fasta import FastaRecord
from ...sequences.task import SequenceTask
from ..any_model import log_odds
from ..concurrency import forward_slot, run_of
from ..translate import record_of

MOST_LETTERS = 16_384
"""Longest sequence that is read as one, with all of its attention; longer ones are scanned."""

MOST_UNKNOWN = 0.1
"""With a larger share of unknown letters an answer means little: the rest of them would decide alone."""

LETTERS_AT_ONCE = 4_096
"""Letters that share one forward pass when many sequences are classified."""

MAX_SET_LETTERS = 512
"""Longest sequence of a set of which every one is run with all of its attention."""


@dataclass(frozen=True, eq=False)
class Classification:
    """A classified sequence: its letters, class probabilities and the attention of every head.

    `spans[i]` are the letters of window i, which is position i of the record; `places` are the letters (from 1) of a
    longer sequence that these are. Probabilities are calibrated.
    """

    checkpoint: str
    letters: Letters
    classes: tuple[str, ...]
    probabilities: Float[np.ndarray, " classes"]
    spans: tuple[Window, ...]
    record: Record
    places: range

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
    if not checkpoint.reads_sequences:
        raise CheckpointError("no_sequence_classifier", name=checkpoint.name)
    if checkpoint.task is None:
        raise CheckpointError("no_task", name=checkpoint.name)
    return cast(KmerClassifier, checkpoint.model), checkpoint.task


def read(checkpoint: Checkpoint, text: str, longest: int = MOST_LETTERS) -> Letters:
    """The letters of `text` as the checkpoint reads them.

    Raises:
        InputError: no letters, foreign ones, too few of them, or more than `longest`.
    """
    model, task = classifier(checkpoint)
    letters = task.alphabet.read(text)
    if len(letters) > longest:
        raise InputError("letters_many", found=len(letters), most=longest)
    model.windows(len(letters))  # refuses what is shorter than the widest
    return letters


def classify(
    checkpoint: Checkpoint, text: str, longest: int = MOST_LETTERS, places: range | None = None
) -> Classification:
    """Classify one sequence and record all attention; `places` are its letters in a longer one, which names windows.

    Raises:
        InputError: the sequence cannot be read, or is longer than `longest`.
        CheckpointError: the checkpoint does not classify sequences.
    """
    model, task = classifier(checkpoint)
    letters = read(checkpoint, text, longest)
    spans = tuple(model.windows(len(letters)))
    with run_of(checkpoint), recording() as seen:
        probabilities = calibrated(model(torch.tensor([letters.ids])), task).numpy()[0]
    numbers = places or range(1, len(letters) + 1)
    names = []  # the places of a window's letters, and these, which a short label may cut: `31-35 GTAAG`
    for first, last in ((span.start, span.start + span.width - 1) for span in spans):
        names.append(f"{numbers[first]}-{numbers[last]} {letters.text[first : last + 1]}")
    axis = Axis.of_tokens(Message("axis_window"), names)
    record = record_of(checkpoint, seen, letters.text, axis)
    return Classification(checkpoint.name, letters, task.classes, probabilities, spans, record, numbers)


def verdicts(checkpoint: Checkpoint, records: Iterable[FastaRecord]) -> Iterator[Verdict]:
    """Classify many sequences, in their order; one that cannot be read gets the reason instead of probabilities.

    Only neighbours of equal length share a pass, so none is padded, and none depends on another.
    """
    model, task = classifier(checkpoint)

    def letters_of(record: FastaRecord) -> tuple[FastaRecord, Letters | str]:
        try:
            return record, read(checkpoint, record.sequence)
        except InputError as error:
            return record, error.message

    def length_of(one: tuple[FastaRecord, Letters | str]) -> int:
        return len(one[1]) if isinstance(one[1], Letters) else 0

    for length, alike in groupby(map(letters_of, records), length_of):
        while some := list(islice(alike, max(1, LETTERS_AT_ONCE // max(1, length)))):
            ids = [letters.ids for _, letters in some if isinstance(letters, Letters)]
            if not ids:
                yield from (Verdict(record.id, None, str(problem)) for record, problem in some)
                continue
            with forward_slot():
                rows = calibrated(model(torch.tensor(ids, device=checkpoint.device)), task).numpy()
            yield from (Verdict(record.id, row) for (record, _), row in zip(some, rows, strict=True))


def calibrated(logits: Float[Tensor, "batch classes"], task: SequenceTask) -> Float[Tensor, "batch classes"]:
    """Probabilities that mean what they say: the softmax of logits divided by the task's temperature, on the CPU."""
    return (logits.cpu().double() / task.temperature).softmax(-1)


MAX_MUTATED = 512
"""Longest sequence whose every letter is changed: three runs a letter."""


@dataclass(frozen=True, eq=False)
class Mutations:
    """Change of a class's log-odds (nats) when one letter becomes another: row = new letter, column = position.

    The letter of the sequence itself has 0. Negative: the class becomes less likely.
    """

    letters: str
    sequence: str
    change: Float[np.ndarray, "letter position"]

    @property
    def effect(self) -> Float[np.ndarray, " position"]:
        """Mean size of the change at each position, over the other letters; never negative."""
        others = [sum(letter != given for letter in self.letters) for given in self.sequence]
        return np.abs(self.change).sum(axis=0) / others


def log_odds_of_rows(
    checkpoint: Checkpoint, rows: Int[Tensor, "row letter"], target: int, progress: Progress | None = None
) -> Float[Tensor, " row"]:
    """The log-odds (nats) of class `target` for sequences of one length, given as ids, in batches."""
    model, task = classifier(checkpoint)
    size, found = max(1, LETTERS_AT_ONCE // rows.shape[1]), []
    for some in rows.split(size):
        with forward_slot(), torch.no_grad():
            found.append(log_odds(model(some).double() / task.temperature, target, each=False))
        if progress:
            progress(min(1.0, len(found) * size / len(rows)))
    return torch.cat(found)


def mutations(checkpoint: Checkpoint, letters: Letters, target: int, progress: Progress | None = None) -> Mutations:
    """Put every letter at every position, one at a time, and see how the log-odds of class `target` change.

    Costs `len(letters) * (alphabet - 1)` sequences, in batches.

    Raises:
        InputError: the sequence is longer than `MAX_MUTATED`.
    """
    _, task = classifier(checkpoint)
    refuse_elsewhere(checkpoint.model)
    if len(letters) > MAX_MUTATED:
        raise InputError("letters_mutated", found=len(letters), most=MAX_MUTATED)
    original = torch.tensor(letters.ids)
    n_letters, length = len(task.alphabet.letters), len(letters)
    position, letter = torch.meshgrid(torch.arange(length), torch.arange(n_letters), indexing="ij")
    differs = letter != original[:, None]
    positions, new = position[differs], letter[differs]
    mutants = original.repeat(len(positions), 1)
    mutants[torch.arange(len(mutants)), positions] = new
    before = log_odds_of_rows(checkpoint, original[None], target)
    change = torch.zeros(n_letters, length, dtype=torch.float64)
    change[new, positions] = log_odds_of_rows(checkpoint, mutants, target, progress) - before
    return Mutations(task.alphabet.letters, letters.text, change.numpy())

"""A set of sequences read by one classifier: what each head attended to in every one, and the motifs in that."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.nn.kmers import Window
from transformer.runs.sequences.classify import LETTERS_AT_ONCE, Classification, classifier, classify_together, read
from transformer.sequences.alphabet import Letters
from transformer.sequences.fasta import FastaRecord, label_of
from transformer.sequences.folding import received
from transformer.sequences.motifs import Motif, motif, q_values
from transformer.sites import Site

MAX_SEQUENCES = 500
"""Most sequences of a set; each is run by itself, with all of its attention."""

MAX_SET_LETTERS = 512
"""Longest sequence of a set."""

MOST_FALSE = 0.05
"""A head's motif passes if its q-value, over the heads of one class and width, is at most this."""

AT_ONCE = 32
"""Most sequences of one length that share a pass; together they have at most about `LETTERS_AT_ONCE` letters."""

Motifs = Mapping[tuple[Site, int], tuple[Motif, float]]
"""The motif of each head, and the q-value of its enrichment."""


@dataclass(frozen=True, eq=False)
class ReadSequence:
    """One sequence of a set: its class, and what each window received from each head of each site."""

    id: str
    text: str
    label: int
    spans: tuple[Window, ...]
    received: Mapping[Site, Float[np.ndarray, "head window"]]


@dataclass(frozen=True, eq=False)
class SequenceSet:
    """Sequences that one classifier read. `labelled` says that every header named its class.

    `problems` says of each record that could not be read why; `more` whether there were more than a set holds.
    """

    classes: tuple[str, ...]
    letters: str
    sequences: tuple[ReadSequence, ...]
    labelled: bool
    problems: tuple[str, ...] = ()
    more: bool = False

    @property
    def sites(self) -> dict[Site, int]:
        """How many heads each site has."""
        return {site: len(values) for site, values in self.sequences[0].received.items()}

    @property
    def widths(self) -> tuple[int, ...]:
        """Window widths of the model."""
        return tuple(dict.fromkeys(span.width for span in self.sequences[0].spans))

    def motif(self, label: int, site: Site, head: int, width: int) -> Motif:
        """What the windows of one width have in common that a head attends to most in the sequences of one class.

        Raises:
            InputError: the set has no sequence of this class.
        """
        tops: dict[bool, list[tuple[str, int]]] = {True: [], False: []}
        for one in self.sequences:
            windows = [i for i, span in enumerate(one.spans) if span.width == width]
            top = windows[int(one.received[site][head, windows].argmax())]
            tops[one.label == label].append((one.text, one.spans[top].start))
        return motif(tops[True], tops[False], width, self.letters)

    def every_head(self, label: int, width: int) -> Motifs:
        """The motif of every head for one class, with the q-value of its enrichment over all of these heads.

        Raises:
            InputError: as `motif`.
        """
        heads = [(site, head) for site, count in self.sites.items() for head in range(count)]
        motifs = [self.motif(label, site, head, width) for site, head in heads]
        q = q_values([one.enrichment.p_value for one in motifs])
        return dict(zip(heads, zip(motifs, q, strict=True), strict=True))


def clearest(every: Motifs) -> tuple[Site, int]:
    """The site and head whose motif holds most information among those that pass; where none does, the nearest.

    A motif passes with a q-value of at most `MOST_FALSE`, so that letters that are common by chance, or as common in
    the other classes, are not chosen for their height.
    """
    passing = [one for one, (_, q) in every.items() if q <= MOST_FALSE]
    if not passing:
        return min(every, key=lambda one: every[one][0].enrichment.p_value)
    return max(passing, key=lambda one: every[one][0].information.sum())


def read_set(
    checkpoint: Checkpoint, records: Iterable[FastaRecord], progress: Callable[[float], None] | None = None
) -> SequenceSet:
    """Run every sequence, recorded; its class is what its header names (`label_of`), or else the predicted one.

    Labels count only when every sequence has one, so the classes of a set never mix what is known and what is guessed.

    A record that cannot be read is left out, and told of. Of a longer set the first `MAX_SEQUENCES` are read.

    Raises:
        InputError: there is no sequence, or none that can be read.
    """
    _, task = classifier(checkpoint)
    given = list(islice(records, MAX_SEQUENCES + 1))
    if not given:
        raise InputError("set_empty")
    known, sequences, problems = list[FastaRecord](), list[Letters](), list[str]()
    for record in given[:MAX_SEQUENCES]:
        try:
            sequences.append(_read(checkpoint, record))
            known.append(record)
        except InputError as error:
            problems.append(error.message)
    if not known:
        raise InputError("set_unreadable", problem=problems[0])
    words = [label_of(record, task.classes) for record in known]
    labelled = all(words)
    by_length = sorted(range(len(known)), key=lambda i: len(sequences[i]))
    found: dict[int, ReadSequence] = {}
    for length, same in groupby(by_length, key=lambda i: len(sequences[i])):
        size = min(AT_ONCE, max(1, LETTERS_AT_ONCE // length))
        while rows := list(islice(same, size)):
            for i, run in zip(rows, classify_together(checkpoint, [sequences[i] for i in rows]), strict=True):
                label = task.classes.index(words[i]) if labelled else run.predicted
                found[i] = ReadSequence(known[i].id, run.letters.text, label, run.spans, _received(run))
            if progress:
                progress(len(found) / len(known))
    return SequenceSet(
        task.classes,
        task.alphabet.letters,
        tuple(found[i] for i in range(len(known))),
        labelled,
        tuple(problems),
        len(given) > MAX_SEQUENCES,
    )


def _read(checkpoint: Checkpoint, record: FastaRecord) -> Letters:
    """The letters of a record; a refusal names it."""
    if len(record.sequence) > MAX_SET_LETTERS:
        raise InputError("set_long", name=record.id, most=MAX_SET_LETTERS)
    try:
        return read(checkpoint, record.sequence)
    except InputError as error:
        raise InputError("problem_of", name=record.id, problem=error.message) from error


def _received(run: Classification) -> dict[Site, Float[np.ndarray, "head window"]]:
    """What each window received from each head of each site."""
    maps = {site: run.record[site] for site in run.record.sites}
    return {site: np.array([received(one, head) for head in range(one.n_heads)]) for site, one in maps.items()}

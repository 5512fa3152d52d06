"""A set of sequences read by one classifier: what each head attended to in every one, and the motifs in that."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice

import numpy as np
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.layers.kmers import Window
from transformer.runs.classify import Classification, classifier, classify_together, read
from transformer.sequences.alphabet import Letters
from transformer.sequences.fasta import FastaRecord
from transformer.sequences.folding import received
from transformer.sequences.labels import label_of
from transformer.sequences.motifs import Motif, motif, top_site
from transformer.sites import Site

MAX_SEQUENCES = 500
"""Most sequences of a set; each is run by itself, with all of its attention."""

MAX_SET_LETTERS = 512
"""Longest sequence of a set."""


AT_ONCE = 32
"""Sequences of one length that share a pass."""


@dataclass(frozen=True, eq=False)
class ReadSequence:
    """One sequence of a set: its class, and what each window received from each head of each site."""

    id: str
    text: str
    label: int
    predicted: int
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

    @cached_property
    def sites(self) -> dict[Site, int]:
        """How many heads each site has."""
        return {site: len(values) for site, values in self.sequences[0].received.items()}

    @property
    def widths(self) -> tuple[int, ...]:
        """Window widths of the model."""
        return tuple(dict.fromkeys(span.width for span in self.sequences[0].spans))

    def motif(self, label: int, site: str, head: int, width: int) -> Motif:
        """What the windows of one width have in common that a head attends to most in the sequences of one class.

        Raises:
            InputError: the set has no sequence of this class, or the model no such window.
        """
        texts = [one.text for one in self.sequences]
        found = [
            (one.label, top_site(one.received[Site(site)][head], one.spans, one.text, i, width))
            for i, one in enumerate(self.sequences)
        ]
        chosen, others = ([s for its, s in found if (its == label) is wanted] for wanted in (True, False))
        return motif(chosen, others, texts, width, self.letters)

    def clearest(self, label: int, width: int) -> tuple[Site, int]:
        """The site and head whose motif for this class holds most information."""
        every = [(site, head) for site, heads in self.sites.items() for head in range(heads)]
        return max(every, key=lambda one: self.motif(label, one[0], one[1], width).information.sum())


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
    for _, same in groupby(by_length, key=lambda i: len(sequences[i])):
        while rows := list(islice(same, AT_ONCE)):
            for i, run in zip(rows, classify_together(checkpoint, [sequences[i] for i in rows]), strict=True):
                label = task.classes.index(words[i]) if labelled else run.predicted
                found[i] = ReadSequence(known[i].id, run.letters.text, label, run.predicted, run.spans, _received(run))
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

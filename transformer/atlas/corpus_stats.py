"""A first look through a whole corpus: how long it is, how often each token stands in it, and whether it suits.

It reads line by line, so its memory does not grow with the corpus.
"""

from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple

import numpy as np
import torch

from transformer.atlas.adapters import Counts
from transformer.atlas.corpus import Corpus, text_of
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.nn.protocols import written_length
from transformer.nn.search import teacher_forced
from transformer.text.base import Tokenizer
from transformer.text.batch import pad

LOOKED_AT = 64
"""Lines at the beginning that tell whether the text is one that the checkpoint reads."""

UNKNOWN, MANY_UNKNOWN = 0.1, 0.5
"""Shares of letters in unknown tokens from which on a note warns, and from which on a text is refused."""


@dataclass(frozen=True)
class Survey:
    """What is known of a corpus before anything is run.

    `notes` are what a reader has to know: the rest of a code after `atlas_note_`, and its fields.
    """

    lines: int
    counts: Counts = field(default_factory=Counts)
    notes: tuple[tuple[str, dict[str, Any]], ...] = ()


def survey(checkpoint: Checkpoint, corpus: Corpus) -> Survey:
    """Look through a corpus.

    Raises:
        InputError: it is text for a classifier of sequences, or sequences for another model; it is empty, its sides
            differ in length, hardly a line of it is text, or it is in another language.
        CheckpointError: the checkpoint cannot read it.
    """
    if corpus.fasta != checkpoint.reads_sequences:
        raise InputError("atlas_needs_text" if corpus.fasta else "atlas_needs_sequences", name=checkpoint.name)
    if checkpoint.reads_sequences:
        n_lines = sum(1 for _ in corpus.lines())
        if not n_lines:
            raise InputError("atlas_empty", path=str(corpus.source))
        return Survey(n_lines)
    reader, writer = _tokenizers(checkpoint)
    source, target = np.zeros(len(reader), np.int64), np.zeros(len(writer), np.int64)
    n_lines = n_read = 0
    beginning: list[tuple[str, str | None]] = []
    for line, other in corpus.lines():
        n_lines += 1
        found = _read(line, other, reader, writer)
        if found is None or not found.source:
            continue  # the pass names it
        n_read += 1
        np.add.at(source, found.source, 1)
        np.add.at(target, found.target, 1)
        if len(beginning) < LOOKED_AT:
            beginning.append(found.texts)
    if not n_lines:
        raise InputError("atlas_empty", path=str(corpus.source))
    if not n_read:
        raise InputError("atlas_nothing_readable", path=str(corpus.source), lines=n_lines)
    counts = Counts(source.tobytes(), None if corpus.target is None else target.tobytes())
    return Survey(n_lines, counts, tuple(_notes(checkpoint, corpus, reader, writer, beginning)))


class _Line(NamedTuple):
    texts: tuple[str, str | None]
    source: list[int]
    target: list[int]


def _read(line: bytes, other: bytes | None, reader: Tokenizer, writer: Tokenizer) -> _Line | None:
    """A line and its target, and their ids; None where they are no text that can be read."""
    try:
        text, reference = text_of(line), None if other is None else text_of(other)
        return _Line((text, reference), reader.encode(text), [] if reference is None else writer.encode(reference))
    except InputError:
        return None


def _tokenizers(checkpoint: Checkpoint) -> tuple[Tokenizer, Tokenizer]:
    if checkpoint.tokenizer is None or checkpoint.writer is None:
        raise CheckpointError("no_tokenizer", name=checkpoint.name)
    return checkpoint.tokenizer, checkpoint.writer


def _notes(
    checkpoint: Checkpoint, corpus: Corpus, reader: Tokenizer, writer: Tokenizer, texts: list[tuple[str, str | None]]
) -> list[tuple[str, dict[str, Any]]]:
    """What makes one doubt that the checkpoint was made for these texts."""
    found: list[tuple[str, dict[str, Any]]] = []
    sides = [(reader, [text for text, _ in texts], corpus.source)]
    if corpus.target is not None:
        sides.append((writer, [text or "" for _, text in texts], corpus.target))
    for tokenizer, lines, path in sides:
        share = unknown_share(tokenizer, lines)
        fields = {"path": path.name, "percent": f"{100 * share:.0f}"}
        if share > MANY_UNKNOWN:
            raise InputError("atlas_other_language", **fields)
        if share > UNKNOWN:
            found.append(("unknown", fields))
    if checkpoint.translates and corpus.target is not None:
        loss = forced_loss(checkpoint, [(text, other or "") for text, other in texts])
        if loss > log(len(writer)):
            fields = {"loss": f"{loss:.1f}", "guessing": f"{log(len(writer)):.1f}"}
            found.append(("surprised", fields))
    return found


def unknown_share(tokenizer: Tokenizer, lines: list[str]) -> float:
    """The share of letters in tokens that the vocabulary lacks: the text has them otherwise than the vocabulary."""
    total = unknown = 0
    for line in lines:
        ids, pieces = tokenizer.encode(line), tokenizer.pieces(line)
        total += sum(map(len, pieces))
        unknown += sum(
            len(piece) for label, piece in zip(tokenizer.labels(ids), pieces, strict=False) if label != piece
        )
    return unknown / max(1, total)


def forced_loss(checkpoint: Checkpoint, pairs: list[tuple[str, str]]) -> float:
    """Mean loss in nats a token of references that are forced on the model; 0 where none can be run."""
    model, reader, writer = checkpoint.translator()
    longest, most = model.config.max_length, written_length(model.config)
    rows = [(reader.source_ids(source), [model.config.bos_id, *writer.source_ids(target)]) for source, target in pairs]
    fit = [(source, target) for source, target in rows if len(source) <= longest and len(target) <= most]
    total = count = 0.0
    with torch.inference_mode():
        for source, target in fit:
            total -= float(teacher_forced(model, torch.tensor([source]), pad([target], 0)).sum())
            count += len(target) - 1
    return total / max(1.0, count)

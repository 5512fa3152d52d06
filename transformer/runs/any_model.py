"""A run of a checkpoint of any kind: (checkpoint, text or ids) -> all attention, and what the model made of it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from transformer.attention.capture import recording
from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AttributionError, CheckpointError, InputError, NotDefinedError
from transformer.explain.attribution.deletion import Progress
from transformer.explain.attribution.methods import WRITTEN_METHODS, attribute
from transformer.explain.attribution.result import Attribution
from transformer.explain.attribution.scored_sequence import Reading, ScoredSequence
from transformer.messages import Message
from transformer.nn.common import readable
from transformer.nn.kmer import KmerClassifier
from transformer.nn.search import DecodingOptions
from transformer.plots.axes import Axis, pooling_queries
from transformer.runs.changed import run_of
from transformer.runs.concurrency import forward_slot, letting_others
from transformer.runs.pace import MOST_BYTES, SHORT, Pace, pace_of, refuse_large
from transformer.runs.translate import MAX_CHARACTERS, Translation, translate, unknown_words
from transformer.text.base import labels_as_typed

MAX_POSITIONS = 512
"""Most tokens of a text that writes on, or is read where nobody tells how far a run is, or stops it."""

LONGEST_TEXT = 400_000
"""Most characters that a tokenizer is given."""


@dataclass(frozen=True, eq=False)
class ModelRun:
    """A model's run on a text: its tokens, its output and the attention of every head.

    `translation` is what an encoder-decoder wrote for it; `outputs` is what any other model ends with, under the names
    that its `outputs` gives (`logits`, `hidden`), without the batch's axis; `ids` is what it read.
    """

    checkpoint: str
    input: str
    record: Record
    translation: Translation | None = None
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    ids: tuple[int, ...] = ()

    def attribution(
        self,
        checkpoint: Checkpoint,
        method: str,
        *,
        layer: int | None = None,
        head: int | None = None,
        points: int | None = None,
    ) -> Attribution:
        """Where what the model wrote came from; or, of a model that reads one text, what its positions end with.

        `checkpoint` is the one that ran. Methods are `attribution.methods.METHODS`, or `READING_METHODS`; of a decoder
        alone, which scores each token after those before it, `WRITTEN_METHODS` too. `points` is of integrated gradients
        alone: at how many points slopes are taken (None: at as many as are needed).

        Raises:
            AttributionError: no such method, or one that is not defined for this model.
        """
        if self.translation is not None:
            return self.translation.attribution(checkpoint, method, layer=layer, head=head, points=points)
        own = next((each for site, each in self.record.items() if site.kind == "self"), None)
        if own is None:
            raise NotDefinedError("attribution_nothing_recorded", name=checkpoint.name, group="encoder.self")
        if method in WRITTEN_METHODS:
            with forward_slot():
                return attribute(self.scored_sequence(checkpoint), self.record, method, layer, head, points=points)
        causal = not own.mask()[0, 1:].any() and len(own.keys) > 1
        reading = Reading(checkpoint.name, checkpoint.model, self.ids, own.keys, causal)
        with forward_slot():
            return attribute(reading, self.record, method, layer, head, points=points)

    def scored_sequence(self, checkpoint: Checkpoint) -> ScoredSequence:
        """What was written, as methods of attribution ask about it; of a decoder alone, every token after the first.

        Raises:
            AttributionError: the model writes nothing, and scores no tokens that it reads.
        """
        if self.translation is not None:
            return self.translation.scored_sequence(checkpoint)
        if "log_probs" not in self.outputs:
            raise AttributionError("attribution_nothing_scored", name=checkpoint.name)
        axis = next(each.keys for site, each in self.record.items() if site.kind == "self")
        read, written = (axis.kept(range(start, start + len(axis) - 1)) for start in (0, 1))
        return ScoredSequence(
            name=checkpoint.name,
            model=checkpoint.model,
            source_ids=(),
            read_ids=self.ids[:-1],
            written_ids=self.ids[1:],
            source=axis.kept(()),
            read=read,
            written=written,
            unknown_target_id=-1 if checkpoint.tokenizer is None else checkpoint.tokenizer.unknown_id,
        )


def run_any(
    checkpoint: Checkpoint,
    text: str,
    options: DecodingOptions | None = None,
    forced: str | None = None,
    *,
    longest: int | None = None,
    progress: Progress | None = None,
    most_bytes: int = MOST_BYTES,
) -> ModelRun:
    """Run the checkpoint on `text`, which is ids where it has no vocabulary; `forced` is a target to walk through.

    A text of more than `longest` tokens is refused, and one whose run would take more than `most_bytes`; `progress` is
    told the share of a long one, and may raise.

    Raises:
        InputError: nothing to read, too much, or what has no id.
        CheckpointError: the checkpoint has no way to read a text.
    """
    if checkpoint.translates:
        translation = translate(checkpoint, text, options, forced)
        return ModelRun(checkpoint.name, text, translation.record, translation)
    ids, pieces = read(checkpoint, text, longest)
    if len(ids) > SHORT:
        refuse_large(pace(checkpoint, ids), len(ids), most_bytes)
    return run_ids(checkpoint, text, ids, pieces, progress=progress)


def pace(checkpoint: Checkpoint, ids: Sequence[int]) -> Pace:
    """What a run takes by its length, measured on the first of `ids`."""
    model: Any = checkpoint.model

    def run(length: int) -> int:
        with run_of(checkpoint), recording() as seen:
            model.outputs(torch.tensor([list(ids[:length])]))
        return sum(seen.source(site).kept_bytes for site in seen.sites)

    return pace_of(model, len(ids), run)


def run_ids(
    checkpoint: Checkpoint, text: str, ids: list[int], pieces: list[str], *, progress: Progress | None = None
) -> ModelRun:
    """Run a checkpoint that reads one text on ids, which are shown as `pieces`; `text` is what the run is called.

    `progress` is told the share of a long run, and may raise.

    Raises:
        InputError: an id that the vocabulary lacks, or too many of them.
        CheckpointError: the checkpoint's attention cannot be changed as the caller asks.
    """
    model: Any = checkpoint.model
    told: AbstractContextManager[None] = nullcontext()
    if progress is not None and len(ids) > SHORT:
        told = pace(checkpoint, ids).followed(len(ids), letting_others(progress))
    with run_of(checkpoint), recording() as seen, told:
        outputs = model.outputs(torch.tensor([ids]))
    axis = _axis(checkpoint, ids, pieces)
    lacking = () if checkpoint.model.abilities.reads_windows else unknown_words(axis, ids, checkpoint.tokenizer)
    notes = (*checkpoint.guesses, *lacking)
    maps = {
        site: replace(
            seen.map(site, axis if site.kind == "self" else pooling_queries(seen.source(site).n_queries), axis),
            notes=notes,
        )
        for site in seen.sites
    }
    return ModelRun(
        checkpoint.name,
        text,
        Record(maps, checkpoint.name, text),
        outputs={name: readable(value[0]).numpy() for name, value in outputs.items()},
        ids=tuple(ids),
    )


def read(checkpoint: Checkpoint, text: str, longest: int | None = MAX_POSITIONS) -> tuple[list[int], list[str]]:
    """Ids and what a person reads for each; with the special tokens that a family puts around a text, where known.

    Raises:
        InputError: nothing to read, too much, or what has no id.
        CheckpointError: the checkpoint has no tokenizer.
    """
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        raise CheckpointError("no_tokenizer", name=checkpoint.name)
    most = LONGEST_TEXT if longest is None else min(LONGEST_TEXT, max(MAX_CHARACTERS, 4 * longest))
    if len(text) > most:
        raise InputError("too_many_characters", what=Message("noun_text"), found=len(text), most=most)
    if not tokenizer.encode(text):
        raise InputError("no_tokens")
    ids = tokenizer.encoder_ids(text)
    if longest is not None and len(ids) > longest:
        raise InputError("too_many_positions", found=len(ids), most=longest)
    return ids, labels_as_typed(tokenizer, text, ids)


def _axis(checkpoint: Checkpoint, ids: list[int], pieces: list[str]) -> Axis:
    """Positions of an encoder are tokens; those of a k-mer classifier are windows of them."""
    tokenizer = checkpoint.tokenizer
    if checkpoint.model.abilities.reads_windows:
        spans = checkpoint.model_as(KmerClassifier).windows(len(ids))
        return _of_windows(pieces, [(span.start, span.start + span.width) for span in spans])
    return Axis.of_pieces(
        Message("axis_token"), pieces, [tokenizer is not None and tokenizer.is_special(i) for i in ids]
    )


def _of_windows(pieces: Sequence[str], windows: Sequence[tuple[int, int]]) -> Axis:
    """What each window holds, and where: from which token to which, counted from 1."""
    names = [f"{' '.join(pieces[first:last])} ({first + 1}-{last})" for first, last in windows]
    return Axis.of_tokens(Message("axis_window"), names)

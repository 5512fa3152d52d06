"""Translations: (checkpoint, input, options) -> what the model did, with its attention.

A run decodes with the key/value cache, then passes the chosen tokens through the model once more, recorded; so the
record holds whole maps, and any hypothesis of the beam can be looked at in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.attention.capture import Recording, recording
from transformer.attention.record import AttentionMap, Record
from transformer.attention.softmax_inputs import Weights
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import AttributionError, InputError
from transformer.explain.attribution.deletion import Progress
from transformer.explain.attribution.methods import attribute
from transformer.explain.attribution.result import Attribution
from transformer.explain.attribution.scored_sequence import ScoredSequence
from transformer.messages import Message
from transformer.nn.common import log_probs, readable
from transformer.nn.protocols import written_length
from transformer.nn.search import BeamTree, DecodingOptions, decode
from transformer.plots.axes import Axis
from transformer.runs.changed import run_of
from transformer.runs.concurrency import forward_slot, let_others, letting_others
from transformer.sites import Site
from transformer.text.base import Tokenizer, labels_as_typed, unknown_name
from transformer.text.steps import Candidate, Step

MAX_CHARACTERS = 2_000
"""Longest text that is looked at; the limit in tokens is the checkpoint's own."""

RUNNERS_UP = 10
"""How many of the likeliest next tokens each step keeps."""


PAST_SOURCE = Message("past_source")
"""The key that stands for all positions after the end of the source."""


class Axes(NamedTuple):
    """What stands at each position: of the source, of the tokens written, and of those that the decoder had read."""

    source: Axis
    written: Axis
    read: Axis


@dataclass(frozen=True, eq=False)
class Translation:
    """A translated sentence: input, output, decoding steps and the attention of every head.

    In the record, decoder rows are the tokens that a step wrote; self-attention's keys are the tokens that the
    decoder had read by then (the start token, then what was written). Location attention has one key more than the
    source has tokens: the weight on all positions past its end. `tree` is None for a forced target; `node` is the
    hypothesis of the tree that the record shows.
    """

    checkpoint: str
    input: str
    text: str
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    steps: tuple[Step, ...]
    record: Record
    axes: Axes
    tree: BeamTree | None = None
    node: int | None = None

    def scored_sequence(self, checkpoint: Checkpoint) -> ScoredSequence:
        """What the translation is, as methods of attribution ask about it; `checkpoint` is the one that made it.

        Raises:
            CheckpointError: the checkpoint does not translate text.
        """
        model, reader, writer = checkpoint.translator()
        return ScoredSequence(
            name=checkpoint.name,
            model=model,
            source_ids=self.source_ids,
            read_ids=(model.config.bos_id, *self.target_ids[:-1]),
            written_ids=self.target_ids,
            source=self.axes.source,
            read=self.axes.read,
            written=self.axes.written,
            unknown_source_id=reader.unknown_id,
            unknown_target_id=writer.unknown_id,
        )

    def attribution(
        self,
        checkpoint: Checkpoint,
        method: str = "deletion",
        *,
        layer: int | None = None,
        head: int | None = None,
        words: bool = False,
        points: int | None = None,
        progress: Progress | None = None,
    ) -> Attribution:
        """Where each written token came from, as one of `attribution.methods.METHODS` answers it.

        `checkpoint` is the one that made the translation. `words` answers in whole words. `points` is of integrated
        gradients alone: at how many points slopes are taken (None: at as many as are needed).

        Raises:
            AttributionError: no such method, or one not defined for this model; or interventions changed the run.
            CheckpointError: the checkpoint does not translate text.
        """
        if self.record.interventions:
            raise AttributionError("attribution_of_a_changed_run")
        with forward_slot():
            return attribute(
                self.scored_sequence(checkpoint),
                self.record,
                method,
                layer,
                head,
                words,
                points,
                letting_others(progress),
            )

    @property
    def log_prob(self) -> float:
        """Natural logarithm of the probability of all written tokens."""
        return float(sum(np.log(step.probability) for step in self.steps))


def translate(
    checkpoint: Checkpoint, text: str, options: DecodingOptions | None = None, forced: str | None = None
) -> Translation:
    """Translate `text`, or score the `forced` target, and record all attention.

    Raises:
        InputError: nothing to read, or too much.
        CheckpointError: the checkpoint does not translate text.
    """
    model, reader, writer = checkpoint.translator()
    source_ids = checked_ids(text, Message("noun_text"), model.config.max_length, reader)
    if forced is not None:
        target_ids = [*checked_ids(forced, Message("noun_forced_target"), written_length(model.config), writer)]
        return _watched(checkpoint, text, source_ids, target_ids, labels_as_typed(writer, forced, target_ids))
    with run_of(checkpoint):
        decoded = decode(model, torch.tensor([source_ids]), options or DecodingOptions(), between=let_others)[0]
    translation = _watched(checkpoint, text, source_ids, list(decoded.ids))
    return replace(translation, tree=decoded.tree, node=decoded.tree.best.id)


def follow(checkpoint: Checkpoint, translation: Translation, node: int) -> Translation:
    """The same sentence with another hypothesis of its beam tree, finished or pruned, and its attention.

    Raises:
        InputError: the translation was forced, so it has no tree; or the tree has no such hypothesis.
    """
    if translation.tree is None:
        raise InputError("forced_has_no_beam")
    ids = translation.tree.path(node)
    if not ids:
        raise InputError("hypothesis_is_empty", node=node)
    other = _watched(checkpoint, translation.input, list(translation.source_ids), list(ids))
    return replace(other, tree=translation.tree, node=node)


def reread(checkpoint: Checkpoint, translation: Translation) -> Translation:
    """The same source and target passed through the model once more: what interventions make of the same target."""
    pieces = [step.text for step in translation.steps]
    ids = list(translation.target_ids)
    return _watched(checkpoint, translation.input, list(translation.source_ids), ids, pieces)


def checked_ids(text: str, what: Message, longest: int, tokenizer: Tokenizer) -> list[int]:
    """Ids of `text` with the end token, if it is a text of a length that can be run; `what` names it in a refusal.

    The model has positions for `longest` tokens of it, the end token counted.

    Raises:
        InputError: it is empty, or too long for the model.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError("too_many_characters", what=what, found=len(text), most=MAX_CHARACTERS)
    ids = tokenizer.source_ids(text)
    if not tokenizer.encode(text):
        raise InputError("no_sentence", what=what)
    if len(ids) > longest:
        raise InputError("too_many_tokens", what=what, found=len(ids), most=longest)
    return ids


def _watched(
    checkpoint: Checkpoint, text: str, source_ids: list[int], target_ids: list[int], pieces: list[str] | None = None
) -> Translation:
    """Pass source and target through the model once, recorded; `pieces` are the target's where it was typed."""
    model, reader, writer = checkpoint.translator()
    read_ids = [model.config.bos_id, *target_ids[:-1]]
    with run_of(checkpoint), recording() as seen:
        logits = model(torch.tensor([source_ids]), torch.tensor([read_ids]))[0]
        distribution = log_probs(readable(logits)).exp()
    source_name, target_name = checkpoint.languages
    written_pieces = pieces or writer.labels(target_ids)
    read_pieces = [*writer.labels(read_ids[:1]), *written_pieces[:-1]]
    source = _axis(
        Message("axis_source", language=source_name), labels_as_typed(reader, text, source_ids), source_ids, reader
    )
    written = _axis(Message("axis_written", language=target_name), written_pieces, target_ids, writer)
    read = _axis(Message("axis_read", language=target_name), read_pieces, read_ids, writer)
    axes = {"encoder.self": (source, source), "decoder.self": (written, read), "decoder.cross": (written, source)}
    notes = (*checkpoint.guesses, *unknown_words(source, source_ids, reader))
    maps = {site: replace(_map(seen, site, *axes[site.group]), notes=notes) for site in seen.sites}
    return Translation(
        checkpoint=checkpoint.name,
        input=text,
        text=writer.decode(target_ids),
        source_ids=tuple(source_ids),
        target_ids=tuple(target_ids),
        steps=_steps(distribution, target_ids, written_pieces, writer),
        record=Record(maps, checkpoint.name, text),
        axes=Axes(source, written, read),
    )


def unknown_words(axis: Axis, ids: Sequence[int], tokenizer: Tokenizer | None) -> tuple[Message, ...]:
    """A note that some words of a text are unknown to the vocabulary, and which; none where all are known."""
    if tokenizer is None or tokenizer.unknown_id < 0:
        return ()
    lacking = list(dict.fromkeys(axis.words[i] for i, token in enumerate(ids) if token == tokenizer.unknown_id))
    if not lacking:
        return ()
    every = {word for word, is_special in zip(axis.words, axis.special, strict=True) if not is_special}
    return (Message("note_unknown", count=len(lacking), of=len(every | set(lacking)), token=unknown_name(tokenizer)),)


def _map(seen: Recording, site: Site, queries: Axis, keys: Axis) -> AttentionMap:
    """The map of a site; weights past the end of the source, which location attention has, become one last key."""
    kept = seen.source(site)
    if isinstance(kept, Weights) and kept.n_keys > len(keys):
        folded = kept.folded(torch.tensor([len(keys)]))
        return AttentionMap(site, queries, keys.extended(PAST_SOURCE), folded, interventions=seen.interventions)
    return seen.map(site, queries, keys)


def _axis(name: str, pieces: list[str], ids: list[int], tokenizer: Tokenizer) -> Axis:
    return Axis.of_pieces(name, pieces, [tokenizer.is_special(i) for i in ids])


def _steps(distribution: Tensor, ids: list[int], pieces: list[str], tokenizer: Tokenizer) -> tuple[Step, ...]:
    top = distribution.topk(min(RUNNERS_UP, distribution.shape[-1]), dim=-1)
    chosen = distribution.gather(1, torch.tensor(ids)[:, None])
    ranks = (distribution > chosen).sum(1)
    return tuple(
        Step(
            text=piece,
            probability=float(p),
            rank=int(rank),
            likeliest=tuple(map(Candidate, tokenizer.labels(tops.tolist()), values.tolist())),
        )
        for piece, p, rank, tops, values in zip(pieces, chosen[:, 0], ranks, top.indices, top.values, strict=True)
    )

"""Translations: (checkpoint, input, options) -> what the model did, with its attention.

A run decodes with the key/value cache, then passes the chosen tokens through the model once more, recorded; so the
record holds whole maps, and any hypothesis of the beam can be looked at in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.capture import Recording, recording
from ..attention.record import Record
from ..attention.softmax_inputs import Weights
from ..checkpoint.checkpoint import Checkpoint
from ..errors import AttributionError, InputError
from ..explain.attribution.deletion import Progress
from ..explain.attribution.methods import DELETION, attribute
from ..explain.attribution.result import Attribution, ScoredSequence
from ..messages import Message
from ..nn.common import log_probs, readable
from ..nn.protocols import written_length
from ..nn.search import BeamTree, DecodingOptions, decode, likeliest
from ..plots.axes import Axis, pooling_queries
from ..text.base import Tokenizer, labels_as_typed, unknown_name
from ..text.beams import Candidate, Step
from .concurrency import forward_slot, let_others, letting_others, run_of

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

    def __repr__(self) -> str:
        """Input, output and the record, in a line."""
        return f"Translation({self.checkpoint!r}, {self.input[:200]!r}, {self.text[:200]!r}, {self.record!r})"

    def scored_sequence(self, checkpoint: Checkpoint) -> ScoredSequence:
        """What the translation is, as methods of attribution ask about it; `checkpoint` is the one that made it.

        Raises:
            CheckpointError: the checkpoint does not translate text.
        """
        model = checkpoint.translator()[0]
        ids = self.source_ids, (model.config.bos_id, *self.target_ids[:-1]), self.target_ids
        axes = self.axes.source, self.axes.read, self.axes.written
        return ScoredSequence(checkpoint.name, model, *ids, *axes)

    def attribution(
        self,
        checkpoint: Checkpoint,
        method: str = DELETION.name,
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
        asked, reported = self.scored_sequence(checkpoint), letting_others(progress)
        with forward_slot():
            return attribute(asked, self.record, method, layer, head, words, points, reported)

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
    if not isinstance(checkpoint, Checkpoint):
        raise InputError("not_of_this_library", kind=type(checkpoint).__name__)
    model, reader, writer = checkpoint.translator()
    source_ids = checked_ids(text, Message("noun_text"), model.config.max_length, reader)
    if forced is not None:
        target_ids = [*checked_ids(forced, Message("noun_forced_target"), written_length(model.config), writer)]
        return _watched(checkpoint, text, source_ids, target_ids, labels_as_typed(writer, forced, target_ids))
    with run_of(checkpoint):
        decoded = decode(model, torch.tensor([source_ids]), options or DecodingOptions(), between=let_others)[0]
    translation = _watched(checkpoint, text, source_ids, list(decoded.ids), is_whole=True)
    return replace(translation, tree=decoded, node=decoded.best.id)


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
    checkpoint: Checkpoint,
    text: str,
    source_ids: list[int],
    target_ids: list[int],
    pieces: list[str] | None = None,
    is_whole: bool = False,
) -> Translation:
    """Pass source and target through the model once, recorded; `pieces` are the target's where it was typed.

    A target that `is_whole` is all that the model makes of the source, so that what it lacks is noted.
    """
    model, reader, writer = checkpoint.translator()
    read_ids = [model.config.bos_id, *target_ids[:-1]]
    with run_of(checkpoint), recording() as seen:
        logits = model(torch.tensor([source_ids]), torch.tensor([read_ids]))[0]
        distribution = log_probs(readable(logits)).exp()
    written_pieces = pieces or writer.labels(target_ids)
    read_pieces = [*writer.labels(read_ids[:1]), *written_pieces[:-1]]

    def axis(name: Message, pieces: list[str], ids: list[int], tokenizer: Tokenizer) -> Axis:
        return Axis.of_pieces(name, pieces, [tokenizer.is_special(i) for i in ids])

    ours, theirs = checkpoint.languages
    source_pieces = labels_as_typed(reader, text, source_ids)
    source = axis(Message("axis_source", language=ours), source_pieces, source_ids, reader)
    written = axis(Message("axis_written", language=theirs), written_pieces, target_ids, writer)
    read = axis(Message("axis_read", language=theirs), read_pieces, read_ids, writer)
    axes = {"encoder.self": (source, source), "decoder.self": (written, read), "decoder.cross": (written, source)}
    notes = (*unknown_words(source, source_ids, reader), *(poor_match(source, written) if is_whole else ()))
    record = record_of(checkpoint, seen, text, axes, *notes)
    steps, ids = steps_of(distribution, target_ids, written_pieces, writer), (tuple(source_ids), tuple(target_ids))
    return Translation(
        checkpoint.name, text, writer.decode(target_ids), *ids, steps, record, Axes(source, written, read)
    )


def record_of(
    checkpoint: Checkpoint, seen: Recording, text: str, axes: Axis | Mapping[str, tuple[Axis, Axis]], *notes: Message
) -> Record:
    """The record of a run; `axes` are queries and keys of each kind, or the one axis of a model without a target.

    Weights past the end of the keys, which location attention has, become one last key.
    """
    maps = {}
    for site in seen.sites:
        kept = seen.source(site)
        if isinstance(axes, Axis):
            queries, keys = axes if site.kind == "self" else pooling_queries(kept.n_queries), axes
        else:
            queries, keys = axes[site.group]
        found = replace(seen.map(site, queries, keys), notes=(*checkpoint.guesses, *notes))
        if isinstance(kept, Weights) and kept.n_keys > len(keys):
            found = replace(found, keys=keys.extended(PAST_SOURCE), source=kept.folded(torch.tensor([len(keys)])))
        maps[site] = found
    return Record(maps, checkpoint.name, text)


def unknown_words(axis: Axis, ids: Sequence[int], tokenizer: Tokenizer | None) -> tuple[Message, ...]:
    """A note that some words of a text are unknown to the vocabulary, and which; none where all are known."""
    if tokenizer is None or tokenizer.unknown_id < 0:
        return ()
    lacking = list(dict.fromkeys(axis.words[i] for i, token in enumerate(ids) if token == tokenizer.unknown_id))
    if not lacking:
        return ()
    every = {word for word, is_special in zip(axis.words, axis.special, strict=True) if not is_special}
    return (Message("note_unknown", count=len(lacking), of=len(every | set(lacking)), token=unknown_name(tokenizer)),)


LEAST_WRITTEN = 0.4
"""Words written for each that was read, below which most of a text may be missing.

Of 1,014 held-out captions (Multi30k, validation) people write at least 0.5; the shipped Transformer is below in none,
either RNN in one. Tokens count where there are more of them, since some languages put no space between words.
"""

OFTEN, LONGEST_LOOP = 3, 8
"""So often in a row no run of up to 8 words stands in any of 30,014 captions that people wrote, English or German.

Of 1,014 held-out captions the shipped Transformer's translations have such a loop in 4, the RNNs' in 0 and 17.
"""


def poor_match(source: Axis, written: Axis) -> tuple[Message, ...]:
    """Notes that most of a text may be missing from its translation, and that one of the two says a thing in a loop."""
    sides = [axis.kept([i for i, is_sign in enumerate(axis.special) if not is_sign]) for axis in (source, written)]
    spoken = [[word for word in side.merged().texts if is_spoken(word)] for side in sides]
    (read, wrote), found = map(len, spoken), list[Message]()
    if max(wrote / max(read, 1), len(sides[1]) / max(len(sides[0]), 1)) < LEAST_WRITTEN:
        found.append(Message("note_dropped", read=read, written=wrote))
    for side, words in zip(("read", "written"), spoken, strict=True):
        phrase, times = _most_repeated(words)
        if times >= OFTEN:
            found.append(Message(f"note_loop_{side}", phrase=phrase, times=times))
    return tuple(found)


def is_spoken(word: str) -> bool:
    """Whether it is more than punctuation."""
    return any(map(str.isalnum, word))


def _most_repeated(words: Sequence[str]) -> tuple[str, int]:
    """The run of at most `LONGEST_LOOP` words that stands most often in a row, and how often."""
    folded, found = [word.casefold() for word in words], ("", 1)
    for size in range(1, LONGEST_LOOP + 1):
        same = 0
        for end in range(size, len(folded)):
            same = same + 1 if folded[end] == folded[end - size] else 0
            if same // size + 1 > found[1]:
                found = " ".join(words[end + 1 - size : end + 1]), same // size + 1
    return found


def steps_of(
    distribution: Float[Tensor, "step vocab"], ids: Sequence[int], pieces: Sequence[str], tokenizer: Tokenizer
) -> tuple[Step, ...]:
    """Each written token, called by its piece, with its probability, its rank, and the likeliest ones beside it."""
    values, tops = likeliest(distribution, RUNNERS_UP)
    chosen = distribution.gather(1, torch.tensor(ids)[:, None])
    rows = zip(pieces, chosen[:, 0].tolist(), (distribution > chosen).sum(1).tolist(), strict=True)
    return tuple(
        Step(*row, tuple(map(Candidate, tokenizer.labels(top), odds)))
        for row, top, odds in zip(rows, tops.tolist(), values.tolist(), strict=True)
    )

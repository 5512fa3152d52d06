"""A run of a checkpoint of any kind: (checkpoint, text or ids) -> all attention, and what the model says of it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..attention.capture import recording
from ..attention.record import Record
from ..checkpoint.checkpoint import Checkpoint
from ..checkpoint.foreign.vocabularies import sample_ids
from ..errors import AttributionError, CheckpointError, InputError, NotDefinedError
from ..explain.attribution.deletion import Progress
from ..explain.attribution.methods import attribute, methods_of
from ..explain.attribution.result import Attribution, EncodedText, ScoredSequence
from ..messages import Message
from ..nn.common import readable
from ..nn.kmer import KmerClassifier
from ..nn.search import DecodingOptions
from ..plots.axes import Axis
from ..text.base import labels_as_typed
from .concurrency import forward_slot, letting_others, run_of
from .pace import MOST_BYTES, SHORT, Pace, pace_of, refuse_large
from .translate import MAX_CHARACTERS, Translation, record_of, translate, unknown_words

MAX_POSITIONS = 512
"""Most tokens of a text that writes on, or is read where nobody tells how far a run is, or stops it."""

LONGEST_TEXT = 400_000
"""Most characters that a tokenizer is given."""

SAMPLE = 8
"""Tokens of a text to begin with, where a checkpoint brings no example."""


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

        `checkpoint` is the one that ran. Methods are `attribution.methods.METHODS`; of one text those of a `text`, of
        a decoder alone, which scores each token after those before it, those of a `decoder` too. `points` is of
        integrated gradients alone: at how many points slopes are taken (None: at as many as are needed).

        Raises:
            AttributionError: no such method, or one that is not defined for this model.
        """
        if self.translation is not None:
            return self.translation.attribution(checkpoint, method, layer=layer, head=head, points=points)
        own = next((each for site, each in self.record.items() if site.kind == "self"), None)
        if own is None:
            raise NotDefinedError("attribution_nothing_recorded", name=checkpoint.name, group="encoder.self")
        asked: ScoredSequence | EncodedText
        if method in methods_of("decoder"):
            asked = self.scored_sequence(checkpoint)
        else:
            causal = not own.mask()[0, 1:].any() and len(own.keys) > 1
            asked = EncodedText(checkpoint.name, checkpoint.model, self.ids, own.keys, causal)
        with forward_slot():
            return attribute(asked, self.record, method, layer, head, points=points)

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
        ids, axes = ((), self.ids[:-1], self.ids[1:]), (axis.kept(()), read, written)
        return ScoredSequence(checkpoint.name, checkpoint.model, *ids, *axes)


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
    """
    model: Any = checkpoint.model
    reporting: AbstractContextManager[None] = nullcontext()
    if progress is not None and len(ids) > SHORT:
        reporting = pace(checkpoint, ids).reported(len(ids), letting_others(progress))
    with run_of(checkpoint), recording() as seen, reporting:
        outputs = model.outputs(torch.tensor([ids]))
    axis = _axis(checkpoint, ids, pieces)
    lacking = () if checkpoint.model.abilities.reads_windows else unknown_words(axis, ids, checkpoint.tokenizer)
    record = record_of(checkpoint, seen, text, axis, *lacking)
    found = {name: readable(value[0]).numpy() for name, value in outputs.items()}
    return ModelRun(checkpoint.name, text, record, outputs=found, ids=tuple(ids))


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


def sample_text(checkpoint: Checkpoint) -> str:
    """A text to begin with: the first example, or some ids of the vocabulary; empty without a tokenizer."""
    reader = checkpoint.tokenizer
    if checkpoint.examples or reader is None:
        return next(iter(checkpoint.examples), "")
    length = max(SAMPLE, *getattr(checkpoint.model.config, "widths", ()), 0)  # a window needs as many tokens
    return reader.decode(sample_ids(checkpoint.model.config, length, len(reader)))


def _axis(checkpoint: Checkpoint, ids: list[int], pieces: list[str]) -> Axis:
    """Positions of an encoder are tokens; those of a k-mer classifier windows: from which token (from 1) to which."""
    tokenizer = checkpoint.tokenizer
    if checkpoint.model.abilities.reads_windows:
        spans = [(one.start, one.start + one.width) for one in checkpoint.model_as(KmerClassifier).windows(len(ids))]
        names = [f"{' '.join(pieces[first:last])} ({first + 1}-{last})" for first, last in spans]
        return Axis.of_tokens(Message("axis_window"), names)
    special = [tokenizer is not None and tokenizer.is_special(i) for i in ids]
    return Axis.of_pieces(Message("axis_token"), pieces, special)


def continues(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint scores what comes next, and has a tokenizer to say it with."""
    return checkpoint.model.abilities.continues and checkpoint.tokenizer is not None


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says at each position, a row each, or once of all that it read (`is_whole`, one row).

    `scores` are logits, or log-probabilities of tokens. `names` are those of its classes; none where outputs are
    tokens of a vocabulary, which `fills` says stand at their own positions. Probabilities of a row sum to 1, unless
    `each` is a yes or no of its own. `temperature` is what scores are divided by; 1 where nobody calibrated them.
    """

    scores: Float[np.ndarray, "row output"]
    names: tuple[str, ...] = ()
    is_whole: bool = False
    fills: bool = False
    each: bool = False
    temperature: float = 1.0

    def odds(self, row: int, temperature: float = 1.0) -> Float[np.ndarray, " output"]:
        """The probabilities of a row; at another `temperature`: below 1 sharper, above 1 flatter."""
        scaled = torch.from_numpy(self.scores[row].astype(np.float64)) / (self.temperature * temperature)
        found: Float[np.ndarray, " output"] = (scaled.sigmoid() if self.each else scaled.softmax(-1)).numpy()
        return found

    def likeliest(self, row: int, count: int) -> list[int]:
        """The outputs with the highest scores of a row, the highest first; of equals the first."""
        return [int(i) for i in np.argsort(-self.scores[row], kind="stable")[:count]]


def predictions_of(checkpoint: Checkpoint, outputs: Mapping[str, np.ndarray]) -> Predictions | None:
    """What a run's outputs say (of a model that fills words in, with `what_if.with_words`); None of states or numbers.

    Classes are named by the task, or the config, or numbers. A lone logit is the log-odds of a yes.
    """
    config: Any = checkpoint.model.config
    head = getattr(config, "head", "")
    found = outputs.get("logits", outputs.get("log_probs"))
    if found is None:
        return None
    is_whole, rows = found.ndim == 1, np.atleast_2d(found)
    if head == "words" or (not is_whole and continues(checkpoint)):
        return Predictions(rows, fills=head == "words")
    width, task = rows.shape[1], checkpoint.task
    if task is not None and len(task.classes) == width:
        return Predictions(rows, task.classes, is_whole, temperature=task.temperature)
    each = head != "tokens" and (width == 1 or not getattr(config, "one_label", True))
    return Predictions(rows, names_of(checkpoint, width), is_whole, each=each)


def temperature_of(checkpoint: Checkpoint, count: int) -> float:
    """What the logits of so many classes are divided by: the task's temperature; 1 where nobody calibrated them."""
    task = checkpoint.task
    return task.temperature if task is not None and len(task.classes) == count else 1.0


def numbers_of(checkpoint: Checkpoint, outputs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The numbers of a regression by name, as the head gives them, which are no probabilities; of others none."""
    scores = outputs.get("scores", np.zeros(0))
    return dict(zip(names_of(checkpoint, len(scores)), scores.tolist(), strict=True))


def names_of(checkpoint: Checkpoint, count: int) -> tuple[str, ...]:
    """What so many classes are called: by name, or by number where no names fit."""
    named: tuple[str, ...] = getattr(checkpoint.model.config, "labels", ())
    return named if len(named) == count else tuple(map(str, range(count)))


def log_odds(logits: Float[Tensor, "row class"], target: int, each: bool) -> Float[Tensor, " row"]:
    """ln(p / (1 - p)) of the class `target`; of a class that is a yes or no of its own, its logit."""
    if each or logits.shape[1] == 1:
        return logits[:, target]
    others = torch.arange(logits.shape[1]) != target
    return logits[:, target] - logits[:, others].logsumexp(1)

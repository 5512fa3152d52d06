"""The run that the map shows: what was read and written, all attention, and what flowed through every part."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from transformer import Checkpoint, ContinueOptions, DecodingOptions, Record
from transformer.errors import CheckpointError
from transformer.plots.axes import Axis
from transformer.runs.any_model import MAX_POSITIONS, ModelRun, run_any
from transformer.runs.classes import names_of, numbers_of, temperature_of
from transformer.runs.continuing import Continuation, continues
from transformer.runs.filling import mask_of
from transformer.runs.flow import Flow, flow
from transformer.runs.sequences.classify import calibrated, classify
from transformer.runs.translate import Translation
from transformer.runs.what_if import with_words
from transformer.text.base import Tokenizer
from transformer.text.steps import Candidate
from ui.store import runs, store
from ui.store.cache import cached, cached_result
from ui.store.refs import Revision

OPTIONS = DecodingOptions()
"""How the map decodes: as Translate does at first, so that both pages show the same run."""

UNTRAINED = DecodingOptions(beam=1, max_length=40)
"""How a checkpoint without examples decodes: what was never trained does not stop by itself."""

MOST_LETTERS = 1_024
"""Letters of a sequence that the map draws: all of its maps are looked through for each window's surest head."""

MOST_DECIDED = 40
"""Source tokens up to which what decides a word is computed: one pass a word."""

TOP = 10
"""How many of the likeliest outputs are kept for each position."""


@dataclass(frozen=True, eq=False)
class Said:
    """What a head says that stands beside the layers of another library's model: a row a position, or one row.

    `each` says that an output is a yes or no of its own, `fills` that outputs are words at their own positions.
    `numbers` are those of a regression, which has no probabilities, by name.
    """

    logits: Float[np.ndarray, "row output"] | None = None
    each: bool = False
    fills: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Shown:
    """One run. `source` is what stands below the first tower, `read` what stands below a decoder that has a source.

    `axis` are the positions that can be looked at: what was written, or what was read by a model that reads alone.
    `next` holds the likeliest outputs of each step (one step for a class), likeliest first. `continued` is what a
    decoder alone wrote after its text, as `options` ask; all of it was read. `hidden` are the places of hidden words.
    `decided` are for each step the places of the source word that decides it, by deletion, of a short sentence.
    """

    record: Record
    flow: Flow
    source: tuple[str, ...]
    read: tuple[str, ...]
    axis: Axis
    next: tuple[tuple[Candidate, ...], ...]
    ids: tuple[int, ...]
    translation: Translation | None = None
    classes: tuple[str, ...] = ()
    own_temperature: float = 1.0
    said: Said | None = None
    continued: Continuation | None = None
    options: ContinueOptions | None = None
    hidden: tuple[int, ...] = ()
    decided: tuple[tuple[int, ...], ...] = ()
    drawings: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)
    """What was drawn of it, by how: it goes with the run."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The labels of the positions that can be looked at."""
        return self.axis.texts

    @property
    def logits(self) -> Float[np.ndarray, "row output"]:
        """The model's own output, a row a step, or one row; its probabilities are calibrated by `own_temperature`.

        Raises:
            CheckpointError: the model ends with states.
        """
        found = self.flow.logits if self.said is None else self.said.logits
        if found is None:
            raise CheckpointError("lens_needs_output", family=self.flow.diagram.family)
        return found

    def row_of(self, step: int) -> int:
        """The row of a step's output: where all steps are meant, that of the last one."""
        return 0 if len(self.next) == 1 else step if step >= 0 else len(self.next) - 1

    def written_at(self, row: int) -> int | None:
        """Which token was chosen at a row, counted from 0, of a text that was written on; None of what was typed."""
        step = -1 if self.continued is None else row - self.continued.prompt + 1
        return step if step >= 0 else None

    @property
    def answer(self) -> str:
        """The likeliest class, of a model that answers once for all that it read."""
        return self.next[0][0].text if self.is_one_answer and self.classes else ""

    @property
    def is_one_answer(self) -> bool:
        """Whether the model answers once for all that it read: a class."""
        return len(self.next) == 1 and len(self.steps) != 1


def options_for(checkpoint: Checkpoint) -> DecodingOptions:
    """How a checkpoint writes on this page."""
    return OPTIONS if checkpoint.examples else UNTRAINED


def shown(name: str, text: str) -> Shown:
    """What a checkpoint of any kind did with a text; it runs once, whatever is looked at.

    Raises:
        InputError: the text cannot be read.
        CheckpointError: the checkpoint has no way to read a text.
    """
    return _shown(store.revision(name), text)


def continued(name: str, text: str, options: ContinueOptions) -> Shown:
    """The same of a decoder alone that wrote on after the text: one pass over all of it, whatever step is looked at.

    Raises:
        InputError: the text cannot be read, or leaves no room.
    """
    revision, found = store.revision(name), runs.continuation(name, text, options)

    def compute() -> Shown:
        return replace(_of_reading(store.load(revision), found.run), continued=found, options=options)

    return cached_result("map-continued", (revision, text, options, found.written), compute)


@cached(spinner="store.running")
def _shown(revision: Revision, text: str) -> Shown:
    checkpoint = store.load(revision)
    if checkpoint.translates:
        asked = str(revision.ref), text, options_for(checkpoint), None
        run = runs.translation(*asked)
        decided = runs.deciding(*asked, None).columns if len(run.source_ids) <= MOST_DECIDED else None
        return _of_translation(checkpoint, run, decided)
    if checkpoint.task is not None and checkpoint.tokenizer is None:
        return _of_sequence(checkpoint, text)
    return _of_reading(checkpoint, run_any(checkpoint, text, longest=MAX_POSITIONS))


def _of_translation(checkpoint: Checkpoint, run: Translation, decided: Int[np.ndarray, " word"] | None) -> Shown:
    axes = run.axes.written, run.axes.source
    words, sources = ([sorted(set(axis.words)).index(word) for word in axis.words] for axis in axes)
    places = [[at for at, source in enumerate(sources) if source == column] for column in range(len(sources))]
    return Shown(
        run.record,
        flow(checkpoint, run.source_ids, read_ids(checkpoint, run), run.target_ids),
        run.axes.source.texts,
        run.axes.read.texts,
        run.axes.written,
        tuple(step.likeliest for step in run.steps),
        run.target_ids,
        run,
        decided=() if decided is None else tuple(tuple(places[at]) if (at := decided[i]) >= 0 else () for i in words),
    )


def read_ids(checkpoint: Checkpoint, run: Translation) -> tuple[int, ...]:
    """What the decoder reads at the steps of a translation: its start mark, and all that it wrote but the last."""
    model, _, _ = checkpoint.translator()
    return (model.config.bos_id, *run.target_ids[:-1])


def _of_sequence(checkpoint: Checkpoint, text: str) -> Shown:
    """A sequence that is put into a class; the probabilities are calibrated, as everywhere."""
    found = classify(checkpoint, text, MOST_LETTERS)
    axis = next(iter(found.record.values())).keys
    return Shown(
        found.record,
        flow(checkpoint, found.letters.ids),
        tuple(found.letters.text),
        (),
        axis,
        (_likeliest(found.probabilities, found.classes),),
        tuple(found.letters.ids),
        classes=found.classes,
        own_temperature=temperature_of(checkpoint, len(found.classes)),
    )


def _of_reading(checkpoint: Checkpoint, read: ModelRun) -> Shown:
    run = with_words(checkpoint, read)
    looked = next((each for site, each in run.record.items() if site.kind == "self"), None)
    watched = flow(checkpoint, run.ids)
    axis = looked.keys if looked is not None else Axis.of_tokens("", tuple(map(str, run.ids)))
    tokens = _labels(checkpoint.tokenizer, run.ids)
    said = _said(checkpoint, run)
    if said is None:
        answers, classes = _answers(checkpoint, watched.logits, len(axis))
    else:
        answers, classes = _answers_of_head(checkpoint, said)
    return Shown(
        run.record, watched, tokens, (), axis, answers, run.ids, classes=classes,
        own_temperature=temperature_of(checkpoint, len(classes)), said=said, hidden=_hidden(checkpoint, run.ids),
    )  # fmt: skip


def _hidden(checkpoint: Checkpoint, ids: tuple[int, ...]) -> tuple[int, ...]:
    """Where a mask stands, of a checkpoint that fills hidden words in."""
    reader: Any = checkpoint.tokenizer
    return tuple(i for i, one in enumerate(ids) if one == reader.mask_id) if mask_of(checkpoint) else ()


def _said(checkpoint: Checkpoint, run: ModelRun) -> Said | None:
    """What the head of another library's model says; None of a model whose head is a part of its own."""
    config: Any = checkpoint.model.config
    head = getattr(config, "head", "")
    if head == "scores":
        return Said(numbers=numbers_of(checkpoint, run.outputs["scores"]))
    if head not in {"classes", "tokens", "words"}:
        return None
    logits = run.outputs["logits"]
    rows = logits[None] if logits.ndim == 1 else logits
    each = head == "classes" and (rows.shape[1] == 1 or not config.one_label)
    return Said(rows, each, head == "words")


def _answers_of_head(checkpoint: Checkpoint, said: Said) -> tuple[tuple[tuple[Candidate, ...], ...], tuple[str, ...]]:
    """The likeliest words at each position, or classes by name."""
    if said.logits is None:
        return (), ()
    reader, width = checkpoint.tokenizer, said.logits.shape[1]
    odds = np.stack([tempered(row, temperature_of(checkpoint, width), said.each) for row in said.logits])
    if said.fills and reader is not None:
        tops = [np.argsort(-row, kind="stable")[:TOP].tolist() for row in odds]
        return tuple(
            tuple(Candidate(name, float(row[i])) for name, i in zip(reader.labels(top), top, strict=True))
            for top, row in zip(tops, odds, strict=True)
        ), ()
    classes = names_of(checkpoint, width)
    return tuple(_likeliest(row, classes) for row in odds), classes


def tempered(
    logits: Float[np.ndarray, " output"], temperature: float, each: bool = False
) -> Float[np.ndarray, " output"]:
    """The softmax of logits divided by a temperature: below 1 sharper, above 1 flatter; of `each` alone its sigmoid."""
    scaled = logits.astype(np.float64) / temperature
    if each:
        return 0.5 * (1.0 + np.tanh(scaled / 2))
    odds = np.exp(scaled - scaled.max())
    return odds / odds.sum()


def _answers(
    checkpoint: Checkpoint, logits: Float[np.ndarray, "position output"] | None, positions: int
) -> tuple[tuple[tuple[Candidate, ...], ...], tuple[str, ...]]:
    """What a model that reads alone says at each position, or once: next tokens, or classes by name or number."""
    if logits is None:
        return (), ()
    task = checkpoint.task
    if task is not None and len(task.classes) == logits.shape[-1]:
        odds = calibrated(torch.from_numpy(logits), task).numpy()
        return tuple(_likeliest(row, task.classes) for row in odds), task.classes
    odds = torch.from_numpy(logits).softmax(-1).numpy()
    if checkpoint.tokenizer is not None and continues(checkpoint):
        tops = [np.argsort(-row, kind="stable")[:TOP] for row in odds]
        names = [checkpoint.tokenizer.labels(top.tolist()) for top in tops]
        return tuple(
            tuple(Candidate(name, float(p)) for name, p in zip(texts, row[top], strict=True))
            for texts, row, top in zip(names, odds, tops, strict=True)
        ), ()
    classes = names_of(checkpoint, logits.shape[-1])
    return tuple(_likeliest(row, classes) for row in odds[:positions]), classes


def _likeliest(odds: Float[np.ndarray, " output"], names: tuple[str, ...]) -> tuple[Candidate, ...]:
    order = np.argsort(-odds, kind="stable")[:TOP]
    return tuple(Candidate(names[i], float(odds[i])) for i in order)


def _labels(tokenizer: Tokenizer | None, ids: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, ids)) if tokenizer is None else tuple(tokenizer.labels(list(ids)))

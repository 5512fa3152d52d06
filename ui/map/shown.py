"""The run that the map shows: what was read and written, all attention, and what flowed through every part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from heedmap import Checkpoint, ContinueOptions, DecodingOptions, Record
from heedmap.plots.axes import Axis
from heedmap.runs.any_model import MAX_POSITIONS, ModelRun, Predictions, numbers_of, predictions_of, run_any
from heedmap.runs.continuing import Continuation, mask_of
from heedmap.runs.flow import Flow, flow
from heedmap.runs.sequences.classify import classify
from heedmap.runs.translate import Translation
from heedmap.runs.what_if import with_words
from heedmap.text.beams import Candidate
from ui.store import runs, store
from ui.store.cache import cached_result
from ui.store.refs import Revision
from ui.store.store import of_checkpoint

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
class Shown:
    """One run. `source` is what stands below the first tower, `read` what stands below a decoder that has a source.

    `axis` are the positions that can be looked at: what was written, or what was read by a model that reads alone.
    `answers` are the model's own outputs, or `numbers` those of a regression, by name; neither of states. `next` holds
    the likeliest outputs of each step (one step for a class), likeliest first. `continued` is what a decoder alone
    wrote after its text, as `options` ask; all of it was read. `hidden` are the places of hidden words. `decided` are
    for each step the places of the source word that decides it, by deletion, of a short sentence.
    """

    record: Record
    flow: Flow
    source: tuple[str, ...]
    read: tuple[str, ...]
    axis: Axis
    next: tuple[tuple[Candidate, ...], ...]
    ids: tuple[int, ...]
    answers: Predictions | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    translation: Translation | None = None
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

    def row_of(self, step: int) -> int:
        """The row of a step's output: where all steps are meant, that of the last one."""
        return 0 if len(self.next) == 1 else step if step >= 0 else len(self.next) - 1

    def written_at(self, row: int) -> int | None:
        """Which token was chosen at a row, counted from 0, of a text that was written on; None of what was typed."""
        step = -1 if self.continued is None else row - self.continued.prompt + 1
        return step if step >= 0 else None

    @property
    def what(self) -> str:
        """The code of what stands above the last tower: the next word, the word here, classes, numbers or states."""
        if self.numbers:
            return "map.ends_with_numbers"
        if self.answers is None:
            return "map.ends_with_states"
        return "map.classes" if self.answers.names else "map.word_here" if self.answers.fills else "map.next_word"

    @property
    def answer(self) -> str:
        """The likeliest class, of a model that answers once for all that it read."""
        is_whole = self.answers is not None and self.answers.is_whole
        return self.next[0][0].text if is_whole else ""


@of_checkpoint(spinner="store.running")
def run_of(revision: Revision, text: str) -> Shown:
    """What a checkpoint of any kind did with a text; it runs once, whatever is looked at.

    Raises:
        InputError: the text cannot be read.
        CheckpointError: the checkpoint has no way to read a text.
    """
    checkpoint = store.load(revision)
    if checkpoint.translates:
        asked = str(revision.ref), text, OPTIONS if checkpoint.examples else UNTRAINED, None
        run = runs.translation(*asked)
        decided = runs.deciding(*asked, None).columns if len(run.source_ids) <= MOST_DECIDED else None
        return _of_translation(checkpoint, run, decided)
    if checkpoint.task is not None and checkpoint.tokenizer is None:
        return _of_sequence(checkpoint, text)
    return _of_reading(checkpoint, run_any(checkpoint, text, longest=MAX_POSITIONS))


def continued(name: str, text: str, options: ContinueOptions) -> Shown:
    """The same of a decoder alone that wrote on after the text: one pass over all of it, whatever step is looked at.

    Raises:
        InputError: the text cannot be read, or leaves no room.
    """
    revision, found = store.revision(name), runs.continuation(name, text, options)

    def compute() -> Shown:
        return replace(_of_reading(store.load(revision), found.run), continued=found, options=options)

    return cached_result("map-continued", (revision, text, options, found.written), compute)


def _of_translation(checkpoint: Checkpoint, run: Translation, decided: Int[np.ndarray, " word"] | None) -> Shown:
    axes = run.axes.written, run.axes.source
    words, sources = ([sorted(set(axis.words)).index(word) for word in axis.words] for axis in axes)
    places = [[at for at, source in enumerate(sources) if source == column] for column in range(len(sources))]
    watched = flow(checkpoint, run.source_ids, read_ids(checkpoint, run), run.target_ids)
    return Shown(
        run.record,
        watched,
        run.axes.source.texts,
        run.axes.read.texts,
        run.axes.written,
        tuple(step.likeliest for step in run.steps),
        run.target_ids,
        None if watched.scores is None else Predictions(watched.scores),
        translation=run,
        decided=() if decided is None else tuple(tuple(places[at]) if (at := decided[i]) >= 0 else () for i in words),
    )


def read_ids(checkpoint: Checkpoint, run: Translation) -> tuple[int, ...]:
    """What the decoder reads at the steps of a translation: its start mark, and all that it wrote but the last."""
    model, _, _ = checkpoint.translator()
    return (model.config.bos_id, *run.target_ids[:-1])


def _of_sequence(checkpoint: Checkpoint, text: str) -> Shown:
    """A sequence that is put into a class; the probabilities are calibrated, as everywhere."""
    found = classify(checkpoint, text, MOST_LETTERS)
    ids, axis = tuple(found.letters.ids), next(iter(found.record.values())).keys
    watched = flow(checkpoint, ids)
    answers = None if watched.scores is None else predictions_of(checkpoint, {"logits": watched.scores[0]})
    next_ = _likeliest(checkpoint, answers)
    return Shown(found.record, watched, tuple(found.letters.text), (), axis, next_, ids, answers)


def _of_reading(checkpoint: Checkpoint, read: ModelRun) -> Shown:
    run = with_words(checkpoint, read)
    looked = next((each for site, each in run.record.items() if site.kind == "self"), None)
    axis = looked.keys if looked is not None else Axis.of_tokens("", tuple(map(str, run.ids)))
    reader: Any = checkpoint.tokenizer
    tokens = tuple(map(str, run.ids)) if reader is None else tuple(reader.labels(list(run.ids)))
    answers = predictions_of(checkpoint, run.outputs)
    masked = [i for i, one in enumerate(run.ids) if mask_of(checkpoint) and one == reader.mask_id]
    return Shown(
        run.record, flow(checkpoint, run.ids), tokens, (), axis, _likeliest(checkpoint, answers), run.ids, answers,
        numbers=numbers_of(checkpoint, run.outputs), hidden=tuple(masked),
    )  # fmt: skip


def names_of(checkpoint: Checkpoint, answers: Predictions, ids: Sequence[int]) -> list[str]:
    """Outputs by name: classes, or tokens as they are written."""
    if answers.names or checkpoint.writer is None:
        return [answers.names[i] if answers.names else str(i) for i in ids]
    return checkpoint.writer.labels(list(ids))


def _likeliest(checkpoint: Checkpoint, answers: Predictions | None) -> tuple[tuple[Candidate, ...], ...]:
    """The likeliest outputs of each row."""
    if answers is None:
        return ()
    found = []
    for row in range(len(answers.scores)):
        top = answers.likeliest(row, TOP)
        odds = answers.odds(row)[top].tolist()
        found.append(tuple(map(Candidate, names_of(checkpoint, answers, top), odds)))
    return tuple(found)

"""A question about a run: what is told before the prediction, the answer, and how far a prediction is from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from ..attention.measures import agreement
from ..attention.record import AttentionMap
from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError, InputError
from ..lessons.attention import Recipe, attention_board
from ..lessons.board import Board, Matrix
from ..lessons.run import Run, in_float64
from ..lessons.sentences import Sentence, source_sentence, toy_sentences, toy_transformer
from ..nn.search import DecodingOptions
from ..nn.seq2seq import Seq2Seq
from ..runs.translate import Translation, translate
from .data import Question

TOY_TOKENS = 4
"""Words of a toy's own sentence that a question reads, as the lesson does at first."""

EXACT = 1e-9
"""A change below this is rounding."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with labels, to be printed: `values[row][column]`, NaN where a cell is left empty."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray
    digits: int = 3

    @classmethod
    def of(cls, matrix: Matrix, *rows: int, digits: int = 3) -> "Table":
        """A matrix of a lesson, or some of its rows: the last one, where it has fewer."""
        chosen = [min(row, len(matrix.rows) - 1) for row in rows] or list(range(len(matrix.rows)))
        return cls(tuple(matrix.rows[i] for i in chosen), matrix.columns, matrix.values[chosen], digits)

    @classmethod
    def empty(cls, rows: tuple[str, ...], columns: tuple[str, ...]) -> "Table":
        """Labels alone: the picture of what is asked for."""
        return cls(rows, columns, np.full((len(rows), len(columns)), np.nan))


@dataclass(frozen=True)
class Between:
    """All numbers from `low` to `high`; counts are a `range`."""

    low: float = -np.inf
    high: float = np.inf

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high


@dataclass(frozen=True, eq=False)
class Case:
    """One question about one run.

    `asked`, `options` and `given` are shown before the prediction. `answer` is a number, the index of an option,
    several indices, or the weights of a row; `results` are fields that the explanation has besides `asked`, `scores`
    one number an option that says how far a wrong choice was from the right one, and `shown` the numbers behind the
    answer. Options that are cells of a picture, in reading order, have `cells`: the labels of its rows and columns.
    `possible` are the numbers that some run could give: no other one is right, however near.
    """

    answer: tuple[float, ...]
    options: tuple[str, ...] = ()
    asked: Mapping[str, object] = field(default_factory=dict)
    results: Mapping[str, object] = field(default_factory=dict)
    scores: tuple[float, ...] = ()
    given: Table | None = None
    shown: Table | None = None
    cells: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    possible: Between | range = Between()

    @property
    def explained(self) -> dict[str, object]:
        """All fields of the explanation; the `best` option, with its `score`, is among them where options have one."""
        best = int(self.answer[0]) if self.scores else 0
        scored = {"best": self.options[best], "score": self.scores[best]} if self.scores else {}
        return {**self.asked, **self.results, **scored}


class Live:
    """The run that questions are about: a checkpoint, and the sentence that it reads (its first example, if empty)."""

    def __init__(self, checkpoint: Checkpoint | None, text: str = "") -> None:
        self._checkpoint, self.typed = checkpoint, text.strip()

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint.

        Raises:
            CheckpointError: there is none.
        """
        if self._checkpoint is None:
            raise CheckpointError("teaching_no_checkpoint")
        return self._checkpoint

    @property
    def text(self) -> str:
        """What the checkpoint reads.

        Raises:
            InputError: nothing was typed, and the checkpoint brings no example.
        """
        if not self.typed and not self.checkpoint.examples:
            raise InputError("teaching_no_sentence")
        return self.typed or self.checkpoint.examples[0]

    @property
    def toy(self) -> tuple[Sentence, Sentence]:
        """What a toy reads: the typed words on both sides (at most as many as it has), else words of its own."""
        return toy_sentences(TOY_TOKENS, self.typed, self.typed)

    def board(self, d_model: int = 4, n_heads: int = 2, recipe: Recipe | None = None, side: str = "encoder") -> Board:
        """Self-attention of a toy, as the lesson about attention draws it."""
        return attention_board(toy_transformer(d_model, n_heads, seed=1), *self.toy, f"{side}.0.self", recipe)

    def again(self, **options: int) -> Translation:
        """The sentence, translated with these options of decoding."""
        return translate(self.checkpoint, self.text, DecodingOptions(**options))

    @cached_property
    def translation(self) -> Translation:
        """What the checkpoint writes for the sentence."""
        return translate(self.checkpoint, self.text)

    @property
    def cross(self) -> list[AttentionMap]:
        """The maps of cross-attention of that run, layer by layer."""
        record = self.translation.record
        return [record[site] for site in record.sites if site.kind == "cross"]

    @property
    def read(self) -> list[int]:
        """What the decoder reads of it: the start token, and all but the last that it writes."""
        return [self.checkpoint.translator()[0].config.bos_id, *self.translation.target_ids[:-1]]

    @cached_property
    def run(self) -> Run:
        """The sentence and its translation, with all that reached the sub-layers; float64."""
        exact, labels = in_float64(self.checkpoint.model_as(Seq2Seq)), self.checkpoint.translator()[2].labels
        return Run(exact, self.source, Sentence.of(self.read, labels(self.read)))

    @property
    def source(self) -> Sentence:
        """The tokens that the encoder reads."""
        return source_sentence(self.checkpoint, self.text)

    @property
    def middle(self) -> int:
        """The step in the middle of the translation, with which the map begins."""
        return (len(self.translation.steps) - 1) // 2


Fields = Mapping[str, object]
NONE: Fields = {}


def answer(value: Any, asked: Fields = NONE, **more: Any) -> Case:
    """A case whose answer is one number, or the index of a fixed option."""
    return Case((float(value),), asked=asked, **more)


def choice(
    options: tuple[str, ...], scores: Iterable[float], asked: Fields = NONE, best: int | None = None, **more: Any
) -> Case:
    """A case whose answer is one of the options, at first that with the largest of their scores."""
    numbers = tuple(map(float, scores))
    right = int(np.argmax(numbers)) if best is None else best
    return Case((float(right),), options, asked, scores=numbers, **more)


def comparison(value: float, than: float, asked: Fields = NONE, **more: Any) -> Case:
    """A case whose answer is 0 where `value` is larger, 1 where it is the same, 2 where it is smaller."""
    return answer(1 if abs(value - than) <= EXACT else 0 if value > than else 2, asked, **more)


class Verdict(NamedTuple):
    """A prediction beside the answer.

    `off` is how far it is: of a number the difference, of a choice that of the scores (NaN where options have none),
    of a set or an order how many are wrong, of a row its Jensen-Shannon distance. `possible`: some run could give it.
    """

    right: bool
    off: float
    possible: bool = True


def judged(question: Question, case: Case, guess: tuple[float, ...]) -> Verdict:
    """Hold a prediction against the answer; a number may be off by the question's tolerance."""
    answer = case.answer
    if question.kind == "choice":
        best, picked = int(answer[0]), int(guess[0])
        known = 0 <= picked < len(case.scores)
        return Verdict(guess[0] == answer[0], abs(case.scores[best] - case.scores[picked]) if known else float("nan"))
    if question.kind == "row":
        row, drawn = np.array([answer]), np.array([guess])
        total = drawn.sum()
        off = 1 - (float(agreement(row, drawn / total)[0]) if total > 0 and drawn.shape == row.shape else 0.0)
    elif question.kind == "several":
        off = float(len(set(answer) ^ set(guess)))
    elif question.kind == "order":
        off = float(sum(one != other for one, other in zip_longest(answer, guess)))
    else:
        off, possible = abs(guess[0] - answer[0]), guess[0] in case.possible
        return Verdict(possible and off <= question.tolerance, off, possible)
    return Verdict(off <= question.tolerance, off)

"""A question about a run: what the reader is told before the prediction, and the answer, computed from the run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.lessons.attention import attention_board
from transformer.lessons.expressions.board import Board
from transformer.lessons.recipe import Recipe
from transformer.lessons.run import Run, in_float64
from transformer.lessons.sentences import Sentence, source_sentence
from transformer.lessons.toy import toy_sentences, toy_transformer
from transformer.nn.search import DecodingOptions
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.translate import Translation, translate

TOY_TOKENS = 4
"""Words of a toy's own sentence that a question reads, as the lesson does at first."""


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with labels, to be printed: `values[row][column]`, NaN where a cell is left empty."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray
    digits: int = 3

    @classmethod
    def empty(cls, rows: tuple[str, ...], columns: tuple[str, ...]) -> "Table":
        """Labels alone: the picture of what is asked for."""
        return cls(rows, columns, np.full((len(rows), len(columns)), np.nan))


@dataclass(frozen=True, eq=False)
class Case:
    """One question about one run.

    `asked`, `options` and `given` are shown before the prediction. `answer` is a number, the index of an option,
    several indices, or the weights of a row; `told` are the fields of the explanation, `scores` one number an option
    that says how far a wrong choice was from the right one, and `shown` the numbers behind the answer. Options that
    are cells of a picture, in reading order, have `cells`: the labels of its rows and of its columns.
    """

    answer: tuple[float, ...]
    options: tuple[str, ...] = ()
    asked: Mapping[str, object] = field(default_factory=dict)
    told: Mapping[str, object] = field(default_factory=dict)
    scores: tuple[float, ...] = ()
    given: Table | None = None
    shown: Table | None = None
    cells: tuple[tuple[str, ...], tuple[str, ...]] | None = None


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
        """What a toy reads: the typed words on both sides, else words of its own.

        Raises:
            InputError: more words than a toy has.
        """
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

    @cached_property
    def run(self) -> Run:
        """The sentence and its translation, with all that reached the sub-layers; float64."""
        model, _, writer = self.checkpoint.translator()
        read = (model.config.bos_id, *self.translation.target_ids[:-1])
        exact = in_float64(self.checkpoint.model_as(Seq2Seq))
        return Run(
            exact, self.source, Sentence.of(read, writer.labels(list(read))), lambda ids: writer.labels(list(ids))
        )

    @property
    def source(self) -> Sentence:
        """The tokens that the encoder reads."""
        return source_sentence(self.checkpoint, self.text)

    @property
    def middle(self) -> int:
        """The step in the middle of the translation, with which the map begins."""
        return (len(self.translation.steps) - 1) // 2


TRUTHS: dict[str, Callable[[Live], Case]] = {}
"""The functions that know the answers, by name."""


def truth(function: Callable[[Live], Case]) -> Callable[[Live], Case]:
    """Make a function known as one that answers a question."""
    TRUTHS[function.__name__] = function
    return function


def choice(options: Sequence[str], scores: Iterable[float], best: int, /, **fields: object) -> Case:
    """A case whose answer is one of the options, with a number for each of them."""
    return Case((float(best),), tuple(options), told=fields, scores=tuple(float(one) for one in scores))


def verdict(value: float, than: float, tolerance: float = 1e-9) -> tuple[float, ...]:
    """0 where `value` is larger, 1 where it is the same, 2 where it is smaller: the order of the fixed options."""
    return (float(1 if abs(value - than) <= tolerance else 0 if value > than else 2),)

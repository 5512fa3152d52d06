"""From a state to the next word: dot products with the rows of a table, then the log-softmax.

Source: Vaswani et al. 2017, section 3.4; Press & Wolf 2017 (the embedding table as the output layer).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import InputError
from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.cellwise import Scale
from transformer.lessons.expressions.operations import Given, Operation, number
from transformer.lessons.expressions.rowwise import Product
from transformer.lessons.expressions.written import exponential, largest, less, less_logarithm, through, total
from transformer.lessons.inside.boards import GIVEN, STAGES
from transformer.lessons.run import Run
from transformer.nn.protocols import TokenInterface
from transformer.plots.axes import Axis

TOP = 10
"""Words that are shown, the likeliest ones: of all others the exponentials are one sum."""

WORDS: Axes = ("", "word")


@dataclass(frozen=True)
class Ahead:
    """The likeliest output at one position, and its probability."""

    label: str
    word: str
    probability: float


def is_tied(run: Run) -> bool:
    """Whether the rows of the output layer are those of the embedding table."""
    if not run.scores_words:
        return False
    tokens: TokenInterface = run.model.token_interface()
    return tokens.embeddings[-1].weight is tokens.projection.weight


def positions_of(run: Run) -> tuple[str, ...]:
    """The positions whose output can be looked at, by their labels.

    One without a label stands for one output of the whole input; there is none where the model ends with its states.
    """
    if run.end() is None:
        return ()
    return run.labels(run.stacks[-1]) if _each(run) else ("",)


def likeliest(run: Run) -> list[Ahead]:
    """What every position's output says first."""
    found = _logits(run).softmax(-1).max(-1)
    words = run.words(found.indices.tolist())
    return [Ahead(*each) for each in zip(positions_of(run), words, found.values.tolist(), strict=True)]


def output_board(run: Run, position: int) -> Board:
    """The likeliest words of one position: their dot products, and how these become probabilities.

    Raises:
        InputError: there is no such position, or the model ends with its states.
    """
    states = run.end()
    if states is None or run.last is None or not 0 <= position < len(states):
        raise InputError("lesson_no_such_position", position=position, last=(0 if states is None else len(states)) - 1)
    logits = _logits(run)[position]
    chosen = logits.argsort(descending=True)[:TOP]
    words = Axis.of_tokens("token", list(run.words(chosen.tolist()))).labels
    return Board.of(_matrices(run, run.last, states[position], logits, chosen, words))


def _matrices(
    run: Run,
    last: nn.Linear,
    state: Float[Tensor, " d_model"],
    logits: Float[Tensor, " vocab"],
    chosen: Tensor,
    words: tuple[str, ...],
) -> Iterator[Matrix]:
    stage, factor = STAGES[5], _factor(run)

    def one(name: str, symbol: str, values: Tensor, operation: Operation, its: str = stage) -> Matrix:
        return Matrix(name, symbol, its, plain(values[None]), ("",), words, operation, axes=WORDS)

    def single(name: str, symbol: str, value: Tensor, operation: Operation, its: str = stage) -> Matrix:
        return Matrix(name, symbol, its, plain(value.reshape(1, 1)), ("",), ("",), operation)

    wide = dimensions(len(state))
    yield Matrix("h", "h", GIVEN, plain(state[None]), ("",), wide, Given(), axes=("", "dimension"))
    yield Matrix("T", "W^L", GIVEN, plain(last.weight[chosen]), words, wide, Given(), axes=("word", "dimension"))
    bias = None
    if last.bias is not None:
        bias = "b"
        yield one(bias, "b^L", last.bias[chosen], Given(), GIVEN)
    product = Product("h", "T", transposed=True, bias=bias)
    if factor == 1.0:
        yield one("L", "L", logits[chosen], product)
    else:
        yield one("D", "D", logits[chosen] / factor, product)
        yield one("L", "L", logits[chosen], _scale(factor, len(state)))
    top = logits[chosen[0]]
    lowered = logits - top
    powers = lowered.exp()
    yield single("m", "m", top, largest("L"))
    yield one("S", "L'", lowered[chosen], less("L", "m", "row"))
    yield one("G", "p'", powers[chosen], exponential("S"))
    rest = None
    if len(chosen) < len(logits):
        rest, others = "r", torch.ones_like(logits, dtype=torch.bool)
        others[chosen] = False
        yield single(rest, r"\rho", powers[others].sum(), Given(), GIVEN)
    yield single("Z", r"\Sigma", powers.sum(), total("G", rest))
    yield one("l", r"\ell", logits.log_softmax(-1)[chosen], less_logarithm("S", "Z"))
    yield one("p", "p", logits.softmax(-1)[chosen], through("G", "Z", "row"))


def _scale(factor: float, d_model: int) -> Scale:
    """What the logits are multiplied by, as a root of d_model where it is one."""
    if abs(factor - d_model**-0.5) < 1e-12:
        return Scale(("D",), factor, rf"\sqrt{{{d_model}}}", True, r"\sqrt{d}", (f"d = {d_model}",))
    written = number(factor, digits=12)
    return Scale(("D",), factor, written, letters="c", where=(f"c = {written}",))


def _logits(run: Run) -> Float[Tensor, "position vocab"]:
    """Scores of every output at each position."""
    states, last = run.end(), run.last
    if states is None or last is None:
        raise InputError("lesson_no_such_position", position=0, last=-1)
    with torch.no_grad():
        found: Tensor = last(states) * _factor(run)
    return found


def _factor(run: Run) -> float:
    scale: float = getattr(run.model.config, "projection_scale", 1.0)
    return scale


def _each(run: Run) -> bool:
    """Whether every position has an output of its own."""
    return getattr(run.model.config, "head_reads", "each") == "each"

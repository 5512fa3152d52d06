"""The lesson's boards: each step around attention as matrices that know how they were made.

Every number comes from the model's own modules or from torch; the operations only say which cells meet in which.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.cellwise import Scale, Sum
from transformer.lessons.expressions.operations import Given, Operation
from transformer.lessons.expressions.rowwise import Normalise, Product
from transformer.lessons.expressions.written import bent, length, share_above_zero, share_of
from transformer.lessons.run import Run
from transformer.nn.norms import norm_kind
from transformer.nn.protocols import HasPairStacks

STAGES = ("embedding", "residual", "norm", "order", "feed_forward", "output")
"""The steps of the lesson, in the order in which a model runs them."""

GIVEN = "given"
"""The stage of what a board starts from."""

STATES: Axes = ("query", "dimension")
"""Axes of a row a position."""

NUMBERS: Axes = ("query", "")
"""Axes of one number a position."""


def embedding_board(run: Run, stack: str) -> Board:
    """How what the first layer reads is made: rows of a table, scaled or not, positions, perhaps a norm.

    And how large a share of it the positions are, with the scale and without: `U` is the other way.

    Raises:
        KeyError: the stack did not run.
    """
    labels, stage = run.labels(stack), STAGES[0]
    words, scaled, table = _input(run, stack)
    is_scaled = run.model.config.scale_embedding
    ways = {"sE": scaled, "E": words}
    own, other = ("sE", "E") if is_scaled else ("E", "sE")

    def matrices() -> Iterator[Matrix]:
        yield from input_matrices(run, stack, stage, GIVEN)
        if not is_scaled:
            yield _scaled(scaled, labels, stage)
        yield states("U", "U", stage, ways[other] + table, labels, Sum((other, "P")))
        for name, symbol in (("sE", "E'"), ("E", "E"), ("P", "P")):
            values = table if name == "P" else ways[name]
            yield column(f"l{name}", f"|{symbol}|", stage, values.norm(dim=-1), labels, length(name))
        for name, symbol, way in (("g", "g", own), ("gU", "g'", other)):
            squares = table.square().sum(-1), ways[way].square().sum(-1)
            share = squares[0] / (squares[0] + squares[1])
            yield column(name, symbol, stage, share, labels, share_of("lP", f"l{way}", squared=True))

    return Board.of(matrices())


def residual_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """A state, what one sub-layer found, their sum, and the lengths of both: how large a part is new.

    Raises:
        InputError: the sub-layer is not in this run.
    """
    sub, labels, stage = run.sub_layer(stack, layer, part), run.labels(stack), STAGES[1]
    together = sub.x + sub.found
    lengths = [one.norm(dim=-1) for one in (sub.x, sub.found, together)]
    share = lengths[1] / (lengths[1] + lengths[0])
    return Board.of(
        [
            states("X", "X", GIVEN, sub.x, labels, Given()),
            states("F", "F", GIVEN, sub.found, labels, Given()),
            states("R", "R", stage, together, labels, Sum(("X", "F"))),
            column("lX", "|X|", stage, lengths[0], labels, length("X")),
            column("lF", "|F|", stage, lengths[1], labels, length("F")),
            column("lR", "|R|", stage, lengths[2], labels, length("R")),
            column("c", "c", stage, share, labels, share_of("lF", "lX")),
        ]
    )


def order_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """One sub-layer on the same input twice: its norm after the sum (Y), and before the sub-layer (Z).

    Raises:
        InputError: the sub-layer is not in this run.
    """
    sub, labels, stage = run.sub_layer(stack, layer, part), run.labels(stack), STAGES[3]
    norm: Any = sub.residual.norm
    with torch.no_grad():
        after, normed = sub.again(sub.x), norm(sub.x)
        before = sub.again(normed)
        post = norm(sub.x + after)
    pre = sub.x + before

    def matrices() -> Iterator[Matrix]:
        yield states("X", "X", GIVEN, sub.x, labels, Given())
        yield row("g", r"\gamma", GIVEN, norm.weight)
        yield row("b", r"\beta", GIVEN, norm.bias)
        yield states("F", "F", GIVEN, after, labels, Given())
        yield states("R", "R", stage, sub.x + after, labels, Sum(("X", "F")))
        yield states("Y", "Y", stage, post, labels, _normalise(norm, "R"))
        yield states("N", r"\hat X", stage, normed, labels, _normalise(norm, "X"))
        yield states("G", "F'", GIVEN, before, labels, Given())
        yield states("Z", "R'", stage, pre, labels, Sum(("X", "G")))
        for name, symbol, values in (("X", "X", sub.x), ("Y", "Y", post), ("Z", "R'", pre)):
            yield column(f"l{name}", f"|{symbol}|", stage, values.norm(dim=-1), labels, length(name))

    return Board.of(matrices())


def feed_forward_board(run: Run, stack: str, layer: int) -> Board:
    """Up to d_ff, a bend, and down again; and at each position the share of units that are above zero.

    Raises:
        InputError: the layer is not in this run.
    """
    net, reads = run.feed_forward(stack, layer)
    labels, stage = run.labels(stack), STAGES[4]
    with torch.no_grad():
        wide, hidden = net.widen(reads), net.hidden(reads)
        found = net.narrow(hidden)
    units: Axes = ("query", "unit")

    def matrices() -> Iterator[Matrix]:
        yield states("H", "I", GIVEN, reads, labels, Given())
        yield matrix("W_in", "W_1", GIVEN, net.widen.weight.T, None, Given(), ("", "unit"))
        yield row("b_in", "b_1", GIVEN, net.widen.bias, "unit")
        yield matrix("A", "F_1", stage, wide, labels, Product("H", "W_in", bias="b_in"), units)
        yield matrix("B", "F_2", stage, hidden, labels, bent("A", run.model.config.activation), units)
        yield column("on", "a", stage, (hidden > 0).double().mean(-1), labels, share_above_zero("B"))
        yield matrix("W_out", "W_2", GIVEN, net.narrow.weight.T, None, Given(), ("unit", "dimension"))
        yield row("b_out", "b_2", GIVEN, net.narrow.bias)
        yield states("F", "F", stage, found, labels, Product("B", "W_out", bias="b_out"))

    return Board.of(matrices())


def matrix(
    name: str, symbol: str, stage: str, values: Tensor, rows: Sequence[str] | None, operation: Operation, axes: Axes
) -> Matrix:
    """A matrix whose columns (and rows, where they have no labels) are numbered."""
    labels = dimensions(len(values)) if rows is None else tuple(rows)
    return Matrix(name, symbol, stage, plain(values), labels, dimensions(values.shape[-1]), operation, axes=axes)


def states(
    name: str,
    symbol: str,
    stage: str,
    values: Float[Tensor, "position d_model"],
    rows: Sequence[str],
    operation: Operation,
) -> Matrix:
    """A row a position."""
    return matrix(name, symbol, stage, values, rows, operation, STATES)


def column(
    name: str, symbol: str, stage: str, values: Float[Tensor, " position"], rows: Sequence[str], operation: Operation
) -> Matrix:
    """One number a position."""
    return Matrix(name, symbol, stage, plain(values[:, None]), tuple(rows), ("",), operation, axes=NUMBERS)


def row(
    name: str,
    symbol: str,
    stage: str,
    values: Float[Tensor, " d_model"],
    axis: str = "dimension",
    head: int | None = None,
) -> Matrix:
    """A vector of parameters."""
    columns = dimensions(len(values))
    return Matrix(name, symbol, stage, plain(values[None]), ("",), columns, Given(), head, axes=("", axis))


def _normalise(norm: Any, operand: str, gain: str = "g", shift: str = "b") -> Normalise:
    return Normalise(operand, gain, shift, float(norm.eps), unbiased=norm_kind(norm) == "annotated")


def normalised(
    name: str, symbol: str, stage: str, values: Tensor, labels: Sequence[str], norm: Any, operand: str
) -> Iterator[Matrix]:
    """Gain and shift of a norm, and what it makes of an operand in one step."""
    yield row(f"g_{name}", rf"\gamma^{operand[0]}", stage, norm.weight)
    yield row(f"b_{name}", rf"\beta^{operand[0]}", stage, norm.bias)
    yield states(name, symbol, stage, values, labels, _normalise(norm, operand, f"g_{name}", f"b_{name}"))


def input_matrices(run: Run, stack: str, stage: str, given: str | None = None) -> Iterator[Matrix]:
    """What the first layer of a stack reads: `given` is the stage of what is looked up, `stage` of what is made."""
    labels, given = run.labels(stack), given or stage
    words, scaled, table = _input(run, stack)
    yield states("E", "E", given, words, labels, Given())
    summand = "sE" if run.model.config.scale_embedding else "E"
    if summand == "sE":
        yield _scaled(scaled, labels, stage)
    yield states("P", "P", given, table, labels, Given())
    together = (scaled if summand == "sE" else words) + table
    norm = _norm_of(run, stack)
    if isinstance(norm, nn.Identity):
        yield states("X", "X", stage, together, labels, Sum((summand, "P")))
        return
    yield states("EP", "X'", stage, together, labels, Sum((summand, "P")))
    with torch.no_grad():
        yield from normalised("X", "X", stage, norm(together), labels, norm, "EP")


def _scaled(values: Tensor, labels: Sequence[str], stage: str) -> Matrix:
    d_model = values.shape[1]
    by = Scale(("E",), d_model**0.5, rf"\sqrt{{{d_model}}}", letters=r"\sqrt{d}", where=(f"d = {d_model}",))
    return states("sE", "E'", stage, values, labels, by)


def _norm_of(run: Run, stack: str) -> nn.Module:
    """The norm after a stack's embedding and positions."""
    side = "source" if stack == "encoder" else "target"
    name = f"{side}_norm" if isinstance(run.model, HasPairStacks) else "embedding_norm"
    found: nn.Module = getattr(run.model, name, nn.Identity())
    return found


@torch.no_grad()
def _input(run: Run, stack: str) -> tuple[Tensor, Tensor, Tensor]:
    """A stack's embeddings, the same scaled, and what its positions add."""
    model, side = run.model, "source_" if stack == "encoder" else "target_"
    side = side if isinstance(model, HasPairStacks) else ""
    words = getattr(model, f"{side}embedding")(torch.tensor(run.sentences[stack].ids))
    nothing = torch.zeros_like(words)
    by_batch = getattr(model.config, "position_axis", "sequence") == "batch"
    added: Tensor = getattr(model, f"{side}positions")(nothing[:, None] if by_batch else nothing[None])
    return words, words * model.config.d_model**0.5, added.reshape(words.shape)

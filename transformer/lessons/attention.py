"""One attention layer as a board of matrices: from the embeddings to the norm, each step by the library's layers.

Source: Vaswani et al. 2017, sections 3.1 to 3.4. Everything is float64. Rows are positions, columns dimensions;
in scores and weights rows are queries, columns keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer.errors import ConfigError, InputError
from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.cellwise import Concatenate, Drop, Hide, Scale, Sum
from transformer.lessons.expressions.operations import Given, Operation, number
from transformer.lessons.expressions.rowwise import Product, Softmax
from transformer.lessons.inside.boards import input_matrices, normalised, row, states
from transformer.lessons.recipe import Recipe, Steps, entropy_curve, softmax_steps
from transformer.lessons.run import Run, in_float64
from transformer.lessons.sentences import Sentence
from transformer.nn.seq2seq import Seq2Seq
from transformer.sites import Site

STAGES = (
    "input", "project", "scores", "scale", "mask", "softmax", "dropout", "mix", "concatenate", "output", "residual",
)  # fmt: skip
"""The steps of the lesson, in the usual order; the norm belongs to `residual` (or, before, to `input`)."""

QUERIES: Axes = ("query", "dimension")
KEYS: Axes = ("key", "dimension")
SCORES: Axes = ("query", "key")
SQUARE: Axes = ("", "dimension")


def attention_board(
    model: Seq2Seq, source: Sentence, target: Sentence | None, site: str, recipe: Recipe | None = None
) -> Board:
    """Every matrix of one attention layer (`encoder.0.self`, `decoder.2.cross`), all heads, on one sentence.

    With the standard recipe the last matrix is what the model's own layer hands on. Each matrix knows how it was made,
    so the order of stages is that of the computation. The encoder needs no target.

    Raises:
        InputError: no such site, an empty sentence, or a blind query that is not there.
        ConfigError: the recipe's number of heads does not divide the layer's sizes.
    """
    return AttentionLayer(model, source, target, site).board(recipe or Recipe())


def temperature_curve(
    board: Board, head: int, recipe: Recipe, temperatures: Sequence[float]
) -> Float[np.ndarray, "temperature query"]:
    """Entropy (nats) of each row of a head of `board`, made by `recipe`, at other temperatures."""
    q, k = (torch.from_numpy(board[f"{name}{head}"].values) for name in "QK")
    hidden = board[f"M{head}"].hidden
    visible = torch.ones(len(q), len(k), dtype=torch.bool) if hidden is None else ~torch.from_numpy(hidden)
    return entropy_curve(q, k, visible, q.shape[1] ** -0.5, recipe, temperatures)


def temperature_formulas(board: Board, head: int, recipe: Recipe) -> tuple[str, ...]:
    """The board's formulas from the scores of a head to its weights at any temperature T, in the order of their use."""
    scaled, d_k = board[f"D{head}"], board[f"Q{head}"].values.shape[1]
    by = replace(_scale(recipe, d_k**-0.5, d_k, any_temperature=True), operands=scaled.operation.operands)
    at_any = Board({**board.matrices, scaled.name: replace(scaled, operation=by)})
    steps = {f"{name}{head}" for name in "DMA"}
    return tuple(formula for name in at_any if name in steps for formula in at_any.formulas(name))


class AttentionLayer:
    """The attention of one site, in float64, and what reaches it: one run of the model serves every recipe.

    Raises:
        InputError: no such site, or an empty sentence.
    """

    def __init__(self, model: Seq2Seq, source: Sentence, target: Sentence | None, site: str) -> None:
        if site not in model.attention_sites():
            raise InputError("lesson_site_not_in_model", site=site, sites=tuple(model.attention_sites()))
        at = self.at = Site(site)
        if target is None and at.stack == "decoder":
            raise InputError("lesson_no_token")
        self.run = Run(in_float64(model), source, target if at.stack == "decoder" else None)
        place = at.stack, at.layer or 0, at.kind
        sub = self.run.sub_layer(*place)
        self.x, self.residual = sub.x, sub.residual
        self.attention, self.memory, self.visible = self.run.attention(*place)
        self.rows = self.run.labels(at.stack)
        self.keys = self.run.labels("encoder") if at.kind == "cross" else self.rows
        self._projections: dict[int, _Projections] = {}

    def board(self, recipe: Recipe) -> Board:
        """Every matrix of the layer, computed by `recipe`.

        Raises:
            InputError: the recipe's blind query is not there.
            ConfigError: its number of heads does not divide the layer's sizes.
        """
        visible = self.visible
        if recipe.blind is not None:
            if not 0 <= recipe.blind < len(visible):
                raise InputError("lesson_blind_not_a_query", blind=recipe.blind, last=len(visible) - 1)
            visible = visible.clone()
            visible[recipe.blind] = False
        with torch.no_grad():
            return Board.of(self._matrices(recipe, visible))

    def _matrices(self, recipe: Recipe, visible: Tensor) -> Iterator[Matrix]:
        """All matrices, in the order of their making."""
        attention, rows = self.attention, self.rows
        n_heads = recipe.n_heads or attention.n_heads
        made = self._projections.get(n_heads) or self._projected_to(n_heads)
        self._projections[n_heads] = made
        yield from made.matrices
        scale = attention.core.scale if n_heads == attention.n_heads else made.q.shape[-1] ** -0.5
        steps = softmax_steps(made.q, made.k, visible, scale, recipe)
        mixed = steps.used @ made.v
        factor = _scale(recipe, scale, made.q.shape[-1])
        for head in range(n_heads):
            yield from self._attended(head, steps, mixed, visible.numpy(), recipe, factor)
        joined = mixed.transpose(0, 1).flatten(1)
        parts = Concatenate(tuple(f"Z{head}" for head in range(n_heads)))
        columns, wide = dimensions(joined.shape[1]), dimensions(self.x.shape[1])
        yield Matrix("Z", "Z", "concatenate", plain(joined), rows, columns, parts, axes=QUERIES)
        weight = attention.output.weight.T
        yield Matrix("W_O", "W^O", "output", plain(weight), columns, wide, Given(), axes=SQUARE)
        bias = None
        if attention.output.bias is not None:
            bias = "b_O"
            yield row(bias, "b^O", "output", attention.output.bias)
        output = attention.output(joined)
        yield Matrix("O", "O", "output", plain(output), rows, wide, Product("Z", "W_O", bias=bias), axes=QUERIES)
        total = self.x + output
        yield Matrix("R", "R", "residual", plain(total), rows, wide, Sum(("X", "O")), axes=QUERIES)
        if not self.residual.norm_first:
            normed = self.residual.norm(total)
            yield from normalised("Y", "Y", "residual", normed, rows, self.residual.norm, "R")

    def _projected_to(self, n_heads: int) -> "_Projections":
        """What comes before the scores, with the same projections cut into `n_heads` heads."""
        attention = self.attention
        for name, size in (("d_k", attention.query.out_features), ("d_v", attention.value.out_features)):
            if size % n_heads:
                raise ConfigError("lesson_heads_do_not_divide", n_heads=n_heads, size=name, width=size)
        rows, keys = self.rows, self.keys
        made = [*self._input()]
        queries = self.x
        query_name = key_name = "X"
        if self.residual.norm_first:
            queries = self.residual.norm(self.x)
            made += normalised("N", r"\hat X", "input", queries, rows, self.residual.norm, "X")
            query_name = key_name = "N"
        if self.at.kind == "cross":
            key_name, wide = "H", dimensions(self.memory.shape[1])
            made.append(Matrix("H", "H", "input", plain(self.memory), keys, wide, Given(), axes=KEYS))
        heads = []
        for name, operand, linear, labels, axes in (
            ("Q", query_name, attention.query, rows, QUERIES),
            ("K", key_name, attention.key, keys, KEYS),
            ("V", key_name, attention.value, keys, KEYS),
        ):
            projected = linear(queries if name == "Q" else self.memory)
            heads.append(projected.unflatten(-1, (n_heads, -1)).transpose(0, 1))
            made += _projected(name, operand, linear, heads[-1], labels, axes)
        return _Projections(tuple(made), *heads)

    def _input(self) -> Iterator[Matrix]:
        """What reaches the layer; in the first layer of a stack, how it is made from embeddings and positions."""
        if self.at.layer or self.at.kind == "cross":
            yield states("X", "X", "input", self.x, self.rows, Given())
        else:
            yield from input_matrices(self.run, self.at.stack, "input")

    def _attended(
        self, head: int, steps: Steps, mixed: Tensor, visible: Bool[np.ndarray, "query key"], recipe: Recipe, by: Scale
    ) -> Iterator[Matrix]:
        """Scores to mixed values of one head."""
        rows, keys, h = self.rows, self.keys, head
        order = ("S", "D", "M") if recipe.scale_first else ("S", "M", "D")
        before = dict(zip(order[1:], order, strict=False))
        used = "B" if recipe.dropout else "A"
        softmax = Softmax(f"{order[2]}{h}", zero_if_blind=recipe.hiding == "library")
        made: dict[str, tuple[str, str, Tensor, Operation]] = {
            "S": (f"S_{h}", "scores", steps.scores, Product(f"Q{h}", f"K{h}", transposed=True)),
            "D": (f"S'_{h}", "scale", steps.scaled, replace(by, operands=(f"{before['D']}{h}",))),
            "M": (f"S''_{h}", "mask", steps.masked, Hide((f"{before['M']}{h}",), visible, recipe.fill)),
            "A": (f"A_{h}", "softmax", steps.weights, softmax),
            "B": (rf"\tilde A_{h}", "dropout", steps.used, Drop((f"A{h}",), steps.kept[h].numpy(), recipe.dropout)),
        }
        names = [*order, "A"] if used == "A" else [*order, "A", "B"]
        for name in names:
            symbol, stage, values, operation = made[name]
            hidden = ~visible if names.index(name) >= names.index("M") else None
            yield Matrix(f"{name}{h}", symbol, stage, plain(values[h]), rows, keys, operation, h, hidden, SCORES)
        product, columns = Product(f"{used}{h}", f"V{h}"), dimensions(mixed.shape[2])
        yield Matrix(f"Z{h}", f"Z_{h}", "mix", plain(mixed[h]), rows, columns, product, h, axes=QUERIES)


@dataclass(frozen=True, eq=False)
class _Projections:
    """Every matrix up to queries, keys and values, and these of all heads."""

    matrices: tuple[Matrix, ...]
    q: Float[Tensor, "head query d_k"]
    k: Float[Tensor, "head key d_k"]
    v: Float[Tensor, "head key d_v"]


def _projected(
    name: str, operand: str, linear: nn.Linear, heads: Tensor, rows: tuple[str, ...], axes: Axes
) -> Iterator[Matrix]:
    """Each head's slice of a projection, and what it makes."""
    for head, values in enumerate(heads):
        size = values.shape[1]
        part, columns = slice(head * size, (head + 1) * size), dimensions(size)
        weight, symbol = linear.weight[part].T, f"W^{name}_{head}"
        inner = dimensions(len(weight))
        yield Matrix(f"W_{name}{head}", symbol, "project", plain(weight), inner, columns, Given(), head, axes=SQUARE)
        bias = None
        if linear.bias is not None:
            bias = f"b_{name}{head}"
            yield row(bias, f"b^{name}_{head}", "project", linear.bias[part], head=head)
        made = Product(operand, f"W_{name}{head}", bias=bias)
        yield Matrix(f"{name}{head}", f"{name}_{head}", "project", plain(values), rows, columns, made, head, axes=axes)


def _scale(recipe: Recipe, scale: float, d_k: int, any_temperature: bool = False) -> Scale:
    """What scores are divided by, in numbers and in letters; the letter T gets no value where it may be any."""
    parts = []
    if any_temperature or recipe.temperature != 1.0:
        value = number(recipe.temperature)
        parts.append((value, "T", "" if any_temperature else f"T = {value}"))
    if recipe.scaled:
        parts.append((rf"\sqrt{{{d_k}}}", r"\sqrt{d_k}", f"d_k = {d_k}"))
    written, letters, where = zip(*parts, strict=True) if parts else ((), (), ())
    known = tuple(filter(None, where))
    return Scale((), recipe.factor(scale), r" \cdot ".join(written), True, r" \cdot ".join(letters), known)

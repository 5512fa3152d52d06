"""One attention layer as a board of matrices: from the embeddings to the norm, each step by the library's layers.

Source: Vaswani et al. 2017, sections 3.1 to 3.4. Everything is float64. Rows are positions, columns dimensions;
in scores and weights rows are queries, columns keys.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import ConfigError, InputError
from transformer.layers import masks
from transformer.layers.attention import MultiHeadAttention
from transformer.layers.blocks import DecoderBlock, Residual
from transformer.layers.norms import AnnotatedLayerNorm
from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.cellwise import Concatenate, Drop, Hide, Scale, Sum
from transformer.lessons.expressions.operations import Given, Operation, number
from transformer.lessons.expressions.rowwise import Normalise, Product, Softmax
from transformer.lessons.recipe import Recipe, Steps, entropy_curve, softmax_steps
from transformer.lessons.sentences import Sentence
from transformer.models.protocols import written_pad
from transformer.models.seq2seq import Seq2Seq
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
    recipe = recipe or Recipe()
    if site not in model.attention_sites():
        raise InputError("lesson_site_not_in_model", site=site, sites=tuple(model.attention_sites()))
    read = source if target is None and Site(site).stack == "encoder" else target
    if read is None or not source.ids or not read.ids:
        raise InputError("lesson_no_token")
    with torch.no_grad():
        return Board.of(_Layer(model, source, read, Site(site), recipe).matrices())


def temperature_curve(
    board: Board, head: int, recipe: Recipe, temperatures: Sequence[float]
) -> Float[np.ndarray, "temperature query"]:
    """Entropy (nats) of each row of a head of `board`, made by `recipe`, at other temperatures."""
    q, k = (torch.from_numpy(board[f"{name}{head}"].values) for name in "QK")
    hidden = board[f"M{head}"].hidden
    visible = torch.ones(len(q), len(k), dtype=torch.bool) if hidden is None else ~torch.from_numpy(hidden)
    return entropy_curve(q, k, visible, q.shape[1] ** -0.5, recipe, temperatures)


class _Layer:
    """The layer of one site, in float64, and what reaches it."""

    def __init__(self, model: Seq2Seq, source: Sentence, target: Sentence, site: Site, recipe: Recipe) -> None:
        self.model = copy.deepcopy(model).double().eval()
        self.recipe = recipe
        self.stack, self.index, self.kind = site.stack, site.layer, site.kind
        block = getattr(self.model, self.stack)[self.index]
        self.attention: MultiHeadAttention = getattr(block, f"{self.kind}_attention")
        self.residual: Residual = getattr(block, f"{self.kind}_residual")
        self.queries = source if self.stack == "encoder" else target
        self.keys = target if self.kind == "self" and self.stack == "decoder" else source
        ids = {name: torch.tensor([s.ids]) for name, s in (("source", source), ("target", target))}
        with _inputs(self.residual, self.attention.key) as seen:
            memory, source_mask = self.model.encode(ids["source"])
            if self.stack == "decoder":
                self.model.decode(ids["target"], memory, source_mask)
        self.x = seen[self.residual]
        self.memory = seen[self.attention.key] if self.kind == "cross" else None
        key_ids = torch.tensor([self.keys.ids])
        own_past = isinstance(block, DecoderBlock) and self.kind == "self"
        pad_id = written_pad(model.config) if own_past else model.config.pad_id
        mask = (masks.causal if own_past else masks.padding)(key_ids, pad_id)
        dense = mask.dense(len(self.queries.ids), len(self.keys.ids), torch.device("cpu"))
        shape = (len(self.queries.ids), len(self.keys.ids))
        self.visible = torch.ones(shape, dtype=torch.bool) if dense is None else dense[0, 0].expand(shape).clone()
        if recipe.blind is not None:
            if not 0 <= recipe.blind < shape[0]:
                raise InputError("lesson_blind_not_a_query", blind=recipe.blind, last=shape[0] - 1)
            self.visible[recipe.blind] = False
        self._split(recipe.n_heads or self.attention.n_heads)

    def _split(self, n_heads: int) -> None:
        """Use the same projections with another number of heads."""
        for name, size in (("d_k", self.attention.query.out_features), ("d_v", self.attention.value.out_features)):
            if size % n_heads:
                raise ConfigError("lesson_heads_do_not_divide", n_heads=n_heads, size=name, width=size)
        if n_heads != self.attention.n_heads:
            self.attention.n_heads = n_heads
            self.attention.core.scale = (self.attention.query.out_features // n_heads) ** -0.5

    def matrices(self) -> Iterator[Matrix]:
        """All matrices, in the order of their making."""
        rows, keys = self.queries.labels, self.keys.labels
        wide = dimensions(self.model.config.d_model)
        yield from self._input()
        queries, attended = self.x, self.memory
        query_name = key_name = "X"
        if self.residual.norm_first:
            queries = self.residual.norm(self.x)
            yield from _normalised("N", r"\hat X", "input", queries, rows, self.residual.norm, "X")
            query_name = key_name = "N"
        if attended is None:
            attended = queries
        else:
            key_name = "H"
            yield Matrix("H", "H", "input", plain(attended), keys, wide, Given(), axes=KEYS)
        attention = self.attention
        q = attention.queries(queries)[0]
        keys_values = attention.keys_values(attended)
        yield from self._projected("Q", query_name, attention.query, q, rows, QUERIES)
        yield from self._projected("K", key_name, attention.key, keys_values.k[0], keys, KEYS)
        yield from self._projected("V", key_name, attention.value, keys_values.v[0], keys, KEYS)
        steps = softmax_steps(q, keys_values.k[0], self.visible, attention.core.scale, self.recipe)
        mixed = steps.used @ keys_values.v[0]
        for head in range(attention.n_heads):
            yield from self._attended(head, steps, mixed)
        joined = mixed.transpose(0, 1).flatten(1)
        yield Matrix(
            "Z", "Z", "concatenate", plain(joined), rows, dimensions(joined.shape[1]),
            Concatenate(tuple(f"Z{head}" for head in range(attention.n_heads))), axes=QUERIES,
        )  # fmt: skip
        weight = attention.output.weight.T
        yield Matrix("W_O", "W^O", "output", plain(weight), dimensions(len(weight)), wide, Given(), axes=SQUARE)
        bias = None
        if attention.output.bias is not None:
            bias = "b_O"
            yield _row(bias, "b^O", "output", attention.output.bias)
        output = attention.output(joined[None])
        yield Matrix("O", "O", "output", plain(output), rows, wide, Product("Z", "W_O", bias=bias), axes=QUERIES)
        total = self.x + output
        yield Matrix("R", "R", "residual", plain(total), rows, wide, Sum(("X", "O")), axes=QUERIES)
        if not self.residual.norm_first:
            normed = self.residual.norm(total)
            yield from _normalised("Y", "Y", "residual", normed, rows, self.residual.norm, "R")

    def _input(self) -> Iterator[Matrix]:
        """What reaches the layer; in the first layer of a stack, how it is made from embeddings and positions."""
        rows, config = self.queries.labels, self.model.config

        def made(name: str, symbol: str, values: Tensor, operation: Operation) -> Matrix:
            return Matrix(
                name, symbol, "input", plain(values), rows, dimensions(config.d_model), operation, axes=QUERIES
            )

        if self.index or self.kind == "cross":
            yield made("X", "X", self.x, Given())
            return
        side = "source" if self.stack == "encoder" else "target"
        parts = (getattr(self.model, f"{side}_{part}") for part in ("embedding", "positions", "norm"))
        embedding, positions, norm = parts
        ids = torch.tensor([self.queries.ids])
        yield made("E", "E", embedding(ids), Given())
        scaled, summand = self.model.embed(embedding, ids), "E"
        if config.scale_embedding:
            summand, d_model = "sE", config.d_model
            by = Scale(("E",), d_model**0.5, rf"\sqrt{{{d_model}}}", letters=r"\sqrt{d}", where=(f"d = {d_model}",))
            yield made("sE", "E'", scaled, by)
        yield made("P", "P", positions(torch.zeros_like(scaled)), Given())
        if isinstance(norm, nn.Identity):
            yield made("X", "X", self.x, Sum((summand, "P")))
        else:
            yield made("EP", "X'", positions(scaled), Sum((summand, "P")))
            yield from _normalised("X", "X", "input", self.x, rows, norm, "EP")

    def _projected(
        self, name: str, operand: str, linear: nn.Linear, heads: Tensor, rows: tuple[str, ...], axes: Axes
    ) -> Iterator[Matrix]:
        """Each head's slice of a projection, and what it makes."""
        for head, values in enumerate(heads):
            size = values.shape[1]
            part = slice(head * size, (head + 1) * size)
            weight = linear.weight[part].T
            yield Matrix(
                f"W_{name}{head}", f"W^{name}_{head}", "project", plain(weight), dimensions(len(weight)),
                dimensions(size), Given(), head, axes=SQUARE,
            )  # fmt: skip
            bias = None
            if linear.bias is not None:
                bias = f"b_{name}{head}"
                yield _row(bias, f"b^{name}_{head}", "project", linear.bias[part], head)
            made = Product(operand, f"W_{name}{head}", bias=bias)
            yield Matrix(
                f"{name}{head}", f"{name}_{head}", "project", plain(values), rows, dimensions(size), made, head,
                axes=axes,
            )  # fmt: skip

    def _attended(self, head: int, steps: Steps, mixed: Tensor) -> Iterator[Matrix]:
        """Scores to mixed values of one head."""
        rows, keys = self.queries.labels, self.keys.labels
        recipe, h = self.recipe, head
        visible = self.visible.numpy()

        def square(name: str, symbol: str, stage: str, values: Tensor, operation: Operation) -> Matrix:
            first = name == "S" or (name == "D" and recipe.scale_first)
            hidden = None if first else ~visible
            return Matrix(f"{name}{h}", symbol, stage, plain(values[h]), rows, keys, operation, h, hidden, SCORES)

        yield square("S", f"S_{h}", "scores", steps.scores, Product(f"Q{h}", f"K{h}", transposed=True))
        order = ("S", "D", "M") if recipe.scale_first else ("S", "M", "D")
        before = dict(zip(order[1:], order, strict=False))
        made = {
            "D": square("D", f"S'_{h}", "scale", steps.scaled, self._scale(f"{before['D']}{h}")),
            "M": square(
                "M", f"M_{h}", "mask", steps.masked, Hide((f"{before['M']}{h}",), visible=visible, fill=recipe.fill)
            ),
        }
        yield made[order[1]]
        yield made[order[2]]
        softmax = Softmax(f"{order[2]}{h}", zero_if_blind=recipe.hiding == "library")
        yield square("A", f"A_{h}", "softmax", steps.weights, softmax)
        used = "A"
        if recipe.dropout:
            used = "B"
            dropped = Drop((f"A{h}",), kept=steps.kept[h].numpy(), p=recipe.dropout)
            yield square("B", rf"\tilde A_{h}", "dropout", steps.used, dropped)
        product, columns = Product(f"{used}{h}", f"V{h}"), dimensions(mixed.shape[2])
        yield Matrix(f"Z{h}", f"Z_{h}", "mix", plain(mixed[h]), rows, columns, product, h, axes=QUERIES)

    def _scale(self, operand: str) -> Scale:
        """What scores are divided by, in numbers and in letters."""
        recipe, d_k = self.recipe, self.attention.query.out_features // self.attention.n_heads
        parts = []
        if recipe.temperature != 1.0:
            parts.append((number(recipe.temperature), "T", f"T = {number(recipe.temperature)}"))
        if recipe.scaled:
            parts.append((rf"\sqrt{{{d_k}}}", r"\sqrt{d_k}", f"d_k = {d_k}"))
        return Scale(
            (operand,), recipe.factor(self.attention.core.scale), r" \cdot ".join(part for part, _, _ in parts),
            divided=True, letters=r" \cdot ".join(part for _, part, _ in parts),
            where=tuple(part for _, _, part in parts),
        )  # fmt: skip


@contextmanager
def _inputs(*modules: nn.Module) -> Iterator[dict[nn.Module, Tensor]]:
    """The first argument of each module's last call inside the block."""
    seen: dict[nn.Module, Tensor] = {}

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen[module] = arguments[0]

    handles = [module.register_forward_pre_hook(keep) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _row(name: str, symbol: str, stage: str, values: Tensor, head: int | None = None) -> Matrix:
    """A vector of parameters, as one row."""
    columns = dimensions(len(values))
    return Matrix(name, symbol, stage, plain(values[None]), ("",), columns, Given(), head, axes=("", "dimension"))


def _normalised(
    name: str, symbol: str, stage: str, values: Tensor, rows: tuple[str, ...], norm: Any, operand: str
) -> Iterator[Matrix]:
    """Gain and shift of a norm, and what it makes."""
    yield _row(f"g_{name}", rf"\gamma^{operand[0]}", stage, norm.weight)
    yield _row(f"b_{name}", rf"\beta^{operand[0]}", stage, norm.bias)
    unbiased = isinstance(norm, AnnotatedLayerNorm)
    made = Normalise(operand, f"g_{name}", f"b_{name}", float(norm.eps), unbiased=unbiased)
    yield Matrix(name, symbol, stage, plain(values), rows, dimensions(values.shape[-1]), made, axes=QUERIES)

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
from transformer.lessons.expressions.board import Board, Matrix, numbered, plain
from transformer.lessons.expressions.cellwise import Concatenate, Drop, Hide, Scale, Sum
from transformer.lessons.expressions.operations import Given, Operation, number
from transformer.lessons.expressions.rowwise import Normalise, Product, Softmax
from transformer.lessons.recipe import Recipe, Steps, entropy_curve, softmax_steps
from transformer.lessons.sentences import Sentence
from transformer.models.protocols import written_pad
from transformer.models.seq2seq import Seq2Seq
from transformer.sites import Site

STAGES = ("input", "project", "scores", "scale", "mask", "softmax", "mix", "concatenate", "output", "residual")
"""The steps of the lesson, in order; dropout belongs to `softmax`, the norm to `residual` (or, before, to `input`)."""


def attention_board(
    model: Seq2Seq, source: Sentence, target: Sentence, site: str, recipe: Recipe | None = None
) -> Board:
    """Every matrix of one attention layer (`encoder.0.self`, `decoder.2.cross`), all heads, on one sentence.

    With the standard recipe the last matrix is what the model's own layer hands on.

    Raises:
        InputError: no such site, an empty sentence, or a blind query that is not there.
        ConfigError: the recipe's number of heads does not divide the layer's sizes.
    """
    recipe = recipe or Recipe()
    if site not in model.attention_sites():
        raise InputError("lesson_site_not_in_model", site=site, sites=tuple(model.attention_sites()))
    if not source.ids or not target.ids:
        raise InputError("lesson_no_token")
    with torch.no_grad():
        return Board.of(_Layer(model, source, target, Site(site), recipe).matrices())


def temperature_curve(
    board: Board, head: int, recipe: Recipe, temperatures: Sequence[float]
) -> Float[np.ndarray, "temperature query"]:
    """Entropy (nats) of each row of a head of `board`, made by `recipe`, at other temperatures."""
    q, k = (torch.from_numpy(board[f"{name}{head}"].values) for name in ("Q", "K"))
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
            self.model(ids["source"], ids["target"])
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
        d_model = self.model.config.d_model
        rows, keys = self.queries.labels, self.keys.labels
        wide = numbered(d_model)
        yield from self._input()
        queries, attended = self.x, self.memory
        query_name = key_name = "X"
        if self.residual.norm_first:
            queries = self.residual.norm(self.x)
            yield Matrix("N", r"\hat X", "input", plain(queries), rows, wide, _norm(self.residual.norm, "X"))
            query_name = key_name = "N"
        if attended is None:
            attended = queries
        else:
            key_name = "H"
            yield Matrix("H", "H", "input", plain(attended), keys, wide, Given())
        attention = self.attention
        q = attention.queries(queries)[0]
        keys_values = attention.keys_values(attended)
        yield from self._projected("Q", query_name, attention.query, q, rows)
        yield from self._projected("K", key_name, attention.key, keys_values.k[0], keys)
        yield from self._projected("V", key_name, attention.value, keys_values.v[0], keys)
        steps = softmax_steps(q, keys_values.k[0], self.visible, attention.core.scale, self.recipe)
        mixed = steps.used @ keys_values.v[0]
        for head in range(attention.n_heads):
            yield from self._attended(head, steps, mixed)
        joined = mixed.transpose(0, 1).flatten(1)
        weight = attention.output.weight.T
        yield Matrix(
            "Z", "Z", "concatenate", plain(joined), rows, numbered(joined.shape[1]),
            Concatenate(tuple(f"Z{head}" for head in range(attention.n_heads))),
        )  # fmt: skip
        yield Matrix("W_O", "W^O", "output", plain(weight), numbered(len(weight)), wide, Given())
        output = attention.output(joined[None])
        yield Matrix("O", "O", "output", plain(output), rows, wide, Product("Z", "W_O", bias=_bias(attention.output)))
        total = self.x + output
        yield Matrix("R", "R", "residual", plain(total), rows, wide, Sum(("X", "O")))
        if not self.residual.norm_first:
            normed = self.residual.norm(total)
            yield Matrix("Y", "Y", "residual", plain(normed), rows, wide, _norm(self.residual.norm, "R"))

    def _input(self) -> Iterator[Matrix]:
        """What reaches the layer; in the first layer of a stack, how it is made from embeddings and positions."""
        rows, wide = self.queries.labels, numbered(self.model.config.d_model)
        if self.index or self.kind == "cross":
            yield Matrix("X", "X", "input", plain(self.x), rows, wide, Given())
            return
        side = "source" if self.stack == "encoder" else "target"
        parts = (getattr(self.model, f"{side}_{part}") for part in ("embedding", "positions", "norm"))
        embedding, positions, norm = parts
        embedded = embedding(torch.tensor([self.queries.ids]))
        yield Matrix("E", "E", "input", plain(embedded), rows, wide, Given())
        summand = "E"
        if self.model.config.scale_embedding:
            d_model, summand = self.model.config.d_model, "sE"
            scaled = self.model.embed(embedding, torch.tensor([self.queries.ids]))
            symbol, by = rf"\sqrt{{{d_model}}}\,E", rf"\sqrt{{{d_model}}}"
            yield Matrix("sE", symbol, "input", plain(scaled), rows, wide, Scale(("E",), d_model**0.5, by))
        table = positions(torch.zeros_like(embedded))
        yield Matrix("P", "P", "input", plain(table), rows, wide, Given())
        if isinstance(norm, nn.Identity):
            yield Matrix("X", "X", "input", plain(self.x), rows, wide, Sum((summand, "P")))
        else:
            unnormed = positions(embedded * (self.model.config.d_model**0.5 if summand == "sE" else 1.0))
            yield Matrix("EP", "E + P", "input", plain(unnormed), rows, wide, Sum((summand, "P")))
            yield Matrix("X", "X", "input", plain(self.x), rows, wide, _norm(norm, "EP"))

    def _projected(
        self, name: str, operand: str, linear: nn.Linear, heads: Tensor, rows: tuple[str, ...]
    ) -> Iterator[Matrix]:
        """Each head's slice of a projection, and what it makes."""
        for head, values in enumerate(heads):
            size = values.shape[1]
            part = slice(head * size, (head + 1) * size)
            bias = _bias(linear)
            weight = linear.weight[part].T
            made = Product(operand, f"W_{name}{head}", bias=None if bias is None else bias[part])
            yield Matrix(
                f"W_{name}{head}", f"W^{name}_{head}", "project", plain(weight), numbered(len(weight)), numbered(size),
                Given(), head,
            )  # fmt: skip
            yield Matrix(f"{name}{head}", f"{name}_{head}", "project", plain(values), rows, numbered(size), made, head)

    def _attended(self, head: int, steps: Steps, mixed: Tensor) -> Iterator[Matrix]:
        """Scores to mixed values of one head."""
        rows, keys = self.queries.labels, self.keys.labels
        recipe, h = self.recipe, head
        visible = self.visible.numpy()

        def square(name: str, symbol: str, stage: str, values: Tensor, operation: Operation) -> Matrix:
            hidden = None if stage in {"scores", "scale"} else ~visible
            return Matrix(f"{name}{h}", symbol, stage, plain(values[h]), rows, keys, operation, h, hidden)

        d_k = self.attention.query.out_features // self.attention.n_heads
        factor, by = recipe.factor(self.attention.core.scale), rf"\sqrt{{{d_k}}}" if recipe.scaled else "1"
        if recipe.temperature != 1.0:
            by = number(recipe.temperature) + (rf" \cdot {by}" if recipe.scaled else "")
        yield square("S", f"S_{h}", "scores", steps.scores, Product(f"Q{h}", f"K{h}", transposed=True))
        order = ("S", "D", "M") if recipe.scale_first else ("S", "M", "D")
        made = {
            "D": square(
                "D", rf"\frac{{{order[order.index('D') - 1]}_{h}}}{{{by}}}", "scale", steps.scaled,
                Scale((f"{order[order.index('D') - 1]}{h}",), factor, by, divided=True),
            ),
            "M": square(
                "M", f"M_{h}", "mask", steps.masked,
                Hide((f"{order[order.index('M') - 1]}{h}",), visible=visible, fill=recipe.fill),
            ),
        }  # fmt: skip
        yield made[order[1]]
        yield made[order[2]]
        softmax = Softmax(f"{order[2]}{h}", zero_if_blind=recipe.hiding == "library")
        yield square("A", f"A_{h}", "softmax", steps.weights, softmax)
        used = "A"
        if recipe.dropout:
            used = "B"
            dropped = Drop((f"A{h}",), kept=steps.kept[h].numpy(), p=recipe.dropout)
            yield square("B", rf"\tilde A_{h}", "softmax", steps.used, dropped)
        columns = numbered(mixed.shape[2])
        yield Matrix(f"Z{h}", f"Z_{h}", "mix", plain(mixed[h]), rows, columns, Product(f"{used}{h}", f"V{h}"), h)


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


def _bias(linear: nn.Linear) -> tuple[float, ...] | None:
    return None if linear.bias is None else tuple(linear.bias.tolist())


def _norm(norm: Any, operand: str) -> Normalise:
    gain, shift = tuple(norm.weight.tolist()), tuple(norm.bias.tolist())
    return Normalise(operand, gain, shift, float(norm.eps), unbiased=isinstance(norm, AnnotatedLayerNorm))

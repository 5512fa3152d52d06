"""A recurrent decoder's step as a board: additive or location attention, or one by a product, and the next state.

Sources: Bahdanau et al. 2015, section 3.1 (additive); the PyTorch seq2seq tutorial's first generation (location); Luong
et al. 2015, section 3.1 (by a product).
The same stages as in the Transformer, with one query: the decoder's state.
"""

import copy
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from transformer.errors import InputError
from transformer.lessons.expressions.board import Axes, Board, Matrix, dimensions, plain
from transformer.lessons.expressions.cellwise import Concatenate
from transformer.lessons.expressions.operations import Factors, Given
from transformer.lessons.expressions.rowwise import Product, Softmax, TanhSum
from transformer.lessons.expressions.written import Cellwise, bent
from transformer.lessons.sentences import Sentence
from transformer.nn.recurrent import Recurrent
from transformer.nn.recurrent_attention import (
    AdditiveAttention,
    LocationAttention,
    ProductAttention,
    SourceStates,
)

QUERIES: Axes = ("query", "dimension")
KEYS: Axes = ("key", "dimension")
SQUARE: Axes = ("", "dimension")


def recurrent_board(model: Recurrent, source: Sentence, target: Sentence, step: int) -> Board:
    """Every matrix of the decoder's attention while it reads target token `step`.

    Raises:
        InputError: there is no such step, or no token.
    """
    if not source.ids or not 0 <= step < len(target.ids):
        raise InputError("lesson_step_not_in_target", step=step, last=len(target.ids) - 1)
    model = copy.deepcopy(model).double().eval()
    calls: list[tuple[tuple[Any, ...], tuple[Tensor, Tensor]]] = []
    model.attention.register_forward_hook(lambda _, arguments, output: calls.append((arguments, output)))
    with torch.no_grad():
        model(torch.tensor([source.ids]), torch.tensor([target.ids]))
        (embedded, state, states), (context, weights) = calls[step]
        query = (target.labels[step],)
        if isinstance(model.attention, AdditiveAttention):
            made = [*_additive(model.attention, state, states, query, source.labels)]
        elif isinstance(model.attention, ProductAttention):
            made = [*_product(model.attention, state, states, query, source.labels)]
        else:
            made = [*_location(model.attention, embedded, state, states, query, source.labels)]
        scores = made[-1]
        wide = dimensions(context.shape[1])
        weights_of = Softmax("S")
        made.append(
            Matrix("A", "A", "softmax", plain(weights[0]), query, scores.columns, weights_of, axes=("query", "key"))
        )
        made.append(Matrix("Z", "z", "mix", plain(context), query, wide, Product("A", "V"), axes=QUERIES))
        config = model.config
        if config.cell == "gru" and config.n_layers == 1 and not config.attend_after:
            if not any(matrix.name == "e" for matrix in made):
                embedding = dimensions(embedded.shape[1])
                made.append(Matrix("e", "x", "next", plain(embedded), query, embedding, Given(), axes=QUERIES))
            made += _next(model, torch.cat([embedded, context], dim=-1), state, query)
        return Board.of(made)


def _next(model: Recurrent, read: Tensor, state: Tensor, query: tuple[str, ...]) -> Iterator[Matrix]:
    """The way of the context into the next state: beside the embedding, through the gates of a GRU."""
    wide, hidden, unit = dimensions(read.shape[1]), dimensions(state.shape[1]), model.decoder
    yield Matrix("y", "y", "next", plain(read), query, wide, Concatenate(("e", "Z")), axes=QUERIES)
    operand = "y"
    if len(model.combine):
        first = cast(nn.Linear, model.combine[0])
        read = first(read)
        yield from _mapped("c", "C", operand, first.weight, first.bias, read, query)
        read, operand = read.relu(), "C"
        yield Matrix("C", "C'", "next", plain(read), query, dimensions(read.shape[1]), bent("c", "relu"), axes=QUERIES)
    both, beside = torch.cat([read, state], dim=-1), dimensions(read.shape[1] + state.shape[1])
    yield Matrix("j", "j", "next", plain(both), query, beside, Concatenate((operand, "s")), axes=QUERIES)
    gates: dict[str, Tensor] = {}
    for gate, reads, keeps, a, b in zip(
        "run", unit.weight_ih.chunk(3), unit.weight_hh.chunk(3), unit.bias_ih.chunk(3), unit.bias_hh.chunk(3),
        strict=True,
    ):  # fmt: skip
        if gate == "n":
            found, kept = read @ reads.T + a, state @ keeps.T + b
            yield from _mapped("n_in", "n", operand, reads, a, found, query)
            yield from _mapped("n_kept", "k", "s", keeps, b, kept, query)
            new = torch.tanh(found + gates["r"] * kept)
            yield Matrix("n", "n'", "next", plain(new), query, hidden, PROPOSED, axes=QUERIES)
        else:
            found = both @ torch.cat([reads, keeps], dim=1).T + a + b
            yield from _mapped(f"{gate}_in", gate, "j", torch.cat([reads, keeps], dim=1), a + b, found, query)
            gates[gate] = found.sigmoid()
            opened = Cellwise((f"{gate}_in",), ("cell",), r"\frac{{1}}{{1 + e^{{-{A}}}}}", _sigmoid)
            yield Matrix(gate, f"{gate}'", "next", plain(gates[gate]), query, hidden, opened, axes=QUERIES)
    moved = torch.lerp(new, state, gates["u"])
    yield Matrix("next", "s'", "next", plain(moved), query, hidden, MOVED, axes=QUERIES)


def _sigmoid(x: Factors) -> float:
    return float(1 / (1 + np.exp(-x[0])))


PROPOSED = Cellwise(
    ("n_in", "r", "n_kept"), ("cell",) * 3, r"\tanh({a} + {b} \cdot {C})", lambda x: float(np.tanh(x[0] + x[1] * x[2]))
)
MOVED = Cellwise(
    ("u", "n", "s"), ("cell",) * 3, r"(1 - {a}) \cdot {B} + {a} \cdot {C}",
    lambda x: float((1 - x[0]) * x[1] + x[0] * x[2]),
)  # fmt: skip


def _mapped(
    name: str, letter: str, operand: str, weight: Tensor, bias: Tensor, found: Tensor, query: tuple[str, ...]
) -> Iterator[Matrix]:
    """A linear map of the next state: its parameters, and what it makes."""
    rows, columns = dimensions(weight.shape[1]), dimensions(weight.shape[0])
    yield Matrix(f"W_{name}", f"W^{letter}", "next", plain(weight.T), rows, columns, Given(), axes=SQUARE)
    yield Matrix(f"b_{name}", f"b^{letter}", "next", plain(bias[None]), ("",), columns, Given(), axes=SQUARE)
    made = Product(operand, f"W_{name}", bias=f"b_{name}")
    yield Matrix(name, f"I^{letter}", "next", plain(found), query, columns, made, axes=QUERIES)


def _additive(
    attention: AdditiveAttention, state: Tensor, states: SourceStates, query: tuple[str, ...], keys: tuple[str, ...]
) -> Iterator[Matrix]:
    hidden, wide = dimensions(state.shape[1]), dimensions(states.states.shape[2])
    yield Matrix("s", "s", "input", plain(state), query, hidden, Given(), axes=QUERIES)
    yield Matrix("V", "H", "input", plain(states.states), keys, wide, Given(), axes=KEYS)
    made = (("Q", attention.query, "s", query, QUERIES), ("K", attention.key, "V", keys, KEYS))
    for name, linear, operand, rows, axes in made:
        weight, source = linear.weight.T, state if name == "Q" else states.states[0]
        parameters = dimensions(len(weight))
        yield Matrix(f"W_{name}", f"W^{name}", "project", plain(weight), parameters, hidden, Given(), axes=SQUARE)
        yield Matrix(f"b_{name}", f"b^{name}", "project", plain(linear.bias[None]), ("",), hidden, Given(), axes=SQUARE)
        product = Product(operand, f"W_{name}", bias=f"b_{name}")
        yield Matrix(name, name, "project", plain(linear(source)), rows, hidden, product, axes=axes)
    met = torch.tanh(attention.query(state)[:, None] + states.keys)[0]
    yield Matrix("T", "J", "scores", plain(met), keys, hidden, TanhSum("Q", "K"), axes=KEYS)
    yield Matrix("v", "w", "scores", plain(attention.score.weight), ("",), hidden, Given(), axes=SQUARE)
    yield Matrix("b_v", "b^w", "scores", plain(attention.score.bias[None]), ("",), ("",), Given())
    scores = attention.score(met).T
    product = Product("v", "T", transposed=True, bias="b_v")
    yield Matrix("S", "S", "scores", plain(scores), query, keys, product, axes=("query", "key"))


def _product(
    attention: ProductAttention, state: Tensor, states: SourceStates, query: tuple[str, ...], keys: tuple[str, ...]
) -> Iterator[Matrix]:
    hidden, wide = dimensions(state.shape[1]), dimensions(states.states.shape[2])
    yield Matrix("s", "s", "input", plain(state), query, hidden, Given(), axes=QUERIES)
    yield Matrix("V", "H", "input", plain(states.states), keys, wide, Given(), axes=KEYS)
    compared, compare = "V", states.states
    if attention.key is not None and states.keys is not None:
        compare = states.keys
        weight, bias = attention.key.weight.T, attention.key.bias[None]
        yield Matrix("W_K", "W^K", "project", plain(weight), wide, hidden, Given(), axes=SQUARE)
        yield Matrix("b_K", "b^K", "project", plain(bias), ("",), hidden, Given(), axes=SQUARE)
        product = Product("V", "W_K", bias="b_K")
        yield Matrix("K", "K", "project", plain(compare), keys, hidden, product, axes=KEYS)
        compared = "K"
    scores = plain((compare * state[:, None]).sum(-1))
    product = Product("s", compared, transposed=True)
    yield Matrix("S", "S", "scores", scores, query, keys, product, axes=("query", "key"))


def _location(
    attention: LocationAttention,
    embedded: Tensor,
    state: Tensor,
    states: SourceStates,
    query: tuple[str, ...],
    keys: tuple[str, ...],
) -> Iterator[Matrix]:
    positions = (*keys, *(f"({i})" for i in range(len(keys), attention.max_length)))
    joined = torch.cat([embedded, state], dim=-1)
    weight, values = attention.where.weight.T, plain(states.states)
    for name, symbol, given in (("e", "x", embedded), ("s", "s", state)):
        yield Matrix(name, symbol, "input", plain(given), query, dimensions(given.shape[1]), Given(), axes=QUERIES)
    yield Matrix("V", "H", "input", values, positions, dimensions(values.shape[1]), Given(), axes=KEYS)
    both = Concatenate(("e", "s"))
    yield Matrix("Q", "q", "project", plain(joined), query, dimensions(joined.shape[1]), both, axes=QUERIES)
    yield Matrix("W", "W^S", "scores", plain(weight), dimensions(len(weight)), positions, Given(), axes=("", "key"))
    yield Matrix("b", "b^S", "scores", plain(attention.where.bias[None]), ("",), positions, Given(), axes=("", "key"))
    scores = plain(attention.where(joined))
    yield Matrix("S", "S", "scores", scores, query, positions, Product("Q", "W", bias="b"), axes=("query", "key"))

"""The attention of a recurrent decoder as a board: one step of additive or location attention.

Sources: Bahdanau et al. 2015, section 3.1 (additive); the PyTorch seq2seq tutorial's first generation (location).
The same stages as in the Transformer, with one query: the decoder's state.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from transformer.errors import InputError
from transformer.layers.recurrent_attention import AdditiveAttention, LocationAttention, SourceStates
from transformer.lessons.expressions.board import Board, Matrix, numbered, plain
from transformer.lessons.expressions.cellwise import Concatenate
from transformer.lessons.expressions.operations import Given
from transformer.lessons.expressions.rowwise import Product, Softmax, TanhSum
from transformer.lessons.sentences import Sentence
from transformer.models.recurrent import Recurrent


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
        else:
            made = [*_location(model.attention, embedded, state, states, query, source.labels)]
        scores = made[-1]
        wide = numbered(context.shape[1])
        made.append(Matrix("A", "A", "softmax", plain(weights[0]), query, scores.columns, Softmax("S")))
        made.append(Matrix("Z", "c", "mix", plain(context), query, wide, Product("A", "V")))
        return Board.of(made)


def _additive(
    attention: AdditiveAttention, state: Tensor, states: SourceStates, query: tuple[str, ...], keys: tuple[str, ...]
) -> Iterator[Matrix]:
    hidden, wide = numbered(state.shape[1]), numbered(states.states.shape[2])
    yield Matrix("s", "s", "input", plain(state), query, hidden, Given())
    yield Matrix("V", "H", "input", plain(states.states), keys, wide, Given())
    for name, linear, operand, rows in (("Q", attention.query, "s", query), ("K", attention.key, "V", keys)):
        weight, source = linear.weight.T, state if name == "Q" else states.states[0]
        yield Matrix(f"W_{name}", f"W^{name}", "project", plain(weight), numbered(len(weight)), hidden, Given())
        product = Product(operand, f"W_{name}", bias=tuple(linear.bias.tolist()))
        yield Matrix(name, name, "project", plain(linear(source)), rows, hidden, product)
    met = torch.tanh(attention.query(state)[:, None] + states.keys)[0]
    yield Matrix("T", "T", "scores", plain(met), keys, hidden, TanhSum("Q", "K"))
    yield Matrix("v", "v", "scores", plain(attention.score.weight), ("v",), hidden, Given())
    bias = tuple(attention.score.bias.tolist()) * len(keys)
    scores = attention.score(met).T
    yield Matrix("S", "S", "scores", plain(scores), query, keys, Product("v", "T", transposed=True, bias=bias))


def _location(
    attention: LocationAttention,
    embedded: Tensor,
    state: Tensor,
    states: SourceStates,
    query: tuple[str, ...],
    keys: tuple[str, ...],
) -> Iterator[Matrix]:
    positions = (*keys, *(f"({i + 1})" for i in range(len(keys), attention.max_length)))
    joined = torch.cat([embedded, state], dim=-1)
    weight = attention.where.weight.T
    yield Matrix("e", "e", "input", plain(embedded), query, numbered(embedded.shape[1]), Given())
    yield Matrix("s", "s", "input", plain(state), query, numbered(state.shape[1]), Given())
    yield Matrix("V", "H", "input", plain(states.states), positions, numbered(states.states.shape[2]), Given())
    yield Matrix("Q", "[e; s]", "project", plain(joined), query, numbered(joined.shape[1]), Concatenate(("e", "s")))
    yield Matrix("W", "W", "scores", plain(weight), numbered(len(weight)), positions, Given())
    bias = tuple(attention.where.bias.tolist())
    yield Matrix("S", "S", "scores", plain(attention.where(joined)), query, positions, Product("Q", "W", bias=bias))

"""One attention layer as a board of matrices, each step by the library's layers; with what can be changed in it.

A recurrent decoder's step too: additive or location attention, and the next state. Everything is float64. Rows are
positions, columns dimensions; in scores and weights rows are queries, columns keys.
Source: Vaswani et al. 2017, sections 3.1 to 3.4; equation 1, and the footnote of section 3.2.1 (what the root of d_k is
for): components of variance 1 give dot products of variance d_k, and a softmax of large scores has hardly any gradient.
Bahdanau et al. 2015, section 3.1 (additive); the PyTorch seq2seq tutorial's first generation (location).
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..attention.measures import entropy
from ..errors import ConfigError
from ..nn.recurrent import Recurrent
from ..nn.recurrent_attention import LocationAttention, SourceStates, StateAttention
from ..nn.seq2seq import Seq2Seq
from ..sites import Site
from . import formulas
from . import operations as op
from .board import KEYS, PARAMETERS, SCORES, STATES, Board, Matrix, linear, matrix
from .inside import input_matrices, normalised
from .run import Run, in_float64
from .sentences import Sentence

Hiding = Literal["library", "infinity", "large"]

FILLS: dict[Hiding, float] = {"library": -np.inf, "infinity": -np.inf, "large": -1e9}
"""What stands for a hidden score. They differ only in a row in which everything is hidden: all zeros (`library`, as
the fused attention returns it), undefined (`infinity`: 0 / 0), or uniform (`large`)."""


COLDEST, HOTTEST = 0.1, 10.0
"""Temperatures that the lesson can set: below, a row has one weight; above, all of them are the same."""


@dataclass(frozen=True)
class Recipe:
    """How attention is computed: the standard way, or with one thing changed.

    `scaled` divides scores by sqrt(d_k), and `temperature` by one more number; `n_heads` of 0 keeps the layer's own
    number (other numbers split the same parameters differently); `hiding` says how scores are hidden; `blind` is a
    query from which every key is hidden; `dropout` is the probability of dropping a weight.
    """

    scaled: bool = True
    temperature: float = 1.0
    n_heads: int = 0
    hiding: Hiding = "library"
    blind: int | None = None
    dropout: float = 0.0

    def factor(self, scale: float) -> float:
        """What scores are multiplied by, in a layer whose own factor is `scale`."""
        return (scale if self.scaled else 1.0) / self.temperature

    @property
    def fill(self) -> float:
        """The score that a hidden cell gets."""
        return FILLS[self.hiding]


class Steps(NamedTuple):
    """Every step from queries and keys to the weights that are used, for all heads of one sentence."""

    scores: Float[Tensor, "head query key"]
    scaled: Float[Tensor, "head query key"]
    masked: Float[Tensor, "head query key"]
    weights: Float[Tensor, "head query key"]
    kept: Bool[Tensor, "head query key"]
    used: Float[Tensor, "head query key"]


def softmax_steps(
    q: Float[Tensor, "head query d_k"],
    k: Float[Tensor, "head key d_k"],
    visible: Bool[Tensor, "query key"],
    scale: float,
    recipe: Recipe,
) -> Steps:
    """Dot products, scale, mask, softmax, dropout.

    Each row of `weights` sums to 1, unless it sees nothing; rows of `used` sum to 1 without dropout only.
    """
    scores = q @ k.transpose(-1, -2)
    scaled = scores * recipe.factor(scale)
    masked = scaled.masked_fill(~visible, recipe.fill)
    weights = masked.softmax(-1)
    if recipe.hiding == "library":
        weights = weights.masked_fill(~visible.any(-1, keepdim=True), 0.0)
    draw = torch.rand(weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kept = draw >= recipe.dropout
    used = torch.where(kept, weights / (1 - recipe.dropout), torch.zeros_like(weights))
    return Steps(scores, scaled, masked, weights, kept, used)


def attention_board(
    model: Seq2Seq, source: Sentence, target: Sentence | None, site: str, recipe: Recipe | None = None
) -> Board:
    """Every matrix of one attention layer (`encoder.0.self`, `decoder.2.cross`), all heads, on one sentence.

    With the standard recipe the last matrix is what the model's own layer hands on. Each matrix knows how it was made,
    so the order of stages is that of the computation. The encoder needs no target.

    Raises:
        ConfigError: the recipe's number of heads does not divide the layer's sizes.
    """
    return AttentionLayer(model, source, target, site).board(recipe or Recipe())


def temperature_curve(
    board: Board, head: int, recipe: Recipe, temperatures: Sequence[float]
) -> Float[np.ndarray, "temperature query"]:
    """Entropy (nats) of each row of a head of `board`, made by `recipe`, at other temperatures.

    NaN for a row that sees nothing.
    """
    q, k = (torch.from_numpy(board[f"{name}{head}"].values)[None] for name in "QK")
    hidden = board[f"M{head}"].hidden
    visible = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool) if hidden is None else ~torch.from_numpy(hidden)
    changed = (replace(recipe, temperature=one) for one in temperatures)
    steps = (softmax_steps(q, k, visible, q.shape[2] ** -0.5, one) for one in changed)
    return np.stack([entropy(one.weights[0].numpy()) for one in steps])


class AttentionLayer:
    """The attention of one site, in float64, and what reaches it: one run of the model serves every recipe."""

    def __init__(self, model: Seq2Seq, source: Sentence, target: Sentence | None, site: str) -> None:
        at = self.at = Site(site)
        self.run = Run(in_float64(model), source, target if at.stack == "decoder" else None)
        place = at.stack, at.layer or 0, at.kind
        sub = self.run.sub_layer(*place)
        self.x, self.residual = sub.x, sub.residual
        self.attention, self.memory, self.visible = self.run.attention(*place)
        self.rows = self.run.labels(at.stack)
        self.keys = self.run.labels("encoder") if at.kind == "cross" else self.rows
        self._projections: dict[int, tuple[list[Matrix], list[Tensor]]] = {}

    def board(self, recipe: Recipe) -> Board:
        """Every matrix of the layer, computed by `recipe`: see `attention_board`."""
        visible = self.visible
        if recipe.blind is not None:
            visible = visible.clone()
            visible[recipe.blind] = False
        with torch.no_grad():
            return Board.of(self._matrices(recipe, visible))

    def _matrices(self, recipe: Recipe, visible: Tensor) -> Iterator[Matrix]:
        """All matrices, in the order of their making."""
        attention, rows = self.attention, self.rows
        n_heads = recipe.n_heads or attention.n_heads
        if n_heads not in self._projections:
            self._projections[n_heads] = self._projected_to(n_heads)
        made, (q, k, v) = self._projections[n_heads]
        yield from made
        scale = attention.core.scale if n_heads == attention.n_heads else q.shape[-1] ** -0.5
        steps = softmax_steps(q, k, visible, scale, recipe)
        mixed = steps.used @ v
        for head in range(n_heads):
            by = _scale(f"S{head}", recipe, scale, q.shape[-1])
            yield from self._attended(head, steps, mixed[head], visible.numpy(), recipe, by)
        joined = mixed.transpose(0, 1).flatten(1)
        yield matrix("Z", "Z", "concatenate", joined, rows, op.concatenate(*(f"Z{head}" for head in range(n_heads))))
        output = attention.output(joined)
        yield from linear("O", "O", "output", output, rows, "Z", attention.output.weight, attention.output.bias)
        total = self.x + output
        yield matrix("R", "R", "residual", total, rows, formulas.added("X", "O"))
        if not self.residual.norm_first:
            normed = self.residual.norm(total)
            yield from normalised("Y", "Y", "residual", normed, rows, self.residual.norm, "R")

    def _projected_to(self, n_heads: int) -> tuple[list[Matrix], list[Float[Tensor, "head position d_head"]]]:
        """All matrices before the scores, the same projections cut into `n_heads` heads; queries, keys and values."""
        attention = self.attention
        for name, size in (("d_k", attention.query.out_features), ("d_v", attention.value.out_features)):
            if size % n_heads:
                raise ConfigError("lesson_heads_do_not_divide", n_heads=n_heads, size=name, width=size)
        if self.at.layer or self.at.kind == "cross":
            made = [matrix("X", "X", "input", self.x, self.rows)]
        else:  # the first layer of a stack: how what it reads is made from embeddings and positions
            made = [*input_matrices(self.run, self.at.stack, "input")]
        queries, query_name, key_name = self.x, "X", "X"
        if self.residual.norm_first:
            queries, query_name, key_name = self.residual.norm(self.x), "N", "N"
            made += normalised("N", r"\hat X", "input", queries, self.rows, self.residual.norm, "X")
        if self.at.kind == "cross":
            key_name = "H"
            made.append(matrix("H", "H", "input", self.memory, self.keys, axes=KEYS))
        heads = []
        for name, operand, reads, layer, labels, axes in (
            ("Q", query_name, queries, attention.query, self.rows, STATES),
            ("K", key_name, self.memory, attention.key, self.keys, KEYS),
            ("V", key_name, self.memory, attention.value, self.keys, KEYS),
        ):
            heads.append(layer(reads).unflatten(-1, (n_heads, -1)).transpose(0, 1))
            weights = layer.weight.chunk(n_heads)
            biases = [None] * n_heads if layer.bias is None else layer.bias.chunk(n_heads)
            for head, (values, weight, bias) in enumerate(zip(heads[-1], weights, biases, strict=True)):
                made += linear(
                    f"{name}{head}", f"{name}_{head}", "project", values, labels, operand, weight, bias,
                    f"{name}_{head}", axes, head,
                )  # fmt: skip
        return made, heads

    def _attended(
        self, head: int, steps: Steps, mixed: Tensor, visible: op.Cells, recipe: Recipe, by: op.Operation
    ) -> Iterator[Matrix]:
        """Scores to mixed values of one head."""
        h, used = head, "B" if recipe.dropout else "A"
        made: list[tuple[str, str, str, Tensor, op.Operation]] = [
            ("S", f"S_{h}", "scores", steps.scores, op.product(f"Q{h}", f"K{h}", transposed=True)),
            ("D", f"S'_{h}", "scale", steps.scaled, by),
            ("M", f"S''_{h}", "mask", steps.masked, op.hide(f"D{h}", visible, recipe.fill)),
            ("A", f"A_{h}", "softmax", steps.weights, op.softmax(f"M{h}", zero_if_blind=recipe.hiding == "library")),
            ("B", rf"\tilde A_{h}", "dropout", steps.used, op.drop(f"A{h}", steps.kept[h].numpy(), recipe.dropout)),
        ]
        for name, symbol, stage, values, operation in made if recipe.dropout else made[:-1]:
            hidden = None if name in {"S", "D"} else ~visible
            yield matrix(f"{name}{h}", symbol, stage, values[h], self.rows, operation, SCORES, self.keys, head, hidden)
        yield matrix(f"Z{h}", f"Z_{h}", "mix", mixed, self.rows, op.product(f"{used}{h}", f"V{h}"), head=head)


def _scale(operand: str, recipe: Recipe, scale: float, d_k: int) -> op.Operation:
    """What scores are divided by, in numbers and in letters."""
    parts = []
    if recipe.temperature != 1.0:
        value = op.number(recipe.temperature)
        parts.append((value, "T", f"T = {value}"))
    if recipe.scaled:
        parts.append((rf"\sqrt{{{d_k}}}", r"\sqrt{d_k}", f"d_k = {d_k}"))
    written, letters, where = zip(*parts, strict=True) if parts else ((), (), ())
    by = formulas.Constant(r" \cdot ".join(written), r" \cdot ".join(letters), where)
    return formulas.scaled(operand, recipe.factor(scale), by, divided=True)


SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Sizes of a head at which the curves are computed."""

N_KEYS, N_QUERIES = 8, 400
"""Keys of each query, and how many queries are drawn."""


class Growth(NamedTuple):
    """What scores and the gradient of their softmax do as d_k grows, without (0) and with (1) the root.

    `variance` is the formula's (d_k, or 1), `measured_variance` that of the drawn scores. `gradient` is the mean, over
    queries, of the largest entry of the softmax's Jacobian by its formula, a (1 - a); `measured_gradient` by
    differentiation.
    """

    sizes: tuple[int, ...]
    variance: Float[np.ndarray, "2 size"]
    measured_variance: Float[np.ndarray, "2 size"]
    gradient: Float[np.ndarray, "2 size"]
    measured_gradient: Float[np.ndarray, "2 size"]


def growth(sizes: Sequence[int] = SIZES, seed: int = 0) -> Growth:
    """Draw queries and keys with components of variance 1, for each size of a head."""
    generator = torch.Generator().manual_seed(seed)
    found: list[list[list[float]]] = []
    for size in sizes:
        q = torch.randn(N_QUERIES, size, 1, dtype=torch.float64, generator=generator)
        k = torch.randn(N_QUERIES, N_KEYS, size, dtype=torch.float64, generator=generator)
        scores = (k @ q).squeeze(-1)
        found.append([_measured(scores, float(size)), _measured(scores / size**0.5, 1.0)])
    return Growth(tuple(sizes), *np.array(found).transpose(2, 1, 0))


def _measured(scores: torch.Tensor, variance: float) -> list[float]:
    weights = scores.softmax(-1)
    by_formula = (weights * (1 - weights)).amax(-1)
    jacobians = torch.func.vmap(torch.func.jacrev(lambda one: one.softmax(-1)))(scores)
    by_differentiation = jacobians.abs().amax((-1, -2))
    return [variance, float(scores.var()), float(by_formula.mean()), float(by_differentiation.mean())]


def recurrent_board(model: Recurrent, source: Sentence, target: Sentence, step: int) -> Board:
    """Every matrix of the decoder's additive or location attention while it reads target token `step`, from 0."""
    model = copy.deepcopy(model).double().eval()
    calls: list[tuple[tuple[Any, ...], tuple[Tensor, Tensor]]] = []
    model.attention.register_forward_hook(lambda _, arguments, output: calls.append((arguments, output)))
    with torch.no_grad():
        model(torch.tensor([source.ids]), torch.tensor([target.ids]))
        (embedded, state, states), (context, weights) = calls[step]
        query = (target.labels[step],)
        if isinstance(model.attention, StateAttention):
            made = [*_additive(model.attention, state, states, query, source.labels)]
        else:
            made = [*_location(model.attention, embedded, state, states, query, source.labels)]
        positions = made[-1].columns
        made.append(matrix("A", "A", "softmax", weights[0], query, op.softmax("S"), SCORES, positions))
        made.append(matrix("Z", "z", "mix", context, query, op.product("A", "V")))
        config = model.config
        if config.cell == "gru" and config.decoder.n_layers == 1 and not config.attention.after:
            if isinstance(model.attention, StateAttention):
                made.append(matrix("e", "x", "next", embedded, query))
            made += _next(model, torch.cat([embedded, context], dim=-1), state, query)
        return Board.of(made)


def _next(model: Recurrent, read: Tensor, state: Tensor, query: Sequence[str]) -> Iterator[Matrix]:
    """The way of the context into the next state: beside the embedding, through the gates of a GRU."""
    stage, operand, unit = "next", "y", model.decoder
    yield matrix("y", "y", stage, read, query, op.concatenate("e", "Z"))
    if len(model.combine):
        first = cast(nn.Linear, model.combine[0])
        read = first(read)
        yield from linear("c", "I^C", stage, read, query, operand, first.weight, first.bias, "C")
        read, operand = read.relu(), "C"
        yield matrix("C", "C'", stage, read, query, formulas.bent("c", "relu"))
    both = torch.cat([read, state], dim=-1)
    yield matrix("j", "j", stage, both, query, op.concatenate(operand, "s"))
    gates: dict[str, Tensor] = {}
    parameters = (unit.weight_ih, unit.weight_hh, unit.bias_ih, unit.bias_hh)
    for gate, reads, keeps, a, b in zip("run", *(one.chunk(3) for one in parameters), strict=True):
        if gate == "n":
            found, kept = read @ reads.T + a, state @ keeps.T + b
            yield from linear("n_in", "I^n", stage, found, query, operand, reads, a, "n")
            yield from linear("n_kept", "I^k", stage, kept, query, "s", keeps, b, "k")
            new = torch.tanh(found + gates["r"] * kept)
            yield matrix("n", "n'", stage, new, query, PROPOSED)
        else:
            weight = torch.cat([reads, keeps], dim=1)
            found = both @ weight.T + a + b
            yield from linear(f"{gate}_in", f"I^{gate}", stage, found, query, "j", weight, a + b, gate)
            gates[gate] = found.sigmoid()
            yield matrix(gate, f"{gate}'", stage, gates[gate], query, formulas.bent(f"{gate}_in", "sigmoid"))
    yield matrix("next", "s'", stage, torch.lerp(new, state, gates["u"]), query, MOVED)


_CELLS: tuple[op.Role, ...] = ("cell", "cell", "cell")
PROPOSED = formulas.cellwise(
    _CELLS, r"\tanh({a} + {b} \cdot {C})", lambda x: np.tanh(x[0] + x[1] * x[2]), "n_in", "r", "n_kept"
)
MOVED = formulas.cellwise(
    _CELLS, r"(1 - {a}) \cdot {B} + {a} \cdot {C}", lambda x: x[1] + x[0] * (x[2] - x[1]), "u", "n", "s"
)


def _additive(
    attention: StateAttention, state: Tensor, states: SourceStates, query: Sequence[str], keys: Sequence[str]
) -> Iterator[Matrix]:
    q, k, score = (cast(nn.Linear, one) for one in (attention.query, attention.key, attention.score))
    yield matrix("s", "s", "input", state, query)
    yield matrix("V", "H", "input", states.states, keys, axes=KEYS)
    yield from linear("Q", "Q", "project", q(state), query, "s", q.weight, q.bias)
    yield from linear("K", "K", "project", k(states.states[0]), keys, "V", k.weight, k.bias, axes=KEYS)
    compared = torch.tanh(q(state)[:, None] + states.keys)[0]
    yield matrix("T", "J", "scores", compared, keys, formulas.met("Q", "K"), KEYS)
    yield matrix("v", "w", "scores", score.weight, ("",), axes=PARAMETERS)
    yield matrix("b_v", "b^w", "scores", score.bias, axes=("", ""), columns=("",))
    made = op.product("v", "T", transposed=True, bias="b_v")
    yield matrix("S", "S", "scores", score(compared).T, query, made, SCORES, keys)


def _location(
    attention: LocationAttention,
    embedded: Tensor,
    state: Tensor,
    states: SourceStates,
    query: Sequence[str],
    keys: Sequence[str],
) -> Iterator[Matrix]:
    positions = (*keys, *(f"({i})" for i in range(len(keys), attention.max_length)))
    joined, where = torch.cat([embedded, state], dim=-1), attention.where
    yield matrix("e", "x", "input", embedded, query)
    yield matrix("s", "s", "input", state, query)
    yield matrix("V", "H", "input", states.states, positions, axes=KEYS)
    yield matrix("Q", "q", "project", joined, query, op.concatenate("e", "s"))
    yield matrix("W", "W^S", "scores", where.weight.T, axes=("", "key"), columns=positions)
    yield matrix("b", "b^S", "scores", where.bias, axes=("", "key"), columns=positions)
    made = op.product("Q", "W", bias="b")
    yield matrix("S", "S", "scores", where(joined), query, made, SCORES, positions)

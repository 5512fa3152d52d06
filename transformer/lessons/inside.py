"""What stands around attention in a model's layers, and its output, as boards of one run; and a convolution.

Every number comes from the model's own modules or from torch; the operations only say which cells meet in which.
Sources: Vaswani et al. 2017, sections 3.1 to 3.4; Xiong et al. 2020 (norm before); Ba, Kiros & Hinton 2016 and
torch.nn.LayerNorm (variance divided by n, eps under the root); The Annotated Transformer (deviation with n - 1, eps
added to it); Zhang & Sennrich 2019 (RMSNorm: no mean, no shift); Press & Wolf 2017 (embeddings as the output layer).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from ..nn.blocks import AnnotatedLayerNorm, norm_kind
from ..nn.protocols import TokenInterface
from ..plots.axes import Axis
from . import formulas
from .board import PARAMETERS, Axes, Board, Matrix, column, matrix
from .formulas import Constant
from .operations import START, Operation, normalise, number, product
from .run import Run

STAGES = ("embedding", "residual", "norm", "order", "feed_forward", "output")
"""The steps of the lesson, in the order in which a model runs them."""

GIVEN = "given"
"""The stage of what a board starts from."""

ALPHABET, LONGEST = "ACGT", 10
"""The letters of a convolution, and how many fit a blackboard."""


def embedding_board(run: Run, stack: str) -> Board:
    """How what the first layer reads is made: rows of a table, scaled or not, positions, perhaps a norm.

    And how large a share of it the positions are, with the scale and without: `U` is the other way.
    """
    labels, stage = run.labels(stack), STAGES[0]
    words, larger, table = _input(run, stack)
    is_scaled = run.model.config.scale_embedding
    ways = {"sE": larger, "E": words}
    own, other = ("sE", "E") if is_scaled else ("E", "sE")

    def matrices() -> Iterator[Matrix]:
        yield from input_matrices(run, stack, stage, GIVEN)
        if not is_scaled:
            yield _by_root(larger, labels, stage)
        yield matrix("U", "U", stage, ways[other] + table, labels, formulas.added(other, "P"))
        yield from _lengths({"sE": ("E'", larger), "E": ("E", words), "P": ("P", table)}, labels, stage)
        for name, symbol, way in (("g", "g", own), ("gU", "g'", other)):
            squares = table.square().sum(-1), ways[way].square().sum(-1)
            share = squares[0] / (squares[0] + squares[1])
            yield column(name, symbol, stage, share, labels, formulas.share_of_squares("lP", f"l{way}"))

    return Board.of(matrices())


def residual_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """A state, what one sub-layer found, their sum, and the lengths of both: how large a part is new."""
    sub, labels, stage = run.sub_layer(stack, layer, part), run.labels(stack), STAGES[1]
    together = sub.x + sub.found
    new, old = sub.found.norm(dim=-1), sub.x.norm(dim=-1)
    return Board.of(
        [
            matrix("X", "X", GIVEN, sub.x, labels),
            matrix("F", "F", GIVEN, sub.found, labels),
            matrix("R", "R", stage, together, labels, formulas.added("X", "F")),
            *_lengths({"X": ("X", sub.x), "F": ("F", sub.found), "R": ("R", together)}, labels, stage),
            column("c", "c", stage, new / (new + old), labels, formulas.share_of("lF", "lX")),
        ]
    )


def order_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """One sub-layer on the same input twice: its norm after the sum (Y), and before the sub-layer (Z)."""
    sub, labels, stage = run.sub_layer(stack, layer, part), run.labels(stack), STAGES[3]
    norm: Any = sub.residual.norm
    with torch.no_grad():
        after, normed = sub.again(sub.x), norm(sub.x)
        before = sub.again(normed)
        post = norm(sub.x + after)
    pre = sub.x + before
    return Board.of(
        [
            matrix("X", "X", GIVEN, sub.x, labels),
            matrix("g", r"\gamma", GIVEN, norm.weight),
            matrix("b", r"\beta", GIVEN, norm.bias),
            matrix("F", "F", GIVEN, after, labels),
            matrix("R", "R", stage, sub.x + after, labels, formulas.added("X", "F")),
            matrix("Y", "Y", stage, post, labels, _normalise(norm, "R")),
            matrix("N", r"\hat X", stage, normed, labels, _normalise(norm, "X")),
            matrix("G", "F'", GIVEN, before, labels),
            matrix("Z", "R'", stage, pre, labels, formulas.added("X", "G")),
            *_lengths({"X": ("X", sub.x), "Y": ("Y", post), "Z": ("R'", pre)}, labels, stage),
        ]
    )


def feed_forward_board(run: Run, stack: str, layer: int) -> Board:
    """Up to d_ff, a bend, and down again; and at each position the share of units that are above zero."""
    net, reads = run.feed_forward(stack, layer)
    labels, stage = run.labels(stack), STAGES[4]
    with torch.no_grad():
        wide, hidden = net.widen(reads), net.hidden(reads)
        found = net.narrow(hidden)
    units: Axes = ("query", "unit")
    bend = formulas.bent("A", run.model.config.block.activation)
    return Board.of(
        [
            matrix("H", "I", GIVEN, reads, labels),
            matrix("W_in", "W_1", GIVEN, net.widen.weight.T, axes=("", "unit")),
            matrix("b_in", "b_1", GIVEN, net.widen.bias, axes=("", "unit")),
            matrix("A", "F_1", stage, wide, labels, product("H", "W_in", bias="b_in"), units),
            matrix("B", "F_2", stage, hidden, labels, bend, units),
            column("on", "a", stage, (hidden > 0).double().mean(-1), labels, formulas.share_above_zero("B")),
            matrix("W_out", "W_2", GIVEN, net.narrow.weight.T, axes=("unit", "dimension")),
            matrix("b_out", "b_2", GIVEN, net.narrow.bias),
            matrix("F", "F", stage, found, labels, product("B", "W_out", bias="b_out")),
        ]
    )


def convolution_board(letters: str, width: int, n_filters: int, seed: int) -> Board:
    """Windows of letters as ones and zeros, the filters, what each filter answers to each window, and its ReLU.

    A k-mer classifier reads a sequence this way: a window of `width` letters is one row, and a filter is one column of
    weights, as in `nn.Conv1d`.

    Raises:
        InputError: there are too few or too many letters, or others than A, C, G and T.
    """
    letters, stage = letters.upper(), "letters"
    if not width <= len(letters) <= LONGEST or set(letters) - set(ALPHABET):
        raise InputError("lesson_letters", letters=letters[:LONGEST], low=width, high=LONGEST, alphabet=ALPHABET)
    ids = torch.tensor([ALPHABET.index(letter) for letter in letters])
    windows = torch.nn.functional.one_hot(ids, len(ALPHABET)).double().unfold(0, width, 1).transpose(1, 2).flatten(1)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(-2, 3, (width * len(ALPHABET), n_filters), generator=generator).double() / 2
    bias = torch.randint(-1, 2, (n_filters,), generator=generator).double() / 2
    rows = [f"{letters[i : i + width]} ({i})" for i in range(len(windows))]
    places = [f"{letter}{place}" for place in range(width) for letter in ALPHABET]
    found = windows @ weight + bias
    return Board.of(
        [
            matrix("windows", "B", stage, windows, rows, columns=places),
            matrix("filters", "W^B", stage, weight, places, axes=PARAMETERS),
            matrix("bias", "b^B", stage, bias),
            matrix("answers", "B'", stage, found, rows, product("windows", "filters", bias="bias")),
            matrix("relu", "B''", stage, found.relu(), rows, formulas.bent("answers", "relu")),
        ]
    )


def input_matrices(run: Run, stack: str, stage: str, given: str | None = None) -> Iterator[Matrix]:
    """What the first layer of a stack reads: `given` is the stage of what is looked up, `stage` of what is made."""
    labels, given = run.labels(stack), given or stage
    words, larger, table = _input(run, stack)
    yield matrix("E", "E", given, words, labels)
    summand, scaled_words = "E", words
    if run.model.config.scale_embedding:
        summand, scaled_words = "sE", larger
        yield _by_root(larger, labels, stage)
    yield matrix("P", "P", given, table, labels)
    together, side = scaled_words + table, "source" if stack == "encoder" else "target"
    norm = getattr(run.model, f"{side}_norm", None)
    if norm is None or isinstance(norm, nn.Identity):
        yield matrix("X", "X", stage, together, labels, formulas.added(summand, "P"))
        return
    yield matrix("EP", "X'", stage, together, labels, formulas.added(summand, "P"))
    with torch.no_grad():
        yield from normalised("X", "X", stage, norm(together), labels, norm, "EP")


def normalised(
    name: str, symbol: str, stage: str, values: Tensor, labels: Sequence[str], norm: Any, operand: str
) -> Iterator[Matrix]:
    """Gain and shift of a norm, and what it makes of an operand in one step."""
    yield matrix(f"g_{name}", rf"\gamma^{operand[0]}", stage, norm.weight)
    yield matrix(f"b_{name}", rf"\beta^{operand[0]}", stage, norm.bias)
    yield matrix(name, symbol, stage, values, labels, _normalise(norm, operand, f"g_{name}", f"b_{name}"))


def _normalise(norm: Any, operand: str, gain: str = "g", shift: str = "b") -> Operation:
    return normalise(operand, gain, shift, float(norm.eps), unbiased=norm_kind(norm) == "annotated")


def _lengths(of: dict[str, tuple[str, Tensor]], labels: Sequence[str], stage: str) -> Iterator[Matrix]:
    """The length of each row of several matrices, by name: their symbols and values."""
    for name, (symbol, values) in of.items():
        yield column(f"l{name}", f"|{symbol}|", stage, values.norm(dim=-1), labels, formulas.length(name))


def _by_root(values: Tensor, labels: Sequence[str], stage: str) -> Matrix:
    d_model = values.shape[1]
    return matrix("sE", "E'", stage, values, labels, formulas.scaled("E", d_model**0.5, _root(d_model)))


def _root(d_model: int) -> Constant:
    return Constant(rf"\sqrt{{{d_model}}}", r"\sqrt{d}", (f"d = {d_model}",))


@torch.no_grad()
def _input(run: Run, stack: str) -> tuple[Tensor, Tensor, Tensor]:
    """A stack's embeddings, the same scaled, and what its positions add."""
    model, side = run.model, "source_" if stack == "encoder" else "target_"
    side = side if model.abilities.translates else ""
    words = getattr(model, f"{side}embedding")(torch.tensor(run.sentences[stack].ids))
    nothing = torch.zeros_like(words)
    by_batch = getattr(model.config, "position_axis", "sequence") == "batch"
    positions: Tensor = getattr(model, f"{side}positions")(nothing[:, None] if by_batch else nothing[None])
    return words, words * model.config.block.d_model**0.5, positions.reshape(words.shape)


Kind = Literal["torch", "annotated", "rms"]
"""The forms of a norm: `nn.LayerNorm`, The Annotated Transformer's, RMSNorm."""

BESIDE = "beside"
"""All forms beside each other."""

SHOWN: dict[str, tuple[str, ...]] = {
    "torch": ("X", "mu", "C", "v", "s", "N", "g", "b", "Y"),
    "annotated": ("X", "mu", "C", "va", "sa", "Na", "g", "b", "Ya"),
    "rms": ("X", "q", "r", "Nr", "g", "Yr"),
    BESIDE: ("X", "s", "sa", "r", "Y", "Ya", "Da", "Yr", "Dr"),
}
"""The matrices of one form, step by step; or, of all, what is divided by, the results, and how these differ."""


def norm_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """What the norm of one sub-layer makes of what it reads, in all three forms, with its own gain, shift and eps.

    The norm before a sub-layer reads the state X, the one after it the sum R, which is called X here as well.
    """
    sub = run.sub_layer(stack, layer, part)
    reads = sub.x if sub.residual.norm_first else sub.x + sub.found
    return Board.of(_forms(reads, sub.residual.norm, run.labels(stack)))


def _forms(x: Float[Tensor, "position d_model"], norm: Any, labels: tuple[str, ...]) -> Iterator[Matrix]:
    stage, eps, gain, shift = STAGES[2], float(norm.eps), norm.weight.detach(), norm.bias.detach()
    middle, squares = x.mean(-1, keepdim=True), x.square().mean(-1)
    centred = x - middle
    yield matrix("X", "X", GIVEN, x, labels)
    yield matrix("g", r"\gamma", GIVEN, gain)
    yield matrix("b", r"\beta", GIVEN, shift)
    yield column("mu", r"\mu", stage, middle[:, 0], labels, formulas.mean("X"))
    yield matrix("C", "C", stage, centred, labels, formulas.less_row("X", "mu"))

    def form(end: str, prime: str, variance: Tensor, divisor: Tensor, result: Tensor) -> Iterator[Matrix]:
        is_rms, unbiased = end == "r", end == "a"
        of, square, below = ("X", "q", "r") if is_rms else ("C", f"v{end}", f"s{end}")
        symbols = ("u", "r") if is_rms else (f"v{prime}", rf"\delta{prime}")
        yield column(square, symbols[0], stage, variance, labels, formulas.mean_square(of, unbiased))
        yield column(below, symbols[1], stage, divisor, labels, formulas.root(square, eps, outside=unbiased))
        divided = (x if is_rms else centred) / divisor[:, None]
        yield matrix(f"N{end}", f"N{prime}", stage, divided, labels, formulas.through_row(of, below))
        fit = formulas.gained("g", "Nr") if is_rms else formulas.fitted("g", f"N{end}", "b")
        yield matrix(f"Y{end}", f"Y{prime}", stage, result, labels, fit)

    usual = F.layer_norm(x, x.shape[-1:], gain, shift, eps)
    parameters = {"weight": gain, "bias": shift}
    annotated: Tensor = torch.func.functional_call(AnnotatedLayerNorm(x.shape[-1], eps), parameters, (x,))
    others = {"'": annotated, "''": F.rms_norm(x, x.shape[-1:], gain, eps)}
    yield from form("", "", x.var(-1, unbiased=False), (centred.square().mean(-1) + eps).sqrt(), usual)
    yield from form("a", "'", x.var(-1, unbiased=True), x.std(-1) + eps, others["'"])
    yield from form("r", "''", squares, (squares + eps).sqrt(), others["''"])
    for end, (prime, result) in zip("ar", others.items(), strict=True):
        yield matrix(f"D{end}", rf"\Delta{prime}", stage, result - usual, labels, formulas.less(f"Y{end}", "Y"))


TOP = 10
"""Words that are shown, the likeliest ones: of all others the exponentials are one sum."""

WORDS: Axes = ("", "word")


def is_tied(run: Run) -> bool:
    """Whether the rows of the output layer are those of the embedding table."""
    if not run.scores_words:
        return False
    tokens: TokenInterface = run.model.token_interface()
    return tokens.embeddings[-1].weight is tokens.projection.weight


def positions_of(run: Run) -> tuple[str, ...]:
    """The positions whose output can be looked at, by their labels; none where the model ends with its states."""
    return () if run.end() is None else run.labels(run.stacks[-1])


def output_board(run: Run, position: int) -> Board:
    """The likeliest words of one of `positions_of`: their dot products, and how these become probabilities."""
    (last, states, scores, factor), stage = _ending(run), STAGES[5]
    logits = scores[position]
    chosen = logits.argsort(descending=True)[:TOP]
    words = Axis.of_tokens("token", list(run.words(chosen.tolist()))).labels

    def one(name: str, symbol: str, values: Tensor, operation: Operation = START, its: str = stage) -> Matrix:
        axes, columns = (WORDS, words) if values.dim() else (("", ""), ("",))
        return matrix(name, symbol, its, values.reshape(1, -1), ("",), operation, axes, columns)

    made = [
        matrix("h", "h", GIVEN, states[position]),
        matrix("T", "W^L", GIVEN, last.weight[chosen], words, axes=("word", "dimension")),
    ]
    if last.bias is not None:
        made.append(one("b", "b^L", last.bias[chosen], its=GIVEN))
    scored = product("h", "T", transposed=True, bias=None if last.bias is None else "b")
    if factor == 1.0:
        made.append(one("L", "L", logits[chosen], scored))
    else:
        made.append(one("D", "D", logits[chosen] / factor, scored))
        made.append(one("L", "L", logits[chosen], _scale(factor, states.shape[1])))
    lowered = logits - logits[chosen[0]]
    powers, rest = lowered.exp(), list[str]()
    made += [
        one("m", "m", logits[chosen[0]], formulas.largest("L")),
        one("S", "L'", lowered[chosen], formulas.less_row("L", "m")),
        one("G", "p'", powers[chosen], formulas.bent("S", "exp")),
    ]
    if len(chosen) < len(logits):
        others = torch.ones_like(logits, dtype=torch.bool)
        others[chosen] = False
        rest.append("r")
        made.append(one("r", r"\rho", powers[others].sum(), its=GIVEN))
    made += [
        one("Z", r"\Sigma", powers.sum(), formulas.total("G", *rest)),
        one("l", r"\ell", logits.log_softmax(-1)[chosen], formulas.less_logarithm("S", "Z")),
        one("p", "p", logits.softmax(-1)[chosen], formulas.through_row("G", "Z")),
    ]
    return Board.of(made)


def _scale(factor: float, d_model: int) -> Operation:
    """What the logits are multiplied by, as a root of d_model where it is one."""
    if abs(factor - d_model**-0.5) < 1e-12:
        return formulas.scaled("D", factor, _root(d_model), divided=True)
    written = number(factor, digits=12)
    return formulas.scaled("D", factor, Constant(written, "c", (f"c = {written}",)))


@torch.no_grad()
def _ending(run: Run) -> tuple[nn.Linear, Tensor, Tensor, float]:
    """The map to the output, what it read, the scores of every output at each position, and their own factor."""
    last, states = cast(nn.Linear, run.last), cast(Tensor, run.end())
    factor = float(getattr(run.model.config, "projection_scale", 1.0))
    return last, states, last(states) * factor, factor

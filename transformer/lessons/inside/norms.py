"""A norm one step at a time, in the three forms of published codes, and how far apart they are.

Sources: Ba, Kiros & Hinton 2016 and torch.nn.LayerNorm (variance divided by n, eps under the root); The Annotated
Transformer (deviation with n - 1, eps added to it); Zhang & Sennrich 2019 (RMSNorm: no mean, no shift).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.lessons.expressions.board import Board, Matrix
from transformer.lessons.expressions.operations import Given
from transformer.lessons.expressions.written import fitted, less, mean, mean_square, root, through
from transformer.lessons.inside.boards import GIVEN, STAGES, column, row, states
from transformer.lessons.run import Run
from transformer.nn.norms import AnnotatedLayerNorm, deviation, norm_kind

Kind = Literal["torch", "annotated", "rms"]
KINDS: tuple[Kind, ...] = ("torch", "annotated", "rms")
"""The forms of a norm: `nn.LayerNorm`, The Annotated Transformer's, RMSNorm."""

_ENDS: dict[Kind, tuple[str, str]] = {"torch": ("", ""), "annotated": ("a", "'"), "rms": ("r", "''")}
"""What a form's names and symbols end with."""

BESIDE = "beside"
"""All forms beside each other."""

SHOWN: dict[str, tuple[str, ...]] = {
    "torch": ("X", "mu", "C", "v", "s", "N", "g", "b", "Y"),
    "annotated": ("X", "mu", "C", "va", "sa", "Na", "g", "b", "Ya"),
    "rms": ("X", "q", "r", "Nr", "g", "Yr"),
    BESIDE: ("X", "s", "sa", "r", "Y", "Ya", "Da", "Yr", "Dr"),
}
"""The matrices of one form, step by step; or, of all, what is divided by, the results, and how these differ."""

RESULT: dict[Kind, str] = {"torch": "Y", "annotated": "Ya", "rms": "Yr"}
DIVISOR: dict[Kind, str] = {"torch": "s", "annotated": "sa", "rms": "r"}
"""The matrices of a form's result, and of what it divides by."""


@dataclass(frozen=True)
class Apart:
    """How far the form of a norm is from the model's own: its divisor in one row, and the largest difference of all."""

    kind: Kind
    divisor: float
    largest: float


def bare_lengths(norm: nn.Module, x: Float[np.ndarray, "position d_model"]) -> Float[np.ndarray, " position"]:
    """Length of each row of `x` that `norm` has centred and divided, before gain and shift."""
    rows = torch.from_numpy(x)
    with torch.no_grad():
        return ((rows - rows.mean(-1, keepdim=True)) / deviation(norm, rows)).norm(dim=-1).numpy()


def bare_limit(norm: nn.Module, d_model: int) -> int:
    """The square of the length of such a row, but for what eps takes from it: d, or d - 1 (unbiased deviation)."""
    return d_model - 1 if norm_kind(norm) == "annotated" else d_model


def norm_board(run: Run, stack: str, layer: int, part: str) -> Board:
    """What the norm of one sub-layer makes of what it reads, in all three forms, with its own gain, shift and eps.

    The norm before a sub-layer reads the state X, the one after it the sum R, which is called X here as well.

    Raises:
        InputError: the sub-layer is not in this run.
    """
    sub = run.sub_layer(stack, layer, part)
    reads = sub.x if sub.residual.norm_first else sub.x + sub.found
    return Board.of(_forms(reads, sub.residual.norm, run.labels(stack)))


def apart(board: Board, own: Kind, at: int) -> list[Apart]:
    """Each form against the model's own: what row `at` is divided by, and the largest difference of any cell."""
    results = {kind: board[RESULT[kind]].values for kind in KINDS}
    return [
        Apart(
            kind,
            float(board[DIVISOR[kind]].values[at, 0]),
            float(np.abs(results[kind] - results[own]).max()),
        )
        for kind in KINDS
    ]


def _forms(x: Float[Tensor, "position d_model"], norm: Any, labels: tuple[str, ...]) -> Iterator[Matrix]:
    stage, eps, gain, shift = STAGES[2], float(norm.eps), norm.weight.detach(), norm.bias.detach()
    middle = x.mean(-1, keepdim=True)
    centred = x - middle
    yield states("X", "X", GIVEN, x, labels, Given())
    yield row("g", r"\gamma", GIVEN, gain)
    yield row("b", r"\beta", GIVEN, shift)
    yield column("mu", r"\mu", stage, middle[:, 0], labels, mean("X"))
    yield states("C", "C", stage, centred, labels, less("X", "mu", "row"))
    made: dict[Kind, Tensor] = {
        "torch": F.layer_norm(x, x.shape[-1:], gain, shift, eps),
        "annotated": _annotated(x, gain, shift, eps),
        "rms": F.rms_norm(x, x.shape[-1:], gain, eps),
    }
    divisors: dict[Kind, Tensor] = {
        "torch": (centred.square().mean(-1) + eps).sqrt(),
        "annotated": x.std(-1) + eps,
        "rms": (x.square().mean(-1) + eps).sqrt(),
    }
    squares: dict[Kind, Tensor] = {
        "torch": x.var(-1, unbiased=False),
        "annotated": x.var(-1, unbiased=True),
        "rms": x.square().mean(-1),
    }
    for kind in KINDS:
        end, prime = _ENDS[kind]
        is_rms, of = kind == "rms", "X" if kind == "rms" else "C"
        square, divisor = ("q", "r") if is_rms else (f"v{end}", f"s{end}")
        symbols = ("u", "r") if is_rms else (f"v{prime}", rf"\delta{prime}")
        unbiased = kind == "annotated"
        yield column(square, symbols[0], stage, squares[kind], labels, mean_square(of, unbiased))
        yield column(divisor, symbols[1], stage, divisors[kind], labels, root(square, eps, outside=unbiased))
        scaled = (x if is_rms else centred) / divisors[kind][:, None]
        yield states(f"N{end}", f"N{prime}", stage, scaled, labels, through(of, divisor, "row"))
        fit = fitted(f"N{end}", "g", None if is_rms else "b")
        yield states(RESULT[kind], f"Y{prime}", stage, made[kind], labels, fit)
    for kind, name, symbol in (("annotated", "Da", r"\Delta'"), ("rms", "Dr", r"\Delta''")):
        difference = less(RESULT[kind], "Y", "cell")
        yield states(name, symbol, stage, made[kind] - made["torch"], labels, difference)


def _annotated(x: Tensor, gain: Tensor, shift: Tensor, eps: float) -> Tensor:
    norm = AnnotatedLayerNorm(x.shape[-1], eps).to(x.dtype)
    with torch.no_grad():
        norm.weight.copy_(gain)
        norm.bias.copy_(shift)
        found: Tensor = norm(x)
    return found

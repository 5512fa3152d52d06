"""Integrated gradients: what each token adds to the log-probability of each written token, against no token at all.

Every embedding, of the source and of the target prefix, moves along the straight line from the mean of its table's
rows ("no token in particular") to the one given; slopes along the way, times the way, sum to the difference of the
log-probabilities at both ends. The sum over a finite number of points misses it by a gap, which is told: small for a
recurrent net, whose slopes change slowly, often large for a Transformer. Needs of a model only where tokens are
embedded and where scores are made, so it is defined for recurrent nets and for other libraries' models too. Source:
Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", section 3; places and shares of the points are
those of Gauss and Legendre.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.attribution.deletion import Progress
from transformer.attribution.passage import POSITIONS_AT_ONCE, Passage
from transformer.attribution.result import Attribution, of_passage
from transformer.attribution.twins import twin_of
from transformer.errors import AttributionError
from transformer.messages import Message
from transformer.models.protocols import Ends, HasEnds
from transformer.pictures.quantity import Quantity

POINTS = 8
"""Points on the way at which slopes are taken."""

ROWS_AT_ONCE = 4_096
"""Rows of an embedding table that are averaged together."""


@dataclass
class Fed:
    """Puts given embeddings in the place of those that a pass looks up, in the order in which it does."""

    left: list[Tensor]

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], found: Tensor) -> Tensor:
        """What is given, instead of what was found.

        Raises:
            AttributionError: nothing is left to give, or it has another shape.
        """
        given = self.left.pop(0) if self.left else None
        if given is None or given.shape != found.shape:
            raise AttributionError("attribution_embeds_elsewhere", found=type(module).__name__)
        return given


@torch.inference_mode(mode=False)
def integrated_gradients(passage: Passage, points: int = POINTS, progress: Progress | None = None) -> Attribution:
    """Nats that each source token and each token of the prefix adds to each written token's log-probability.

    A row sums to log p(y_t | x, y_<t) less that of the baseline, up to the gap that a note tells. Costs `points`
    forward passes, and a backward pass of them together for each written token. A twin that shares the model's weights
    runs, so the model itself has no hooks.

    Raises:
        AttributionError: the model does not say where it embeds and scores tokens, or embeds them more than once.
    """
    if not isinstance(passage.model, HasEnds):
        raise AttributionError("attribution_no_embeddings", name=passage.name)
    model: Any = passage.model
    twin = twin_of(model)
    ends: Ends = twin.ends()
    ids = [torch.tensor([part]) for part in (passage.source_ids, passage.read_ids) if part]
    with torch.no_grad():
        given = [table(part) for table, part in zip(ends.embeddings, ids, strict=True)]
        start = [mean_row(table).expand_as(end) for table, end in zip(ends.embeddings, given, strict=True)]
    ways = [end - begin for begin, end in zip(start, given, strict=True)]
    places, shares = gauss_legendre(points, given[0].dtype)
    whole = torch.zeros(len(passage.written_ids), sum(part.shape[1] for part in ids), dtype=torch.float64)
    size = max(1, POSITIONS_AT_ONCE // whole.shape[1])
    for first in range(0, points, size):
        some = slice(first, first + size)
        moved = [begin + places[some, None, None] * way for begin, way in zip(start, ways, strict=True)]

        def told(done: float, first: int = first) -> None:
            if progress:
                progress((first + done * min(size, points - first)) / points)

        whole += _slopes(twin, passage, ends, moved, ways, shares[some], told)
    with torch.no_grad():
        both = [torch.cat([end, begin]) for begin, end in zip(start, given, strict=True)]
        log_probs = _log_probs(twin, passage, ends, both)[0]
    difference = log_probs[0] - log_probs[1]
    gap = (whole.sum(1) - difference).abs()
    numbers = dict(gap=gap.mean(), most=gap.max(), difference=difference.abs().mean())
    said = {name: f"{float(number):.2g}" for name, number in numbers.items()}
    note = Message("note_integrated_gradients", points=points, **said)
    return of_passage(passage, "integrated_gradients", whole.numpy(), Quantity.LOG_PROB_ADDED, [note])


def _slopes(
    twin: nn.Module,
    passage: Passage,
    ends: Ends,
    moved: Sequence[Float[Tensor, "point _ _"]],
    ways: Sequence[Float[Tensor, "1 _ _"]],
    shares: Float[Tensor, " point"],
    told: Progress,
) -> Float[Tensor, "target part"]:
    """Slopes of every written token's log-probability at some points, times the way, summed over them by `shares`."""
    n_written = len(passage.written_ids)
    with torch.enable_grad():
        for each in moved:
            each.requires_grad_()
        log_probs, states = _log_probs(twin, passage, ends, moved)
        if not log_probs.requires_grad:  # a forced token is certain whatever was read
            return torch.zeros(n_written, sum(each.shape[1] for each in moved), dtype=torch.float64)
        (by_state,) = torch.autograd.grad(log_probs.sum(), states, retain_graph=True)  # positions do not mix after it
    rows = []
    for step in range(n_written):
        asked = torch.zeros_like(by_state)
        asked[:, step] = by_state[:, step]
        slopes = torch.autograd.grad(states, moved, asked, retain_graph=True)
        added = [
            torch.einsum("p,pnd,nd->n", shares, slope.double(), way[0].double())
            for slope, way in zip(slopes, ways, strict=True)
        ]
        rows.append(torch.cat(added))
        told((step + 1) / n_written)
    return torch.stack(rows)


def _log_probs(
    twin: nn.Module, passage: Passage, ends: Ends, embedded: Sequence[Float[Tensor, "point _ _"]]
) -> tuple[Float[Tensor, "point target"], Float[Tensor, "point target width"]]:
    """Log-probabilities of the written tokens where tokens are embedded like this, and what scores are made of."""
    fed, states = Fed(list(embedded)), list[Tensor]()
    hooks = [module.register_forward_hook(fed) for module in dict.fromkeys(ends.embeddings)]
    hooks.append(ends.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
    count = len(embedded[0])
    inputs = [torch.tensor([part]).expand(count, -1) for part in (passage.source_ids, passage.read_ids) if part]
    try:
        logits: Tensor = twin(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if fed.left or len(states) != 1:
        raise AttributionError("attribution_embeds_elsewhere", found=type(twin).__name__)
    written = torch.tensor(passage.written_ids).expand(count, -1)[..., None]
    return logits.gather(-1, written)[..., 0].double() - logits.logsumexp(-1).double(), states[0]


def mean_row(table: nn.Module) -> Float[Tensor, "1 1 width"]:
    """The mean embedding of a vocabulary."""
    size: int = table.num_embeddings  # type: ignore[assignment]
    total: Tensor | float = 0.0
    for first in range(0, size, ROWS_AT_ONCE):
        total = total + table(torch.arange(first, min(first + ROWS_AT_ONCE, size))).double().sum(0)
    mean: Tensor = total / size  # type: ignore[assignment]
    return mean.to(next(table.parameters()).dtype)[None, None]


def gauss_legendre(points: int, dtype: torch.dtype) -> tuple[Float[Tensor, " point"], Float[Tensor, " point"]]:
    """Places between 0 and 1, and their shares of the whole."""
    places, shares = np.polynomial.legendre.leggauss(points)
    return torch.tensor((places + 1) / 2, dtype=dtype), torch.tensor(shares / 2, dtype=torch.float64)

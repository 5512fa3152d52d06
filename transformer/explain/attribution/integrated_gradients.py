"""Integrated gradients: what each token adds to the log-probability of each written token, against no token at all.

Every embedding, of the source and of the target prefix, moves along the straight line from the mean of its table's
rows ("no token in particular") to the one given; slopes along the way, times the way, sum to the difference of the
log-probabilities at both tokens. As many points are taken as bring that sum close (`path_integral`): a recurrent net
needs few, since its slopes change slowly; a Transformer hundreds. A row whose sum is not close has no numbers: it is
not what the method says. Needs of a model only where tokens are embedded and where scores are made, so it is defined
for recurrent nets and for other libraries' models too. Source: Sundararajan et al. 2017, "Axiomatic Attribution for
Deep Networks", section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer.errors import NotDefinedError
from transformer.explain.attribution.deletion import Progress
from transformer.explain.attribution.path_integral import FIRST_POINTS, Integral, integral
from transformer.explain.attribution.result import Attribution, causal_visible
from transformer.explain.attribution.scored_sequence import POSITIONS_AT_ONCE, ScoredSequence
from transformer.messages import Message
from transformer.nn.common import share_weights_clone
from transformer.nn.protocols import HasTokenInterface, TokenInterface
from transformer.plots.quantity import Quantity

CLOSE, LEAST = 0.05, 1.0
"""The share of the difference by which the sum of a row may miss it, and the nats that a smaller one counts as."""

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
            raise NotDefinedError("attribution_embeds_elsewhere", found=type(module).__name__)
        return given


@torch.inference_mode(mode=False)
def integrated_gradients(
    sequence: ScoredSequence, points: int | None = None, progress: Progress | None = None
) -> Attribution:
    """Nats that each source token and each token of the prefix adds to each written token's log-probability.

    A row sums to log p(y_t | x, y_<t) less that of the baseline, up to at most the share `CLOSE` of it (a difference
    below `LEAST` nats counts as `LEAST`); a note tells the gap. A row for which that was not reached holds no numbers
    (NaN). With `points`, slopes are taken at just so many, and every row holds what they say, close or not. In both
    cases the answer's name says how many rows did not converge. Costs a forward pass a point, and a backward pass of
    them together for each written token. A twin that shares the model's weights runs, so the model itself has no hooks.

    Raises:
        AttributionError: the model does not say where it embeds and scores tokens, or embeds them more than once; or
            `points` is below 1.
    """
    if not isinstance(sequence.model, HasTokenInterface):
        raise NotDefinedError("attribution_no_embeddings", name=sequence.name)
    model: Any = sequence.model
    twin = share_weights_clone(model)
    tokens: TokenInterface = twin.token_interface()
    ids = [torch.tensor([part]) for part in (sequence.source_ids, sequence.read_ids) if part]
    with torch.no_grad():
        given = [table(part) for table, part in zip(tokens.embeddings, ids, strict=True)]
        start = [mean_row(table).expand_as(end) for table, end in zip(tokens.embeddings, given, strict=True)]
    ways = [end - begin for begin, end in zip(start, given, strict=True)]

    def at(places: Float[Tensor, " point"]) -> list[Float[Tensor, "point _ width"]]:
        where = places[:, None, None].to(given[0].dtype)
        return [torch.lerp(begin, end, where) for begin, end in zip(start, given, strict=True)]

    def values(places: Float[Tensor, " point"]) -> Float[Tensor, "point target"]:
        with torch.no_grad():
            return _log_probs(twin, sequence, tokens, at(places))[0]

    found = integral(
        lambda places, told: _slopes(twin, sequence, tokens, at(places), ways, told),
        values, CLOSE, LEAST, points, max(1, POSITIONS_AT_ONCE // sum(part.shape[1] for part in ids)), progress,
    )  # fmt: skip
    return _answer(sequence, found, kept=points is not None)


def _answer(sequence: ScoredSequence, found: Integral, kept: bool) -> Attribution:
    """The matrix, with what has to be known of its numbers; `kept` keeps those of rows that did not converge."""
    numbers = dict(gap=found.gap.mean(), most=found.gap.max(), difference=found.difference.abs().mean())
    said = {name: f"{float(number):.2g}" for name, number in numbers.items()}
    notes = [Message("note_integrated_gradients", points=found.points, **said)]
    added, failed = found.added, ~found.converged
    setting = None
    if failed.any():
        rows = dict(rows=int(failed.sum()), of=len(failed))
        setting = Message("setting_not_converged", **rows)
        allowed = dict(share=f"{CLOSE:.0%}", least=f"{CLOSE * LEAST:g}")
        notes.append(Message("note_not_converged_kept" if kept else "note_not_converged", **rows, **allowed))
    if not kept:
        added = added.masked_fill(failed[:, None], torch.nan)
    return Attribution(
        method="integrated_gradients",
        steps=sequence.written,
        source=sequence.source,
        prefix=sequence.read,
        values=added.numpy(),
        visible=causal_visible(len(sequence.written), len(sequence.source), len(sequence.read)),
        quantity=Quantity.LOG_PROB_ADDED,
        setting=setting,
        notes=tuple(notes),
    )


def _slopes(
    twin: nn.Module,
    sequence: ScoredSequence,
    tokens: TokenInterface,
    moved: Sequence[Float[Tensor, "point _ _"]],
    ways: Sequence[Float[Tensor, "1 _ _"]],
    told: Progress,
) -> Float[Tensor, "point target part"]:
    """Slopes of every written token's log-probability at some points, times the way."""
    n_written = len(sequence.written_ids)
    with torch.enable_grad():
        for each in moved:
            each.requires_grad_()
        log_probs, states = _log_probs(twin, sequence, tokens, moved)
        if not log_probs.requires_grad:  # a forced token is certain whatever was read
            n_parts = sum(each.shape[1] for each in moved)
            return torch.zeros(len(moved[0]), n_written, n_parts, dtype=torch.float64)
        (by_state,) = torch.autograd.grad(log_probs.sum(), states, retain_graph=True)  # positions do not mix after it
    rows = []
    for step in range(n_written):
        asked = torch.zeros_like(by_state)
        asked[:, step] = by_state[:, step]
        slopes = torch.autograd.grad(states, moved, asked, retain_graph=True)
        added = [(slope.double() * way.double()).sum(-1) for slope, way in zip(slopes, ways, strict=True)]
        rows.append(torch.cat(added, dim=1))
        told((step + 1) / n_written)
    return torch.stack(rows, dim=1)


def _log_probs(
    twin: nn.Module, sequence: ScoredSequence, tokens: TokenInterface, embedded: Sequence[Float[Tensor, "point _ _"]]
) -> tuple[Float[Tensor, "point target"], Float[Tensor, "point target width"]]:
    """Log-probabilities of the written tokens where tokens are embedded like this, and what scores are made of."""
    fed, states = Fed(list(embedded)), list[Tensor]()
    hooks = [module.register_forward_hook(fed) for module in dict.fromkeys(tokens.embeddings)]
    hooks.append(tokens.projection.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
    count = len(embedded[0])
    inputs = [torch.tensor([part]).expand(count, -1) for part in (sequence.source_ids, sequence.read_ids) if part]
    try:
        logits: Tensor = twin(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if fed.left or len(states) != 1:
        raise NotDefinedError("attribution_embeds_elsewhere", found=type(twin).__name__)
    written = torch.tensor(sequence.written_ids).expand(count, -1)[..., None]
    return logits.gather(-1, written)[..., 0].double() - logits.logsumexp(-1).double(), states[0]


def usual_points(model: Any) -> int:
    """About how many points a sentence needs: measured on captions with the shipped translators."""
    return FIRST_POINTS if model.abilities.recurrent else 256


def mean_row(table: nn.Module) -> Float[Tensor, "1 1 width"]:
    """The mean embedding of a vocabulary."""
    size: int = table.num_embeddings  # type: ignore[assignment]
    total: Tensor | float = 0.0
    for first in range(0, size, ROWS_AT_ONCE):
        total = total + table(torch.arange(first, min(first + ROWS_AT_ONCE, size))).double().sum(0)
    mean: Tensor = total / size  # type: ignore[assignment]
    return mean.to(next(table.parameters()).dtype)[None, None]

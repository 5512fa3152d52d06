"""Input of every attribution method: a model, source and prefix tokens, and the target tokens to explain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer.errors import AttributionError, NotDefinedError
from transformer.nn.protocols import Abilities, HasHiddenStates
from transformer.plots.axes import Axis

POSITIONS_AT_ONCE = 4_096
"""Positions, source and target together, that share one forward pass."""


@dataclass(frozen=True, eq=False)
class ScoredSequence:
    """A source, and a target whose every token was written after reading the source and the tokens before it.

    `read_ids` is what the decoder had read by each step: the start token, then what was written. A model without a
    source has no `source_ids`. Ids of -1 say that a vocabulary has none for what it does not know.

    Raises:
        AttributionError: nothing was written.
    """

    name: str
    model: Any
    source_ids: tuple[int, ...]
    read_ids: tuple[int, ...]
    written_ids: tuple[int, ...]
    source: Axis
    read: Axis
    written: Axis
    unknown_source_id: int = -1
    unknown_target_id: int = -1

    def __post_init__(self) -> None:
        if not self.written_ids:
            raise AttributionError("attribution_nothing_written")

    @property
    def abilities(self) -> Abilities:
        """What the model can do."""
        found: Abilities = self.model.abilities
        return found

    def log_probs(
        self,
        sources: Sequence[Sequence[int]],
        reads: Sequence[Sequence[int]],
        shown: Bool[Tensor, "row source"] | None = None,
        shown_read: Bool[Tensor, "row target"] | None = None,
        wanted: Bool[Tensor, "row target"] | None = None,
    ) -> Float[Tensor, "row target"]:
        """Natural log-probabilities of the written tokens, once a row, each with a source and a prefix of its own.

        All sources are of one length, all prefixes as long as what was written. Where `shown` (`shown_read`) is False,
        no attention sees that position. Where `wanted` is given, only those are looked up; the others are NaN.

        Raises:
            AttributionError: the model cannot hide positions.
        """
        hiding = shown is not None or shown_read is not None
        if hiding and not self.abilities.hides:
            raise NotDefinedError("attribution_cannot_hide", name=self.name)
        written = torch.tensor(self.written_ids)
        found = []
        at_once = max(1, POSITIONS_AT_ONCE // (len(sources[0]) + len(self.read_ids)))
        for start in range(0, len(sources), at_once):
            rows = slice(start, start + at_once)
            inputs = [torch.tensor(list(part[rows])) for part in ((sources, reads) if self.source_ids else (reads,))]
            hidden = (shown, shown_read) if self.source_ids else (shown_read,)
            masks = [None if table is None else table[rows] for table in hidden] if hiding else []
            with torch.no_grad():
                found.append(self._looked_up(inputs + masks, written, None if wanted is None else wanted[rows]))
        return torch.cat(found)

    def _looked_up(
        self,
        inputs: Sequence[Tensor | None],
        written: Int[Tensor, " target"],
        wanted: Bool[Tensor, "row target"] | None,
    ) -> Float[Tensor, "row target"]:
        """Log-probabilities of the written tokens; a large vocabulary costs more than the layers, so only as wanted."""
        if wanted is None or not isinstance(self.model, HasHiddenStates):
            logits = self.model(*inputs)
            chosen = logits.gather(-1, written.expand(len(logits), -1)[..., None])[..., 0]
            return chosen.double() - logits.logsumexp(-1).double()
        logits = self.model.logits(self.model.hidden(*inputs)[wanted][None])[0]
        chosen = logits.gather(-1, written.expand(wanted.shape)[wanted][:, None])[:, 0]
        found = torch.full(wanted.shape, torch.nan, dtype=torch.float64)
        found[wanted] = chosen.double() - logits.logsumexp(-1).double()
        return found


@dataclass(frozen=True, eq=False)
class Reading:
    """A text that a model without a target read: an encoder, or a k-mer classifier, whose positions are windows.

    `axis` says what stands at each position of its attention. `causal` says that none sees a later one.
    """

    name: str
    model: Any
    ids: tuple[int, ...]
    axis: Axis
    causal: bool = False


Asked = ScoredSequence | Reading
"""What a method is asked about."""

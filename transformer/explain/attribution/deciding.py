"""Which source word decided a written one: that without which it loses most, to be held against what a head looked at.

Attention says what was read, deletion what the written word needs. Source: Jain and Wallace 2019, "Attention is not
explanation", section 4, who compare the two by leaving one input out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from transformer.explain.attribution.result import Attribution

DECIDED = 1.0
"""A source word decides a written one if its removal costs more than this many nats of log-probability."""


@dataclass(frozen=True, eq=False)
class Deciding:
    """For each written word the source word that decides it, as a column, and the most that it loses (nats).

    -1 where none decides it. A special token neither decides nor is decided. `needed` is for each source word the most
    that any written word loses without it; 0 for special tokens.
    """

    columns: Int[np.ndarray, " step"]
    lost: Float[np.ndarray, " step"]
    needed: Float[np.ndarray, " part"]

    def hits(self, weights: Float[np.ndarray, "step key"]) -> tuple[int, int]:
        """In how many rows the largest weight stands on the word that decides the row, and how many are decided."""
        decided = self.columns >= 0
        return int((weights.argmax(axis=1) == self.columns)[decided].sum()), int(decided.sum())


def deciding(answer: Attribution) -> Deciding:
    """What decides each step of `answer`, which is a deletion's."""
    return deciding_of(answer.of_source, answer.steps.special, answer.source.special)


def deciding_of(
    lost: Float[np.ndarray, "step part"],
    steps_special: Sequence[bool],
    parts_special: Sequence[bool],
    least: float = DECIDED,
) -> Deciding:
    """The same of losses by step and part, in nats; NaN where a loss is not known."""
    counted = np.where(np.isnan(lost) | np.array(parts_special, dtype=bool), -np.inf, lost)
    most = counted.max(axis=1, initial=-np.inf)
    decided = (most > least) & ~np.array(steps_special, dtype=bool)
    columns = counted.argmax(axis=1) if counted.shape[1] else np.zeros(len(counted), dtype=int)
    written = counted[~np.array(steps_special, dtype=bool)].max(axis=0, initial=0.0)
    return Deciding(np.where(decided, columns, -1), most, written)

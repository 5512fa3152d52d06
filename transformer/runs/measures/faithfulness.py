"""How far methods of attribution can be trusted over a corpus: means over all written words of its sentences."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.deletion import PERCENTS, Trust
from transformer.explain.attribution.methods import DELETION
from transformer.runs.attribution import every_question, trusted
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import translate


@dataclass(frozen=True)
class Fare:
    """How one method fared on some sentences: means over written words, nats; `share` is of deletion's area there.

    `words` and `sentences` count those that it ranks.
    """

    comprehensiveness: tuple[float, ...]
    sufficiency: tuple[float, ...]
    area: float
    share: float
    spearman: float
    words: int
    sentences: int


@dataclass(frozen=True)
class Faithfulness:
    """The summary of a run: whether targets were written by the model or given, and each fare."""

    own_target: bool
    fares: dict[str, Fare] = field(metadata={"key": "methods"})


def measured(checkpoint: Checkpoint, pairs: Iterable[tuple[str, str | None]]) -> tuple[dict[str, Fare], int]:
    """How each method fares on lines and their targets, and how many lines could not be run (empty, or too long).

    A target is walked through; without one, what the model writes.

    Raises:
        InputError: no line could be run.
        AttributionError: the model has no source that words can be taken from.
        CheckpointError: the checkpoint does not translate.
    """
    found, failed = defaultdict[str, list[Trust]](list), 0
    for source, target in pairs:
        try:
            translation = translate(checkpoint, source, forced=target)
            each = trusted(checkpoint, translation, every_question(checkpoint, translation))
        except InputError:
            failed += 1
            continue
        for method, one in each.items():
            found[method].append(one)
    if not found:
        raise InputError("faithfulness_empty", failed=failed)
    best = _mean(found[DELETION.name], "comprehensiveness").mean()
    fares = {}
    for method, trusts in found.items():
        if not any(one.rows for one in trusts):
            continue
        kept, correlated = _mean(trusts, "comprehensiveness"), sum(one.correlated for one in trusts)
        fares[method] = Fare(
            comprehensiveness=tuple(kept.tolist()),
            sufficiency=tuple(_mean(trusts, "sufficiency").tolist()),
            area=float(kept.mean()),
            share=float(kept.mean() / best),
            spearman=sum(one.spearman for one in trusts) / correlated if correlated else float("nan"),
            words=sum(one.rows for one in trusts),
            sentences=sum(one.rows > 0 for one in trusts),
        )
    return fares, failed


def _mean(each: Sequence[Trust], name: str) -> np.ndarray:
    """The mean over all written words of some sentences."""
    total: np.ndarray = sum(getattr(one, name) for one in each) / sum(one.rows for one in each)
    return total


def _checked(found: Faithfulness) -> Faithfulness:
    if "random" not in found.fares or not all(np.isfinite([one.area, one.share]).all() for one in found.fares.values()):
        raise ValueError("nothing to compare with, or an area that is no number")
    return found


FILE = MeasureFile("faithfulness.json", "faithfulness", Faithfulness, _checked, {}, {"percents": PERCENTS})
shipped = FILE.beside

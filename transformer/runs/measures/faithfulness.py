"""How far methods of attribution can be trusted over a corpus: means over written words, the same for every method."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ...checkpoint.checkpoint import Checkpoint
from ...errors import InputError
from ...explain.attribution.deletion import PERCENTS, Trust, deletion_name, written_words
from ..attribution import trusted, usual_deletion
from ..translate import translate
from .files import MeasureFile


@dataclass(frozen=True)
class Fare:
    """How one method fared: means over written words, nats; `share` is of the reference's area on the same words."""

    comprehensiveness: tuple[float, ...]
    sufficiency: tuple[float, ...]
    area: float
    share: float
    spearman: float


@dataclass(frozen=True)
class Faithfulness:
    """The summary of a run: what `data` it read, and how each method fared on the same `words` of all its `sentences`.

    `own_target` says whether targets were written by the model or given. `reference` names the kind of deletion that
    the others are compared with: against itself it says nothing.
    """

    data: str
    own_target: bool
    sentences: int
    words: int
    reference: str
    fares: dict[str, Fare] = field(metadata={"key": "methods"})


def measured(
    checkpoint: Checkpoint, pairs: Iterable[tuple[str, str | None]], data: str, every: int = 1
) -> tuple[Faithfulness, int]:
    """How each method fares on lines of `data` and their targets; and how many lines could not be run (too long, say).

    A target is walked through; without one, what the model writes. Of all written words, one in `every` is asked for,
    and counts if every method has numbers there that has any at all.

    Raises:
        InputError: no line could be run.
        AttributionError: the model has no source that words can be taken from.
        CheckpointError: the checkpoint does not translate.
    """
    found, run, failed, seen, own = defaultdict[str, list[Trust]](list), 0, 0, 0, True
    for source, target in pairs:
        try:
            translation = translate(checkpoint, source, forced=target)
            words = written_words(translation.scored_sequence(checkpoint))
            chosen = [word for number, word in enumerate(words, seen) if number % every == 0]
            each = trusted(checkpoint, translation, chosen) if chosen else {}
        except InputError:
            failed += 1
            continue
        run, seen, own = run + 1, seen + len(words), own and target is None
        for method, one in each.items():
            found[method].append(one)
    parts = ("comprehensiveness", "sufficiency", "spearman")
    tables = {
        method: [np.concatenate([getattr(one, part) for one in each]) for part in parts]
        for method, each in found.items()
    }
    known = {method: ~np.isnan(kept).any(1) for method, (kept, *_) in tables.items()}
    ranked = {method: rows for method, rows in known.items() if rows.any()}
    counted = np.logical_and.reduce([*ranked.values()]) if ranked else np.zeros(0, bool)
    if not counted.any():
        raise InputError("faithfulness_empty", failed=failed)
    reference = deletion_name(usual_deletion(checkpoint))
    best, fares = tables[reference][0][counted].mean(), {}
    for method in ranked:
        kept, alone, correlations = (table[counted] for table in tables[method])
        defined = correlations[~np.isnan(correlations)]
        fares[method] = Fare(
            comprehensiveness=tuple(kept.mean(0).tolist()),
            sufficiency=tuple(alone.mean(0).tolist()),
            area=float(kept.mean()),
            share=float(kept.mean() / best),
            spearman=float(defined.mean()) if len(defined) else float("nan"),
        )
    return Faithfulness(data, own, run, int(counted.sum()), reference, fares), failed


def _checked(found: Faithfulness) -> Faithfulness:
    known = all(np.isfinite([one.area, one.share]).all() for one in found.fares.values())
    if not known or not {"random", found.reference} <= set(found.fares):
        raise ValueError("nothing to compare with, or an area that is no number")
    return found


FILE = MeasureFile("faithfulness.json", "faithfulness", Faithfulness, _checked, {}, {"percents": PERCENTS})
shipped = FILE.beside

"""How far methods of attribution can be trusted over a corpus: means over all written words of its sentences."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.trust import PERCENTS, Trust
from transformer.runs.attribution import every_question, trusted
from transformer.runs.measures import files
from transformer.runs.translate import translate

SUMMARY = "faithfulness.json"
"""What the summary of a run is called beside a checkpoint."""


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
    fares: dict[str, Fare]


def measured(
    checkpoint: Checkpoint,
    pairs: Iterable[tuple[str, str | None]],
    only: Collection[str] | None = None,
    done: Callable[[], object] = lambda: None,
) -> tuple[dict[str, Fare], int]:
    """How each method fares on lines and their targets, and how many lines could not be run (empty, or too long).

    A target is walked through; without one, what the model writes. `only` names the methods; `done` is called after
    each line.

    Raises:
        InputError: no line could be run.
        AttributionError: the model has no source that words can be taken from.
        CheckpointError: the checkpoint does not translate.
    """
    found, failed = defaultdict[str, list[Trust]](list), 0
    for source, target in pairs:
        try:
            translation = translate(checkpoint, source, forced=target)
            each = trusted(checkpoint, translation, every_question(checkpoint, translation, only))
        except InputError:
            failed += 1
        else:
            for method, one in each.items():
                found[method].append(one)
        done()
    if not found:
        raise InputError("faithfulness_empty", failed=failed)
    best = _mean(found["deletion"], "comprehensiveness").mean()
    return {method: _fare_of(each, best) for method, each in found.items() if any(one.rows for one in each)}, failed


def _fare_of(each: Sequence[Trust], best: float) -> Fare:
    """The means over all written words of some sentences; `best` is the area of deletion."""
    kept, correlated = _mean(each, "comprehensiveness"), sum(one.correlated for one in each)
    return Fare(
        comprehensiveness=tuple(kept.tolist()),
        sufficiency=tuple(_mean(each, "sufficiency").tolist()),
        area=float(kept.mean()),
        share=float(kept.mean() / best),
        spearman=sum(one.spearman for one in each) / correlated if correlated else float("nan"),
        words=sum(one.rows for one in each),
        sentences=sum(one.rows > 0 for one in each),
    )


def _mean(each: Sequence[Trust], name: str) -> np.ndarray:
    total: np.ndarray = sum(getattr(one, name) for one in each) / sum(one.rows for one in each)
    return total


def updated(before: Faithfulness, found: Faithfulness, methods: Collection[str]) -> Faithfulness:
    """`before` with what was found of some methods, and without those of them that ranked no word now."""
    kept = {name: fare for name, fare in before.fares.items() if name.split(".")[0] not in methods}
    new = {name: fare for name, fare in found.fares.items() if name not in kept}
    return Faithfulness(found.own_target, kept | new)


def saved(found: Faithfulness, path: Path) -> None:
    """Write a summary as JSON; what is not defined is null."""
    fares = {method: {name: _rounded(value) for name, value in asdict(fare).items()} for method, fare in
             found.fares.items()}  # fmt: skip
    files.write(path, {"own_target": found.own_target, "percents": PERCENTS, "methods": fares})


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return [round(one, 4) for one in value]
    return value if isinstance(value, int) else None if np.isnan(value) else round(value, 4)


def shipped(checkpoint: Checkpoint) -> Faithfulness | None:
    """The summary that lies beside a checkpoint, if any; as `files.beside`."""
    return files.beside(checkpoint, SUMMARY, read)


def read(path: Path) -> Faithfulness:
    """A summary that was written; as `files.read`."""
    return files.read(path, _summary, "faithfulness")


def _summary(whole: Any) -> Faithfulness:
    fares = {str(method): _fare(fare) for method, fare in whole["methods"].items()}
    if "random" not in fares:
        raise ValueError("nothing to compare with")
    return Faithfulness(bool(whole["own_target"]), fares)


def _fare(about: Any) -> Fare:
    """One method of a summary."""
    return Fare(
        comprehensiveness=tuple(float(value) for value in about["comprehensiveness"]),
        sufficiency=tuple(float(value) for value in about["sufficiency"]),
        area=float(about["area"]),
        share=float(about["share"]),
        spearman=float("nan") if about["spearman"] is None else float(about["spearman"]),
        words=int(about["words"]),
        sentences=int(about["sentences"]),
    )

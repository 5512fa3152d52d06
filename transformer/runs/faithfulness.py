"""How far methods of attribution can be trusted over a corpus: a table with a row a sentence and method, and its sums.

Of a classifier a sentence is a sequence, of which the class that it finds is asked. The table is written sentence by
sentence, so that a run that was stopped goes on where it was.
"""

import csv
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer.attribution.trust import PERCENTS, Trust
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.safe.refusal import refused
from transformer.errors import CheckpointError, InputError
from transformer.messages import Message
from transformer.runs.attribution import every_question, trusted
from transformer.runs.sequences.classify import classify
from transformer.runs.sequences.trust import letter_scores, letter_trust
from transformer.runs.translate import translate

COLUMNS = (
    "sentence",
    "method",
    "rows",
    *(f"comprehensiveness_{percent}" for percent in PERCENTS),
    *(f"sufficiency_{percent}" for percent in PERCENTS),
    "spearman",
    "correlated",
)
"""Sums over the written words (`rows`) of a sentence, in nats; `spearman` is summed over the `correlated` ones.

`sentence` is the number of its line in the file that was read, from 0.
"""

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


def measure(
    checkpoint: Checkpoint,
    sources: Sequence[str],
    targets: Sequence[str] | None,
    table: Path,
    numbers: Sequence[int] | None = None,
    only: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Measure every method on every line and write `table` (CSV); lines that it holds already are not run again.

    `targets` are walked through; without them, the model's own translations are. `numbers` are those of the lines to
    run, `only` names the methods. `progress` is told lines done and in all. Returns how many lines could not be run
    (empty, or too long).

    Raises:
        InputError: `table` is of something else.
        AttributionError: the model has no source that words can be taken from.
    """
    done, failed = _resumed(table), 0
    numbers = range(len(sources)) if numbers is None else numbers
    for count, number in enumerate(numbers, 1):
        if number not in done:
            try:
                forced = None if targets is None else targets[number]
                translation = translate(checkpoint, sources[number], forced=forced)
            except InputError:
                failed += 1
            else:
                asked = every_question(checkpoint, translation, only)
                _append(table, number, trusted(checkpoint, translation, asked))
        if progress:
            progress(count, len(numbers))
    return failed


def measure_sequences(
    checkpoint: Checkpoint,
    sequences: Sequence[str],
    table: Path,
    numbers: Sequence[int] | None = None,
    only: Collection[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """The same of a classifier, for the class that it finds in each sequence; as `measure`, in log-odds.

    Raises:
        InputError: `table` is of something else.
        CheckpointError: the checkpoint does not classify sequences.
    """
    done, failed = _resumed(table), 0
    numbers = range(len(sequences)) if numbers is None else numbers
    for count, number in enumerate(numbers, 1):
        if number not in done:
            try:
                run = classify(checkpoint, sequences[number])
                scores = letter_scores(checkpoint, run, run.predicted, only)
            except InputError:
                failed += 1
            else:
                _append(table, number, letter_trust(checkpoint, run, scores, run.predicted))
        if progress:
            progress(count, len(numbers))
    return failed


def summarised(table: Path, own_target: bool, reference: str = "deletion") -> Faithfulness:
    """The sums of a table, as means over all written words (of a classifier: sequences).

    `reference` is the method whose area the others' is a share of.

    Raises:
        InputError: `table` is of something else, or holds no sentence.
    """
    sums: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS) - 2))
    sentences: dict[str, int] = defaultdict(int)
    for row in _rows(table):
        sentences[row[1]] += row[2] != "0"
        sums[row[1]] += [float(cell) for cell in row[2:]]
    if not sentences:
        raise InputError("faithfulness_empty", file=str(table))
    n, fares = len(PERCENTS), {}
    best = sums[reference][1 : 1 + n].mean() / sums[reference][0]
    for method, total in sums.items():
        if not total[0]:
            continue  # nowhere defined
        kept = (total[1 : 1 + n] / total[0]).tolist()
        area = float(np.mean(kept))
        fares[method] = Fare(
            comprehensiveness=tuple(kept),
            sufficiency=tuple((total[1 + n : 1 + 2 * n] / total[0]).tolist()),
            area=area,
            share=area / float(best),
            spearman=float(total[-2] / total[-1]) if total[-1] else float("nan"),
            words=int(total[0]),
            sentences=sentences[method],
        )
    return Faithfulness(own_target, fares)


def updated(before: Faithfulness, found: Faithfulness, methods: Collection[str]) -> Faithfulness:
    """`before` with what was found of some methods, and without those of them that ranked no word now."""
    kept = {name: fare for name, fare in before.fares.items() if name.split(".")[0] not in methods}
    new = {name: fare for name, fare in found.fares.items() if name not in kept}
    return Faithfulness(found.own_target, kept | new)


def saved(found: Faithfulness, path: Path) -> None:
    """Write a summary as JSON; what is not defined is null."""
    fares = {
        method: {
            "sentences": fare.sentences,
            "words": fare.words,
            "comprehensiveness": [round(value, 4) for value in fare.comprehensiveness],
            "sufficiency": [round(value, 4) for value in fare.sufficiency],
            "area": round(fare.area, 4),
            "share": round(fare.share, 4),
            "spearman": None if np.isnan(fare.spearman) else round(fare.spearman, 4),
        }
        for method, fare in found.fares.items()
    }
    whole = {"own_target": found.own_target, "percents": PERCENTS, "methods": fares}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def shipped(checkpoint: Checkpoint) -> Faithfulness | None:
    """The summary that lies beside a checkpoint; None where nobody measured it, or for weights of another moment.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = checkpoint.beside(SUMMARY)
    return None if path is None else read(path)


def read(path: Path) -> Faithfulness:
    """A summary that was written.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        fares = {str(method): _fare(fare) for method, fare in whole["methods"].items()}
        found = Faithfulness(bool(whole["own_target"]), fares)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise _damaged(path) from error
    if "random" not in fares:
        raise _damaged(path)
    return found


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


def _damaged(path: Path) -> CheckpointError:
    return refused("no_faithfulness", f"{path.parent.name}/{path.name}", Message("remedy_measure_faithfulness"))


def _append(table: Path, number: int, found: dict[str, Trust]) -> None:
    """All rows of one sentence in one write, so that a run that is stopped leaves whole sentences."""
    lines = []
    for method, one in found.items():
        numbers = [*one.comprehensiveness, *one.sufficiency, one.spearman]
        cells = [f"{value:.6g}" for value in numbers]
        lines.append(",".join([str(number), method, str(one.rows), *cells, str(one.correlated)]))
    with table.open("a", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def _resumed(table: Path) -> set[int]:
    """Lines that the table holds; a last line that was cut off is dropped with its sentence, a new table begins."""
    if not table.exists():
        table.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
        return set()
    text = table.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        whole = text[: text.rfind("\n") + 1]
        last = text[len(whole) :].split(",")[0]
        kept = [line for line in whole.splitlines() if line.split(",")[0] != last]
        table.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    return {int(row[0]) for row in _rows(table)}


def _rows(table: Path) -> list[list[str]]:
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    if not rows or tuple(rows[0]) != COLUMNS or any(len(row) != len(COLUMNS) for row in rows):
        raise InputError("faithfulness_other_table", file=str(table))
    return rows[1:]

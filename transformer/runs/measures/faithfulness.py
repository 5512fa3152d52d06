"""How far methods of attribution can be trusted over a corpus: a table with a row a sentence and method, and its sums.

The table is written sentence by sentence, so that a run that was stopped goes on where it was.
"""

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
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


Measured = Callable[[int], dict[str, Trust]]
"""What every method is worth on the line with this number."""


def of_sentences(
    checkpoint: Checkpoint, sources: Sequence[str], targets: Sequence[str] | None, only: Collection[str] | None = None
) -> Measured:
    """Of lines that a model translates: `targets` are walked through, or what it writes; `only` names the methods."""

    def measured(number: int) -> dict[str, Trust]:
        forced = None if targets is None else targets[number]
        translation = translate(checkpoint, sources[number], forced=forced)
        return trusted(checkpoint, translation, every_question(checkpoint, translation, only))

    return measured


def measure(measured: Measured, table: Path, numbers: Sequence[int], done: Callable[[], object] = lambda: None) -> int:
    """Measure the lines with these numbers and write `table` (CSV); those that it holds already are not run again.

    `done` is called after each line. Returns how many lines could not be run (empty, or too long).

    Raises:
        InputError: `table` is of something else.
        AttributionError: the model has no source that words can be taken from.
        CheckpointError: the checkpoint does not translate.
    """
    known, failed = _resumed(table), 0
    for number in numbers:
        if number not in known:
            try:
                found = measured(number)
            except InputError:
                failed += 1
            else:
                _append(table, number, found)
        done()
    return failed


def summarised(table: Path, own_target: bool, reference: str = "deletion") -> Faithfulness:
    """The sums of a table, as means over all written words.

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

"""Axes and texts in the table of a record file."""

from itertools import pairwise
from typing import Any

from transformer.attention.record_files.contents import MOST_POSITIONS
from transformer.attention.record_files.entries import Entry
from transformer.messages import Message, parts
from transformer.plots.axes import Axis
from transformer.safe.names import is_text


def written_text(text: str) -> Any:
    """A text as JSON; a message keeps its code and fields, so that it is said in the reader's language."""
    if isinstance(text, Message):
        return {**parts.packed(text), "text": str(text)}
    return str(text)


def written_axis(axis: Axis) -> dict[str, Any]:
    """An axis as JSON. Words are left out where each position is one, special positions where there are none."""
    written: dict[str, Any] = {"name": written_text(axis.name), "texts": [written_text(text) for text in axis.texts]}
    if axis.words != tuple(range(len(axis))):
        written["words"] = list(axis.words)
    if any(axis.special):
        written["special"] = [i for i, special in enumerate(axis.special) if special]
    if axis.grid is not None:
        written["grid"] = list(axis.grid)
    return written


def read_axis(entry: Entry) -> Axis:
    """An axis of a file.

    Raises:
        CheckpointError: it is none.
    """
    entry.table("name", "texts", "words", "special", "grid")
    texts = _texts(entry.at("texts"))
    count = len(texts)
    words = range(count) if entry.at("words").is_missing else entry.at("words").counts(MOST_POSITIONS, count)
    if len(words) != count or any(later < word for word, later in pairwise(words)):
        entry.at("words").wrong(Message("expected_words", count=count))
    special = set() if entry.at("special").is_missing else set(entry.at("special").counts(count - 1, count))
    grid = None if entry.at("grid").is_missing else entry.at("grid").counts(count, 2)
    if grid is not None and (len(grid) != 2 or not 1 <= grid[0] * grid[1] <= count):
        entry.at("grid").wrong(Message("expected_grid", count=count))
    marks = tuple(i in special for i in range(count))
    return Axis(entry.at("name").said(), texts, tuple(words), marks, None if grid is None else (grid[0], grid[1]))


def _texts(entry: Entry) -> tuple[str, ...]:
    """The texts of all positions; plain ones are checked together."""
    values = entry.value
    if isinstance(values, list) and 0 < len(values) <= MOST_POSITIONS and all(type(text) is str for text in values):
        if not is_text("".join(values)):
            entry.wrong(Message("expected_text"))
        return tuple(values)
    return tuple(item.said() for item in entry.items(MOST_POSITIONS, 1))

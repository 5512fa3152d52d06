"""A search for answers about an untrusted file, in a worker process."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from transformer.checkpoint.inspect.search import MOST_TRIED, Search
from transformer.checkpoint.worker import wire_format
from transformer.checkpoint.worker.answers import answers_of, garbled
from transformer.checkpoint.worker.pool import Budget
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.messages.parts import NoMessageError, unpacked
from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits

MEMORY, SECONDS = 1024 * MEGABYTE, 120
"""The floor of what a search may take in a worker, and the processor time after which it ends with what it has."""


def find_answers(
    contents: Contents,
    expected: Contents,
    given: Mapping[str, Any],
    on_progress: Callable[[float], None],
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Search:
    """As `runs.check.find_answers`, of files that were read; `on_progress` may raise to stop it.

    Raises:
        CheckpointError: it takes too much memory, or what is expected cannot be compared.
    """
    described, memory = wire_format.packed(contents.tensors)
    arrays, more = wire_format.packed(expected.tensors)
    asked: dict[str, Any] = {
        "source": contents.source,
        "weights": described,
        "settings": dict(contents.settings),
        "given": dict(given),
    }
    asked |= {"name": expected.source, "arrays": arrays, "format": expected.format, "split": len(memory)}
    size, done = sum(map(len, (*memory, *more))), [0.0]
    answers = answers_of(
        "answers",
        contents.source,
        {**asked, "limits": asdict(limits), "seconds": SECONDS},
        [*memory, *more],
        budget=Budget.of(2 * size, MEMORY, 2 * SECONDS),
        on_tick=lambda: on_progress(done[0]),
    )
    with closing(answers):
        for answer in answers:
            try:
                if "found" in answer.header:
                    return _search(answer.header, contents.source)
                done[0] = _share(answer.header.get("done"))
            except (GarbledError, NoMessageError) as error:
                raise garbled(contents.source, GarbledError(str(error))) from error
            on_progress(done[0])
    raise garbled(contents.source, GarbledError("a search without an end"))


def _share(told: Any) -> float:
    if not isinstance(told, float) or not 0 <= told <= 1:
        raise GarbledError("no share of a search")
    return told


def _search(told: Mapping[str, Any], source: str) -> Search:
    """The end of a search; its answers are held against the questions once they are given."""
    found, tried, is_complete, nearest = (told.get(name) for name in ("found", "tried", "is_complete", "nearest"))
    if type(tried) is not int or not 0 <= tried <= MOST_TRIED or not isinstance(is_complete, bool):
        raise GarbledError("no numbers of a search")
    tables: list[Any] = found if isinstance(found, list) and len(found) <= tried else [None]
    plain = (isinstance(one, dict) and all(isinstance(x, str | int | float) for x in one.values()) for one in tables)
    if not all(plain):
        raise GarbledError("no answers of a search")
    return Search(source, tuple(tables), tried, is_complete, "" if nearest is None else unpacked(nearest))

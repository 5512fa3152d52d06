"""The answers of a job: from a worker process where the system has them, otherwise worked out here."""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from transformer.checkpoint.worker import jobs, wire_format
from transformer.checkpoint.worker.pool import POSSIBLE, WORKERS, Answer, Budget
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.errors import CheckpointError
from transformer.safe.refusal import refused


def only(answers: Iterator[Answer], source: str) -> Answer:
    """The one part of a job that has one."""
    found = list(answers)
    if len(found) != 1:
        raise garbled(source, GarbledError(f"{len(found)} parts"))
    return found[0]


def answers_of(
    job: str,
    source: str,
    request: Mapping[str, Any],
    blocks: list[Any] | None = None,
    *,
    budget: Budget,
    most_bytes: int = 0,
    other_library: bool = False,
) -> Generator[Answer, None, None]:
    """The parts of a job's answer, from a worker where the system has them, else worked out here."""
    if POSSIBLE:
        yield from WORKERS.answers(
            job, source, request, blocks or (),
            budget=budget, most_bytes=most_bytes, other_library=other_library,
        )  # fmt: skip
        return
    held = [bytearray(b"".join(wire_format.chunks(block))) for block in blocks or ()]
    for header, found in jobs.JOBS[job](request, held):
        yield Answer(header, [bytearray(block) for block in found])


def garbled(source: str, error: GarbledError) -> CheckpointError:
    """How an answer is refused that cannot be of the job."""
    return refused("worker_garbled", source, said=str(error))

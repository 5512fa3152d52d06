"""A worker that stays answers one request after another; what goes wrong costs one answer, and the next is right."""

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.worker.test_pool import COMMAND, framed, gone
from tests.checkpoint.worker.test_remote_tokenizer import some_tokenizer
from transformer.checkpoint.worker import pool, resident, template
from transformer.checkpoint.worker.pool import Budget, GaveUpError, Workers
from transformer.checkpoint.worker.resident import Resident
from transformer.errors import CheckpointError
from transformer.safe.limits import MEGABYTE

SMALL = Budget(memory_bytes=64 * MEGABYTE, seconds=1)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(COMMAND, most=2)
    yield made
    made.close()


@pytest.fixture
def keep(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Resident]]:
    monkeypatch.setattr(resident, "ASK_SECONDS", 1)
    made = list[Resident]()

    def make(kept: int = 7, **request: Any) -> Resident:
        made.append(Resident("keep", "a.model", {"kept": kept, **request}, budget=SMALL, workers=workers))
        return made[-1]

    yield make
    for one in made:
        one.leave()


def pid(one: Resident) -> int:
    return int(one.ask({"do": "pid"})["found"])


def worked(workers: Workers) -> float:
    """Processor seconds of the workers that have ended."""
    times = Path(f"/proc/{workers.plain.pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def test_it_answers_from_the_same_worker(keep: Callable[..., Resident]) -> None:
    one = keep(41)
    assert one.start()["kept"] == 41
    first = pid(one)
    assert [one.ask({"do": "add", "value": i})["found"] for i in range(50)] == [41 + i for i in range(50)]
    assert pid(one) == first
    with pytest.raises(CheckpointError, match="5"):
        one.ask({"do": "refuse", "value": 5})
    assert pid(one) == first  # a refusal is an answer


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"do": "spin"}, "took more than 1 s of work"),
        ({"do": "memory"}, "took more than 64 MB of memory"),
        ({"do": "die"}, "ended with status 768"),
        ({"do": "absent"}, "not foreseen .*KeyError"),
        ({"do": "raw", "hex": framed(b"no json")}, "not understood"),
        ({"do": "raw", "hex": framed(b'{"kind": "done", "blocks": [7]}') + "00" * 7}, "not understood"),
        ({"do": "raw", "hex": framed(b'{"kind": "surprise", "blocks": []}')}, "not understood"),
    ],
    ids=str,
)
def test_what_goes_wrong_costs_one_answer(
    keep: Callable[..., Resident], workers: Workers, request_: dict[str, Any], why: str
) -> None:
    one = keep(3)
    one.start()
    before, others = pid(one), worked(workers)
    if request_["do"] == "raw":
        one.ask(request_)  # the message after this answer is the one
    with pytest.raises(GaveUpError, match=why):
        one.ask(request_)
    assert gone(before)
    assert worked(workers) - others < 5  # the second of its answer, and what it took to start
    assert one.ask({"do": "add", "value": 4})["found"] == 7


def test_a_stopped_worker_is_noticed_within_seconds(
    keep: Callable[..., Resident], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "ASK_SECONDS", 60)
    monkeypatch.setattr(pool, "STOPPED_SECONDS", 0.5)
    one = keep()
    one.start()
    start = time.monotonic()
    with pytest.raises(GaveUpError, match="stood still"):
        one.ask({"do": "stop"})
    assert time.monotonic() - start < 20
    assert one.ask({"do": "add", "value": 1})["found"] == 8


def test_a_stopped_template_is_noticed_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "STOPPED_SECONDS", 0.5)
    fresh = Workers(COMMAND)
    try:
        one = Resident("keep", "a.model", {"kept": 1}, budget=SMALL, workers=fresh)
        one.start()
        before = fresh.plain.pid
        assert before is not None
        os.kill(before, signal.SIGSTOP)
        one.leave()
        assert one.ask({"do": "add", "value": 1})["found"] == 2
        assert gone(before)
    finally:
        fresh.close()


def test_what_cannot_be_kept_is_refused_by_the_file_s_name(keep: Callable[..., Resident]) -> None:
    one = keep(broken=True)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="7"):
            one.start()


def test_only_so_many_stay_and_the_one_asked_longest_ago_goes(
    keep: Callable[..., Resident], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "MOST_RESIDENTS", 2)
    first, second, third = (keep(i) for i in range(3))
    pids = [pid(first), pid(second)]
    assert pid(first) == pids[0]
    pid(third)
    assert gone(pids[1])
    assert pid(first) == pids[0]
    assert second.ask({"do": "add", "value": 5})["found"] == 6  # it starts again
    assert len(resident._RECENT._asked) == 2


def test_many_threads_ask_one_worker(keep: Callable[..., Resident]) -> None:
    one = keep(100)
    with ThreadPoolExecutor(7) as threads:
        found = list(threads.map(lambda i: one.ask({"do": "add", "value": i})["found"], range(97)))
    assert found == [100 + i for i in range(97)]


def test_a_tokenizer_that_nobody_has_any_more_ends_its_worker() -> None:
    tokenizer = some_tokenizer()
    worker = tokenizer._resident._worker
    target = tokenizer.as_target()
    del tokenizer
    gc.collect()
    assert target.encode("two men")
    del target
    gc.collect()
    assert gone(worker.pid)

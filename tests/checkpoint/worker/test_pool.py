"""Workers that hang, die, lie or take too much cost one refusal each; the process that asked goes on.

A worker that stays answers one request after another; what goes wrong costs one answer, and the next is right.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from heedmap.checkpoint.worker import child, pool, resident
from heedmap.checkpoint.worker.pool import Answer, Budget, GaveUpError, Queue, Workers
from heedmap.checkpoint.worker.resident import Resident
from heedmap.checkpoint.worker.template import Host
from heedmap.errors import CheckpointError
from heedmap.safe.limits import MEGABYTE
from tests.fuzzing import children, is_gone, processor_seconds
from tests.waiting import PATIENCE, until

COMMAND = (sys.executable, "-P", "-m", "tests.checkpoint.worker.misbehaving")
SMALL = Budget(memory_bytes=64 * MEGABYTE, seconds=1)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(COMMAND, most=2)
    yield made
    made.template.close()


def done(workers: Workers, job: str, most_bytes: int = 0, **request: Any) -> list[Answer]:
    with closing(workers.answers(job, "a.pt", budget=SMALL, most_bytes=most_bytes, **request)) as answers:
        return list(answers)


def found(workers: Workers, job: str, **request: Any) -> Any:
    return done(workers, job, **request)[-1].header["found"]


def end_template(workers: Workers) -> None:
    assert workers.template._process is not None
    workers.template._process.kill()
    workers.template._process.wait()


def framed(text: bytes) -> str:
    return (len(text).to_bytes(8, "little") + text).hex()


@pytest.mark.parametrize(
    ("job", "request_", "reason"),
    [
        ("spin", {}, "took more than 1 s of work"),
        ("stop", {}, "took more than 1 s of work"),
        ("endless", {}, "took more than 1 s of work"),
        ("kill", {"signal": signal.SIGKILL}, "64 MB of memory, ended with signal SIGKILL"),
        ("kill", {"signal": signal.SIGXCPU}, "took more than 1 s of work"),
        ("kill", {"signal": signal.SIGSEGV}, "ended with signal SIGSEGV"),
        ("kill", {"signal": signal.SIGABRT}, "ended with signal SIGABRT"),
        ("leave", {}, "ended with status 768"),
        ("memory", {}, "took more than 64 MB of memory"),
        ("native_memory", {}, "not foreseen .*can't allocate memory"),
        ("panicked", {}, "not foreseen .*a native library gave up"),
        ("absent", {}, "not foreseen .*KeyError"),
    ],
)
def test_a_worker_that_fails_is_one_refusal(
    workers: Workers, job: str, request_: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if job in ("stop", "endless"):  # which have no other end; whoever works needs what a busy machine takes
        monkeypatch.setattr(pool, "SPARE_SECONDS", 0.0)
    with pytest.raises(CheckpointError, match=rf"a\.pt is refused: .*{reason}.* Remedy: "):
        done(workers, job, **request_)
    assert not children(workers.template.pid)
    assert found(workers, "threads") == 1


def test_a_worker_that_works_too_long_ends_by_itself(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody looks at a clock: its limit of processor time is told from the clock's end."""

    def patient() -> float:
        assert sum(map(processor_seconds, children(workers.template.pid))) < 5, "still at work"
        return 0.1

    monkeypatch.setattr(pool, "clock", lambda *_: patient)
    with pytest.raises(CheckpointError, match="took more than 1 s of work"):
        done(workers, "spin")


@pytest.mark.parametrize(
    "said",
    [
        "00" * 7,
        "ff" * 8,
        "ff" * 5000,
        (2**40).to_bytes(8, "little").hex(),
        framed(b"no json"),
        framed(b"\xff\xfe"),
        framed(b"[" * 100_000),
        framed(b"[]"),
        framed(b"7"),
        framed(b"{}"),
        framed(b'{"kind": "part"}'),
        framed(b'{"kind": "part", "blocks": 3}'),
        framed(b'{"kind": "part", "blocks": {}}'),
        *(framed(json.dumps({"kind": "part", "blocks": [n]}).encode()) for n in (-1, 1.5, True, "7", 2**60, [1])),
        framed(b'{"kind": "part", "blocks": [10000000000]}'),
        framed(b'{"kind": "part", "blocks": [600, 500]}') + "00" * 1100,
        framed(b'{"kind": "part", "blocks": [500]}') + "00" * 499,
        framed(b'{"kind": "surprise", "blocks": []}'),
        framed(b'{"kind": "refused", "blocks": [], "sentence": 7}'),
        framed(b'{"kind": "failed", "blocks": []}'),
        framed(b'{"kind": ["done"], "blocks": []}'),
        framed(b'{"kind": "part", "blocks": ' + b"9" * 5000 + b"}"),
    ],
)
def test_what_is_not_understood_is_refused(workers: Workers, said: str) -> None:
    with pytest.raises(CheckpointError, match=r"a\.pt is refused: the process that read it .*(not understood|ended)"):
        done(workers, "raw", most_bytes=1000, hex=said)
    assert not children(workers.template.pid)


def test_more_bytes_than_may_be_are_not_taken_however_they_come(workers: Workers) -> None:
    part = framed(b'{"kind": "part", "blocks": [400]}') + "00" * 400
    with pytest.raises(CheckpointError, match="400 bytes, at most 200 can be meant"):
        done(workers, "raw", most_bytes=1000, hex=part, times=10**6)


def test_a_worker_cannot_write_files_nor_open_many_stands_back_and_sees_no_secrets(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(workers, "written", file=str(tmp_path / "written")) == os.strerror(27)  # File too large
    assert 40 < found(workers, "opened") < 64
    assert found(workers, "niceness") == min(19, os.nice(0) + child.NICE)
    monkeypatch.setenv("SECRET_KEY", "x")
    fresh = Workers(COMMAND)
    try:
        assert "SECRET_KEY" not in found(fresh, "environment")
    finally:
        fresh.template.close()


class Left(BaseException):
    """As the framework's sign that a page is left."""


def test_whoever_waits_may_leave_and_the_worker_is_gone(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(workers, "threads") == 1  # the template has started

    class Leaving(Host):
        def waits(self) -> None:
            if children(workers.template.pid):
                raise Left

    with monkeypatch.context() as patch:
        patch.setattr(workers, "host", Leaving())
        with pytest.raises(Left):
            done(workers, "stop")
    assert not children(workers.template.pid)
    answers = workers.answers("spin", "a.pt", budget=SMALL)
    next(answers)
    assert children(workers.template.pid)
    answers.close()
    assert not children(workers.template.pid)


def test_only_so_many_work_at_a_time_and_the_next_is_told(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> None:
    first, second = (workers.answers("stop", "a.pt", budget=SMALL) for _ in range(2))
    with closing(first), closing(second), monkeypatch.context() as patch:
        next(first), next(second)
        assert len(children(workers.template.pid)) == 2
        patch.setattr(pool, "PATIENCE_SECONDS", 0.1)  # from here: the two had to be forked first
        with pytest.raises(CheckpointError, match=r"a\.pt was not read: the server is busy with 2 other files"):
            done(workers, "threads")
    assert found(workers, "threads") == 1


def test_a_template_that_was_ended_is_started_again(workers: Workers) -> None:
    assert found(workers, "threads") == 1
    end_template(workers)
    assert found(workers, "threads") == 1
    answers = workers.answers("stop", "a.pt", budget=SMALL)
    next(answers)
    (stopped,) = children(workers.template.pid)
    end_template(workers)
    with pytest.raises(CheckpointError, match="ended with"):  # its workers go with it
        list(answers)
    until(is_gone, stopped)
    assert found(workers, "threads") == 1


def test_a_template_that_cannot_start_is_told() -> None:
    broken = Workers((sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(CheckpointError, match="could not be started"):
        done(broken, "threads")
    broken.template.close()


def test_the_end_of_the_server_ends_template_and_workers(workers: Workers) -> None:
    fresh = Workers(COMMAND)
    answers = fresh.answers("stop", "a.pt", budget=SMALL)
    next(answers)
    (stopped,) = children(fresh.template.pid)
    assert fresh.template._line is not None
    assert fresh.template._process is not None
    fresh.template._line.shutdown(socket.SHUT_RDWR)  # as when the server is killed
    assert fresh.template._process.wait(timeout=PATIENCE) == 0
    until(is_gone, stopped)
    answers.close()


def test_a_budget_grows_with_the_file() -> None:
    assert Budget.of(0) == Budget(512 * MEGABYTE, 30)
    assert Budget.of(200 * MEGABYTE) == Budget(1312 * MEGABYTE, 70)
    assert Budget.of(0).clock_seconds == 60 + pool.SPARE_SECONDS


class Job:
    """A thread that waits for its place, keeps it until it is told, and remembers how many came first."""

    def __init__(self, queue: Queue, client: object, leaves: bool = False) -> None:
        self.began, self.over, self.seen, self._leaves = Event(), Event(), list[int](), leaves
        self._thread = Thread(target=self._run, args=(queue, client))
        self._thread.start()

    def _run(self, queue: Queue, client: object) -> None:
        with suppress(TimeoutError), queue.place(client, self._wait):
            self.began.set()
            assert self.over.wait(PATIENCE)

    def _wait(self, ahead: int) -> float:
        self.seen.append(ahead)
        if self._leaves:
            raise TimeoutError
        return 0.01

    def waits(self, ahead: int) -> bool:
        """Whether it waits, and was told that so many jobs come first."""
        until(lambda: self.seen[-1:] == [ahead])
        return not self.began.is_set()

    def end(self) -> None:
        self.over.set()
        self._thread.join(PATIENCE)


def test_places_are_given_in_order_each_is_told_how_many_come_first_and_who_leaves_holds_up_nobody() -> None:
    queue = Queue(2)
    first, second = Job(queue, None), Job(queue, None)  # jobs of nobody are each their own
    assert first.began.wait(PATIENCE)
    assert second.began.wait(PATIENCE)
    third = Job(queue, "c")
    assert third.waits(1)
    for client in ("b", None):
        gone = Job(queue, client, leaves=True)
        gone.end()
        assert gone.seen == [2]
    fourth = Job(queue, "d")
    assert fourth.waits(2)
    second.end()
    assert third.began.wait(PATIENCE)
    assert fourth.waits(1)
    first.end()
    assert fourth.began.wait(PATIENCE)
    third.end()
    fourth.end()


def test_a_client_waits_behind_its_own_job_and_others_pass_it() -> None:
    queue = Queue(3)
    mine = Job(queue, "mine")
    assert mine.began.wait(PATIENCE)
    more = [Job(queue, "mine") for _ in range(4)]
    assert all(job.waits(1) for job in more)
    other = Job(queue, "other")
    assert other.began.wait(PATIENCE)
    mine.end()
    until(lambda: any(job.began.is_set() for job in more))
    for job in more:
        until(lambda job, heard: job.began.is_set() or len(job.seen) > heard, job, len(job.seen) + 2)
    assert sum(job.began.is_set() for job in more) == 1
    for job in (*more, other):
        job.over.set()
    for job in (*more, other):
        job.end()


@pytest.fixture
def keep(workers: Workers) -> Iterator[Callable[..., Resident]]:
    made = list[Resident]()

    def make(kept: int = 7, **request: Any) -> Resident:
        made.append(Resident("keep", "a.model", budget=SMALL, workers=workers, kept=kept, **request))
        return made[-1]

    yield make
    for one in made:
        one.leave()


def pid(one: Resident) -> int:
    return int(one.ask({"do": "pid"})["found"])


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
        ({"do": "leave"}, "ended with status 768"),
        ({"do": "absent"}, "not foreseen .*KeyError"),
        ({"do": "raw", "hex": framed(b"no json")}, "not understood"),
        ({"do": "raw", "hex": framed(b'{"kind": "done", "blocks": [7]}') + "00" * 7}, "not understood"),
        ({"do": "raw", "hex": framed(b'{"kind": "surprise", "blocks": []}')}, "not understood"),
    ],
    ids=str,
)
def test_what_goes_wrong_costs_one_answer(
    keep: Callable[..., Resident], workers: Workers, request_: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one worker more: the next request starts it."""
    forked, fork = list[int](), workers.template.fork

    def counted(*how: Any) -> int:
        forked.append(fork(*how))
        return forked[-1]

    monkeypatch.setattr(workers.template, "fork", counted)
    one = keep(3)
    one.start()
    before = pid(one)
    with pytest.raises(GaveUpError, match=why):
        one.ask(request_)
    until(is_gone, before)
    assert one.ask({"do": "add", "value": 4})["found"] == 7
    assert forked == [before, pid(one)]


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
    until(is_gone, pids[1])
    assert pid(first) == pids[0]
    assert second.ask({"do": "add", "value": 5})["found"] == 6  # it starts again
    assert len(resident._recent) == 2


def test_many_threads_ask_one_worker(keep: Callable[..., Resident]) -> None:
    one = keep(100)
    with ThreadPoolExecutor(7) as threads:
        found = list(threads.map(lambda i: one.ask({"do": "add", "value": i})["found"], range(97)))
    assert found == [100 + i for i in range(97)]

"""Workers that hang, die, lie or take too much cost one refusal each; the process that asked goes on."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from transformer.checkpoint.worker import child, pool
from transformer.checkpoint.worker.pool import Answer, Budget, Host, Workers
from transformer.errors import CheckpointError
from transformer.safe.limits import MEGABYTE

COMMAND = (sys.executable, "-P", "-m", "tests.checkpoint.worker.misbehaving")
SMALL = Budget(memory_bytes=64 * MEGABYTE, seconds=1)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers(COMMAND, most=2)
    yield made
    made.close()


def done(workers: Workers, job: str, most_bytes: int = 0, **request: Any) -> list[Answer]:
    with closing(workers.answers(job, "a.pt", request, budget=SMALL, most_bytes=most_bytes)) as answers:
        return list(answers)


def found(workers: Workers, job: str, **request: Any) -> Any:
    return done(workers, job, **request)[-1].header["found"]


def children(workers: Workers) -> list[int]:
    """Processes that the template has."""
    task = Path(f"/proc/{workers.plain.pid}/task/{workers.plain.pid}/children")
    return [int(pid) for pid in task.read_text().split()]


def end_template(workers: Workers) -> None:
    assert workers.plain._process is not None
    workers.plain._process.kill()
    workers.plain._process.wait()


def gone(pid: int) -> bool:
    """Whether a process is no more, or soon: it lets go of its files a moment before."""
    status = Path(f"/proc/{pid}/stat")
    for _ in range(1000):
        try:
            if status.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def framed(text: bytes) -> str:
    return (len(text).to_bytes(8, "little") + text).hex()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SPARE_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("job", "request_", "reason"),
    [
        ("spin", {}, "took more than 1 s of work"),
        ("stop", {}, "took more than 1 s of work|stood still"),
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
def test_a_worker_that_fails_is_one_refusal(workers: Workers, job: str, request_: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=rf"a\.pt is refused: .*{reason}.* Remedy: "):
        done(workers, job, **request_)
    assert not children(workers)
    assert found(workers, "threads") == 1


def test_a_worker_that_works_too_long_ends_by_itself(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody looks at a clock: its limit of processor time is told from the clock's end."""

    class Patient:
        def __init__(self, *_: Any) -> None:
            self.until = time.monotonic() + 60

        def __call__(self) -> float:
            if time.monotonic() > self.until:
                raise AssertionError("still at work")
            return 0.1

    monkeypatch.setattr(pool, "Clock", Patient)
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
    assert not children(workers)


def test_more_bytes_than_may_be_are_not_taken_however_they_come(workers: Workers) -> None:
    part = framed(b'{"kind": "part", "blocks": [400]}') + "00" * 400
    with pytest.raises(CheckpointError, match="400 bytes, at most 200 can be meant"):
        done(workers, "raw", most_bytes=1000, hex=part, times=10**6)


def test_a_worker_cannot_write_files_nor_open_many_and_sees_no_secrets(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(workers, "written", file=str(tmp_path / "written")) == os.strerror(27)  # File too large
    assert 40 < found(workers, "opened") < 64
    monkeypatch.setenv("SECRET_KEY", "x")
    fresh = Workers(COMMAND)
    try:
        assert "SECRET_KEY" not in found(fresh, "environment")
    finally:
        fresh.close()


def test_the_server_goes_on_while_a_worker_spins(workers: Workers) -> None:
    going, over = [], Event()

    def live() -> None:
        while not over.wait(0.01):
            going.append(time.monotonic())

    living = Thread(target=live)
    living.start()
    try:
        with pytest.raises(CheckpointError, match="took more than"):
            done(workers, "spin")
    finally:
        over.set()
        living.join()
    assert len(going) > 20
    assert found(workers, "niceness") == min(19, os.nice(0) + child.NICE)


class Left(BaseException):
    """As the framework's sign that a page is left."""


def test_whoever_waits_may_leave_and_the_worker_is_gone(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    class Leaving(Host):
        def waits(self) -> None:
            seen.append(children(workers))
            if len(seen) > 3:
                raise Left

    with monkeypatch.context() as patch:
        patch.setattr(workers, "host", Leaving())
        with pytest.raises(Left):
            done(workers, "stop")
    assert seen[-1]
    assert not children(workers)
    answers = workers.answers("spin", "a.pt", {}, budget=SMALL)
    next(answers)
    assert children(workers)
    answers.close()
    assert not children(workers)


def test_only_so_many_work_at_a_time_and_the_next_is_told(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.1)
    first, second = (workers.answers("stop", "a.pt", {}, budget=SMALL) for _ in range(2))
    with closing(first), closing(second):
        next(first), next(second)
        assert len(children(workers)) == 2
        with pytest.raises(CheckpointError, match=r"a\.pt was not read: the server is busy with 2 other files"):
            done(workers, "threads")
    assert found(workers, "threads") == 1


def test_a_template_that_was_ended_is_started_again(workers: Workers) -> None:
    assert found(workers, "threads") == 1
    end_template(workers)
    assert found(workers, "threads") == 1
    answers = workers.answers("stop", "a.pt", {}, budget=SMALL)
    next(answers)
    (stopped,) = children(workers)
    end_template(workers)
    with pytest.raises(CheckpointError, match="ended with"):  # its workers go with it
        list(answers)
    assert gone(stopped)
    assert found(workers, "threads") == 1


def test_a_template_that_cannot_start_is_told() -> None:
    broken = Workers((sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(CheckpointError, match="could not be started"):
        done(broken, "threads")
    broken.close()


def test_the_end_of_the_server_ends_template_and_workers(workers: Workers) -> None:
    fresh = Workers(COMMAND)
    answers = fresh.answers("stop", "a.pt", {}, budget=SMALL)
    next(answers)
    (stopped,) = children(fresh)
    assert fresh.plain._line is not None
    assert fresh.plain._process is not None
    fresh.plain._line.shutdown(socket.SHUT_RDWR)  # as when the server is killed
    assert fresh.plain._process.wait(timeout=20) == 0
    assert gone(stopped)
    answers.close()


def test_a_budget_grows_with_the_file() -> None:
    assert Budget.of(0) == Budget(512 * MEGABYTE, 30)
    assert Budget.of(200 * MEGABYTE) == Budget(1312 * MEGABYTE, 70)
    assert Budget.of(0).clock_seconds == 60 + pool.SPARE_SECONDS

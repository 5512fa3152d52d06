"""The queue of jobs: so many at a time, in order, one for each client; and who leaves holds up nobody."""

import time
from collections.abc import Callable
from threading import Event, Thread

import pytest

from transformer.checkpoint.worker.queue import Queue

PATIENCE = 20.0


class Job:
    """A thread that waits for its place, keeps it until it is told, and remembers how many came first."""

    def __init__(self, queue: Queue, client: object, wait: Callable[[int], float] | None = None) -> None:
        self.began, self.over, self.seen, self.error = Event(), Event(), list[int](), list[BaseException]()
        self._queue, self._client, self._wait = queue, client, wait or self._quick
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _quick(self, ahead: int) -> float:
        self.seen.append(ahead)
        return 0.01

    def _run(self) -> None:
        try:
            with self._queue.place(self._client, self._wait):
                self.began.set()
                assert self.over.wait(PATIENCE)
        except TimeoutError as error:
            self.error.append(error)

    def waits(self, ahead: int) -> bool:
        """Whether it waits, and was told that so many jobs come first."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and not (self.seen and self.seen[-1] == ahead):
            time.sleep(0.005)
        return not self.began.is_set() and self.seen[-1] == ahead

    def end(self) -> None:
        self.over.set()
        self._thread.join(PATIENCE)


def test_places_are_given_in_order_and_each_is_told_how_many_come_first() -> None:
    queue = Queue(2)
    first, second = Job(queue, "a"), Job(queue, "b")
    assert first.began.wait(PATIENCE)
    assert second.began.wait(PATIENCE)
    third = Job(queue, "c")
    assert third.waits(1)
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
    assert more[0].began.wait(PATIENCE) or any(job.began.is_set() for job in more)
    time.sleep(0.1)
    assert sum(job.began.is_set() for job in more) == 1
    for job in (*more, other):
        job.over.set()
    for job in (*more, other):
        job.end()


def test_jobs_of_nobody_are_each_their_own() -> None:
    queue = Queue(2)
    jobs = [Job(queue, None) for _ in range(2)]
    assert all(job.began.wait(PATIENCE) for job in jobs)
    for job in jobs:
        job.end()


@pytest.mark.parametrize("client", ["b", None])
def test_who_leaves_the_queue_holds_up_nobody(client: str | None) -> None:
    queue = Queue(1)

    def leave(ahead: int) -> float:
        raise TimeoutError(ahead)

    first = Job(queue, "a")
    assert first.began.wait(PATIENCE)
    gone = Job(queue, client, leave)
    last = Job(queue, "c")
    gone.end()
    assert gone.error
    assert last.waits(1)
    first.end()
    assert last.began.wait(PATIENCE)
    last.end()

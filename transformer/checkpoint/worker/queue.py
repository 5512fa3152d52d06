"""The queue of jobs for workers: a few at a time, in the order in which they were asked for, one for each client."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Condition


class Queue:
    """`count` places. A client that has one waits for its second behind its own first one, and holds up nobody."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._changed = Condition()
        self._working: list[Hashable] = []
        self._waiting: list[tuple[object, Hashable]] = []

    @contextmanager
    def place(self, client: Hashable | None, wait: Callable[[int], float]) -> Iterator[None]:
        """Wait for a place, and keep it until the block ends. Without a `client`, each job is one of its own.

        `wait` is told how many jobs come first, says for how long to wait at most until it is asked again, and may
        raise, which leaves the queue.
        """
        ticket = object()
        owner = ticket if client is None else client
        with self._changed:
            self._waiting.append((ticket, owner))
        try:
            while not self._began(ticket, owner):
                seconds = wait(self._ahead(ticket))  # without the lock: it may draw, or leave
                with self._changed:
                    self._changed.wait_for(lambda: self._ahead(ticket) == 0, seconds)
        except BaseException:
            with self._changed:
                self._waiting.remove((ticket, owner))
                self._changed.notify_all()
            raise
        try:
            yield
        finally:
            with self._changed:
                self._working.remove(owner)
                self._changed.notify_all()

    def _began(self, ticket: object, owner: Hashable) -> bool:
        """Whether a job that waited has a place now."""
        with self._changed:
            if self._ahead(ticket):
                return False
            self._waiting.remove((ticket, owner))
            self._working.append(owner)
            return True

    def _ahead(self, ticket: object) -> int:
        """How many jobs have to end before this one begins; 0 where it may begin."""
        working, before = list(self._working), 0
        for one, owner in self._waiting:
            if one is ticket:
                if owner in working:
                    return before + 1
                return max(0, len(working) - self.count + 1)
            if owner in working:
                continue
            working.append(owner)
            before += 1
        raise ValueError("the ticket is not waiting")

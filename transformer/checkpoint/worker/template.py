"""The process that forks workers, and how long anybody waits for one.

A `Template` has the library loaded and a single thread, and forks a worker in about 10 ms (a process from scratch takes
1.4 s, torch's import). It is started with the first job, and again when it was ended; the threaded server itself never
forks. A `clock` bounds every wait, and tells the `Host` of it.
"""

import logging
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from threading import Lock

from ...errors import CheckpointError
from .wire_format import receive

COMMAND = (sys.executable, "-P", "-m", f"{__package__}.child")
"""What starts a template, before the number of its end of the line."""

START_SECONDS, REPLY_SECONDS = 60.0, 10.0
"""How long a template may take to start, and to answer."""

TICK_SECONDS = 0.2
GLANCE_SECONDS = 0.05
"""How often somebody who waits looks whether it is still worth it; how long somebody may wait who holds a turn to draw.
"""

MESSAGE_BYTES = 5
"""What a template hears and says: a letter and the id of a process."""

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")
"""What workers see of the server's environment: no keys, no addresses."""

Wait = Callable[[], float]
"""How long one wait may last; called before each, it may raise."""

POSSIBLE = hasattr(os, "fork") and hasattr(socket, "send_fds")
"""Whether this system has what workers need; without it (Windows), no untrusted file is read."""

_log = logging.getLogger(__name__)


class Host:
    """The program that asks workers, as they know it: here a notebook or a command, with one user and nothing to share.

    A server has many users, whose pages take turns: `WORKERS.host` is told of them.
    """

    def client(self) -> Hashable | None:
        """For whom this thread works: each client has one job at a time. None sets no such bound."""
        return None

    def waits(self) -> None:
        """Hear that this thread waits for a worker, so that it holds up nobody; what is raised here ends the worker."""

    def queued(self, ahead: int) -> None:
        """Hear how many jobs come before that of this thread; 0 when it begins."""


def clock(seconds: float, host: Host, late: Exception | type[Exception] = TimeoutError) -> Wait:
    """How long each read or write may wait before this is asked again; it raises `late` once the time is up."""
    start = time.monotonic()

    def wait() -> float:
        taken = time.monotonic() - start
        if taken < GLANCE_SECONDS:
            return GLANCE_SECONDS
        host.waits()
        if taken >= seconds:
            raise late
        return min(TICK_SECONDS, seconds - taken)

    return wait


class Template:
    """One template process and what is said to it; safe to use from many threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._left = deque[int]()

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def fork(self, channel: socket.socket, wait: Wait) -> int:
        """The process id of a new worker at the other end of `channel`.

        Raises:
            CheckpointError: the template cannot be started.
        """
        while not self._lock.acquire(timeout=wait()):
            pass
        try:
            while self._left:
                self._ended(self._left.popleft())
            for _ in range(2):  # a template that was ended by someone is started once more
                if self._line is None:
                    self._start()
                pid = self._ask(b"F" + bytes(MESSAGE_BYTES - 1), [channel.fileno()], START_SECONDS, wait)
                if pid is not None:
                    return pid
        finally:
            self._lock.release()
        raise CheckpointError("worker_not_started")

    def end(self, pid: int) -> int:
        """End a worker, if it has not ended, and let its id go; how it ended, as `os.waitpid` says."""
        with self._lock:
            return self._ended(pid)

    def leave(self, pid: int) -> None:
        """Have a worker ended before the next one is forked. Never waits, so that finalizers may call it."""
        self._left.append(pid)

    def close(self) -> None:
        """End the process and with it every worker."""
        with self._lock:
            self._close()

    def _ended(self, pid: int) -> int:
        return self._ask(b"E" + pid.to_bytes(MESSAGE_BYTES - 1, "little"), [], REPLY_SECONDS) or 0

    def _ask(self, message: bytes, files: list[int], seconds: float, wait: Wait = lambda: TICK_SECONDS) -> int | None:
        """The template's answer; None if it has none in time, which ends it."""
        if self._line is None:
            return None
        reply, patience = None, clock(seconds, Host())
        try:
            socket.send_fds(self._line, [message], files)
            reply = receive(self._line, MESSAGE_BYTES, lambda: min(patience(), wait()))
        except OSError as error:
            _log.warning("the process that forks workers does not answer: %s", error)
        finally:
            if reply is None:  # it ended, or whoever waited has left: its answer must not be the next one's
                self._close()
        return None if reply is None else int.from_bytes(reply[1:], "little")

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[3])
        known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  (our own program)
                [*self._command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**known, **threads, "PYTHONPATH": root, "TOKENIZERS_PARALLELISM": "false"},
                start_new_session=True,  # the terminal's Ctrl-C is the server's: its end ends the template
            )
        self._line = ours

    def _close(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None
        self._left.clear()

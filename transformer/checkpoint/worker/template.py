"""The process that forks workers: started with the first job, started again when it was ended or stopped.

It has the library loaded and a single thread, and forks a worker for each job (about 10 ms; a process from scratch
takes 1.4 s, torch's import). The threaded server itself never forks.
"""

import logging
import os
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from transformer.errors import CheckpointError

START_SECONDS, REPLY_SECONDS = 60.0, 10.0
"""How long a template may take to start, and to answer."""

TICK_SECONDS = 0.2
"""How often somebody who waits looks whether it is still worth it."""

STOPPED_SECONDS = 2.0
"""How long a process may stand still (SIGSTOP) before it is given up."""

MESSAGE_BYTES = 5
"""What a template hears and says: a letter and the id of a process."""

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV")
"""What workers see of the server's environment: no keys, no addresses."""

Wait = Callable[[], float]
"""How long one wait may last; called before each, it may raise."""

_log = logging.getLogger(__name__)


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
                pid = self._ask(b"F" + bytes(MESSAGE_BYTES - 1), channel, START_SECONDS, wait)
                if pid is not None:
                    return pid
                self._close()
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
        status = self._ask(b"E" + pid.to_bytes(MESSAGE_BYTES - 1, "little"), None, REPLY_SECONDS)
        if status is None:
            self._close()
        return status or 0

    def _ask(
        self, message: bytes, channel: socket.socket | None, seconds: float, wait: Wait = lambda: TICK_SECONDS
    ) -> int | None:
        """The template's answer; None if it has none in time, or stands still."""
        if self._line is None or self._process is None:
            return None
        until, still = time.monotonic() + seconds, Stillness(self._process.pid)
        reply = b""
        try:
            socket.send_fds(self._line, [message], [channel.fileno()] if channel else [])
            while len(reply) < MESSAGE_BYTES:
                self._line.settimeout(min(TICK_SECONDS, wait()))
                try:
                    some = self._line.recv(MESSAGE_BYTES - len(reply))
                except TimeoutError:
                    if time.monotonic() > until or still.for_seconds() > STOPPED_SECONDS:
                        raise
                    continue
                if not some:
                    raise ConnectionResetError("it ended")  # noqa: TRY301  (as any other end of the line)
                reply += some
        except OSError as error:
            _log.warning("the process that forks workers does not answer: %s", error)
            return None
        except BaseException:
            self._close()  # whoever waited has left: its answer must not be the next one's
            raise
        return int.from_bytes(reply[1:], "little")

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


class Stillness:
    """How long a process has been stopped (SIGSTOP), as Linux tells; 0 elsewhere, where only the clock ends it."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/stat")
        self._since: float | None = None

    def for_seconds(self) -> float:
        """Seconds since it was first seen stopped; 0 while it goes on."""
        try:
            stopped = self._status.read_text().rpartition(")")[2].split()[0] in "Tt"
        except (OSError, IndexError):  # another system, or the process is gone, which its channel tells
            return 0.0
        if not stopped:
            self._since = None
            return 0.0
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since

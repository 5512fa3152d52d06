"""Workers end with the command that they work for, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

POOL = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from transformer.atlas.executors import _begin


def at_work(seconds):
    os.write(1, f"{os.getpid()}\\n".encode())  # whole lines, however output is buffered
    time.sleep(seconds)


if __name__ == "__main__":
    pool = ProcessPoolExecutor(2, get_context("spawn"), initializer=_begin)
    works, waits = pool.submit(at_work, 600), pool.submit(at_work, 0.5)
    works.result()
"""


def test_workers_end_soon_after_their_parent_was_killed(tmp_path: Path) -> None:
    """One that is in the middle of its work, and one that waits for more."""
    (tmp_path / "script.py").write_text(POOL)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(tmp_path / "script.py")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        try:
            workers = [int(parent.stdout.readline()) for _ in range(2)]
        finally:
            parent.kill()
        try:
            parent.communicate(timeout=30)  # their output ends when the last of them has
        except subprocess.TimeoutExpired:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            raise

"""Processes that work for another one: they end when it does, however it ends."""

import os
import time
from multiprocessing import parent_process
from threading import Thread

LOOK_SECONDS = 1.0
"""How often a process looks whether the one that started it is still there."""


def end_with_parent() -> None:
    """End this process at once, whatever it is doing, within `LOOK_SECONDS` of the end of the process that started it.

    A process that is killed cannot end its workers: a pool's would wait for work for ever, torchrun's would train on.
    The parent's id is asked for, since every POSIX system has one and it changes with the parent's end. Windows keeps
    the old id: there, workers of a killed process stay.
    """
    starter = parent_process()  # knows the id even where the parent ended while this process was still starting
    parent = os.getppid() if starter is None or starter.pid is None else starter.pid
    Thread(target=_watch, args=(parent,), name="end-with-parent", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)  # no clean-up: whoever waited for it is gone

"""How tests wait: for a condition, with a bound that only a hang reaches, so that a slow machine fails nothing.

No other file of the tests sleeps or reads a clock (tests/test_house.py).
"""

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds that anything may take before a test gives up; machines that test are often busy."""

PAUSE = 0.02


def until(
    holds: Callable[..., object],
    *of: object,
    pause: Callable[[float], object] = time.sleep,
    no: tuple[type[Exception], ...] = (AssertionError,),
) -> None:
    """Wait until `holds` is so of what it is given.

    It says no by False or by one of the exceptions `no`; what it said last is raised when patience ends. `pause` is
    given seconds, and lets others work for so long.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = holds(*of)
            assert found is None or found
            break
        except no:
            if time.monotonic() > deadline:
                raise
        pause(PAUSE)

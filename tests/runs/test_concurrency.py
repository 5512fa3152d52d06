"""Forward passes: two at a time, also when many threads want one, and no place is lost to a failure."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from transformer.runs.concurrency import forward_slot

PATIENCE = 60.0


def test_two_forward_passes_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE)

    def run(_: int) -> int:
        with forward_slot():
            return meeting.wait()

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(run, range(2))) == [0, 1]


def test_a_third_forward_pass_waits_for_one_of_the_two() -> None:
    """Threads stay inside until a third one joins them, or until it could long have done so."""
    changed, inside, most = threading.Condition(), 0, 0

    def run(_: int) -> None:
        nonlocal inside, most
        with forward_slot():
            with changed:
                inside += 1
                most = max(most, inside)
                changed.notify_all()
                changed.wait_for(lambda: most > 2, timeout=0.2)
            with changed:
                inside -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, range(6)))
    assert most == 2


def _fail_after(keeps_gradients: bool) -> None:
    assert not keeps_gradients
    raise ZeroDivisionError


def test_a_failed_pass_gives_its_place_back_and_nothing_keeps_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), forward_slot():
            _fail_after((weight * 2).requires_grad)
    with forward_slot(), forward_slot():
        assert torch.is_inference_mode_enabled()

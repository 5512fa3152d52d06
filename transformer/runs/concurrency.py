"""How many forward passes run at once, so that many sessions share the memory of two."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

import torch

_forward = BoundedSemaphore(2)
"""At most two forward passes at once, so that many sessions share the memory of two."""


@contextmanager
def forward_slot() -> Iterator[None]:
    """Wait for one of the slots that bound how many forward passes run at once; no gradients are kept inside."""
    with _forward, torch.inference_mode():
        yield

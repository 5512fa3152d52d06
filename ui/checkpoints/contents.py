"""What lies in a checkpoint's files, worked out once: for all sessions, or for the one that uploaded it."""

from collections.abc import Callable
from itertools import count

from torch import Tensor

from transformer.checkpoint.inspect.statistics import SLICE
from transformer.checkpoint.inspect.tensors import Inspection, inspect_contents
from transformer.runs.concurrency import forward_slot, let_others
from ui.store import store
from ui.store.progress import Told, with_progress
from ui.texts import plain

QUICK = 10**7
"""Numbers that are looked through without a bar: under a second."""

LOOKS = 4
"""How often each slice is looked at: its statistics, its histogram, whether it is alike, whether it is tied."""


def inspection(name: str) -> Inspection | None:
    """Every tensor in numbers; a bar tells how far it is, and a button stops it (None).

    Raises:
        CheckpointError: the weights cannot be read.
    """
    contents = store.contents(name)
    blocks = {one.data_ptr(): one.nbytes() for one in map(Tensor.untyped_storage, contents.tensors.values())}
    sizes = [tensor.numel() for tensor in contents.tensors.values()]
    what, looks = plain("checkpoints.looking"), LOOKS * sum(1 + size // SLICE for size in sizes)

    def begin() -> Told | None:
        return None if sum(sizes) < QUICK else lambda _: what

    def compute(progress: Callable[[float], None]) -> Inspection:
        looked = count(1)

        def between() -> None:
            done = next(looked)
            let_others()
            if done % max(1, looks // 100) == 0:
                progress(min(1.0, done / looks))

        with forward_slot():
            return inspect_contents(contents, sum(blocks.values()), between)

    return with_progress("inspection", (store.revision(name),), what, what, begin, compute)

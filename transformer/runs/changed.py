"""A run of a checkpoint under the caller's interventions, which are checked against it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from transformer.attention.interventions.active import active, refuse_unknown_sites
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError
from transformer.runs.concurrency import forward_slot


@contextmanager
def run_of(checkpoint: Checkpoint) -> Iterator[None]:
    """One of the forward slots, for a run of this checkpoint that the caller's interventions may change.

    What is made inside without a device of its own is made where the model is.

    Raises:
        InputError: the checkpoint has no attention that one of them names.
        CheckpointError: its attention cannot be changed.
    """
    asked = active()
    if asked is not None:
        if not checkpoint.sites:
            raise CheckpointError("nothing_to_change", name=checkpoint.name)
        refuse_unknown_sites(asked.sites, checkpoint.sites)
    with forward_slot(), nullcontext() if checkpoint.device.type == "cpu" else checkpoint.device:
        yield

"""An error on its way from a worker: its code and fields as JSON, which the server checks before it says anything."""

from typing import Any

from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import parts


def packed(error: HeedmapError) -> Any:
    """The error as JSON can hold it."""
    return parts.packed(error.message)


def unpacked(told: Any) -> CheckpointError:
    """The error that a worker told of.

    Raises:
        GarbledError: it is none that the library knows.
    """
    try:
        message = parts.unpacked(told)
    except parts.NoMessageError as error:
        raise GarbledError(str(error)) from error
    return CheckpointError(message.code, **message.fields)

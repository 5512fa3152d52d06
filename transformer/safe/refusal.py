"""How a file is refused: which file, why, and what its owner can do."""

from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import Message

SAVE_WEIGHTS = Message("remedy_save_weights")
SAVE_AGAIN = Message("remedy_save_again")

_SHOWN = 80
_SAID = 500


def refused(reason: str, source: str, remedy: str = SAVE_AGAIN, /, **fields: object) -> CheckpointError:
    """The error that says why `source` is not read, and the remedy. `reason` is a code, whose text has `fields`."""
    return refused_because(Message(reason, **fields), source, remedy)


def refused_because(reason: str, source: str, remedy: str = SAVE_AGAIN, /) -> CheckpointError:
    """As `refused`, for a sentence that was made elsewhere."""
    return CheckpointError("refused", source=source, reason=reason, remedy=remedy)


def said(error: BaseException) -> str:
    """What an error says, to be put into another sentence: of ours a message, so that it can be translated.

    Of others the beginning: some repeat all that they were given, or a whole signature.
    """
    return error.message if isinstance(error, HeedmapError) else str(error)[:_SAID]


def shown(text: str) -> str:
    """An untrusted text in quotation marks, cut before it is looked at: for messages."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")

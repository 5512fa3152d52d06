"""What the machine has run out of, in a sentence: a reader can do little about it, and whoever runs the server much."""

import errno

from transformer.messages import Message

SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FILES = {errno.EMFILE, errno.ENFILE}
"""Errors of the system which say that there is no more of something."""


def shortage(error: BaseException) -> Message | None:
    """What has run out where this error came; None for an error of another kind."""
    number = error.errno if isinstance(error, OSError) else None
    if number in SPACE:
        return Message("server_no_space")
    return Message("server_no_files") if number in FILES else None

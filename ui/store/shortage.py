"""What the machine has run out of, in a sentence: a reader can do little about it, and whoever runs the server much."""

import errno

from transformer.messages import Message

SHORT = {
    errno.ENOSPC: "server_no_space",
    errno.EDQUOT: "server_no_space",
    errno.EFBIG: "server_no_space",
    errno.EMFILE: "server_no_files",
    errno.ENFILE: "server_no_files",
}
"""The sentence for each error of the system that says that there is no more of something."""


def shortage(error: BaseException) -> Message | None:
    """What has run out where this error came; None for an error of another kind."""
    code = SHORT.get(error.errno or 0) if isinstance(error, OSError) else None
    return None if code is None else Message(code)

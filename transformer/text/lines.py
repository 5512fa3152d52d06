"""Text files as lines: UTF-8, and only a line feed ends a line.

Python's `splitlines` also breaks at form feeds, at U+2028 and at six others, so line i of a translation would no longer
be line i of its source. A carriage return before the line feed belongs to the line end, as Windows writes it.
"""

from pathlib import Path

from transformer.errors import InputError

BYTE_ORDER_MARK = "\ufeff"


def split_lines(content: bytes, name: str) -> list[str]:
    """The lines of a file with this content; a line feed at its very end starts no further line.

    Raises:
        InputError: the content is not UTF-8; the message says where `name` breaks.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("line_is_not_utf8", line=line, name=name, byte=content[error.start]) from error
    lines = text.removeprefix(BYTE_ORDER_MARK).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: Path) -> list[str]:
    """The lines of a text file.

    Raises:
        InputError: the file cannot be read, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError("file_unreadable", path=str(path), reason=error.strerror) from error
    return split_lines(content, str(path))

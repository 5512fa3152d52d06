"""Lines of the files that come with sequences: numbered, and those that were not used counted and named."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..errors import InputError
from ..messages import Message
from ..text.base import BYTE_ORDER_MARK

MOST_LINES = 200_000
"""Most lines that are read of an annotation or a VCF."""

MOST_SHOWN = 10
"""Most lines, or names, that are listed one by one."""


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are neither blank nor comments, with their numbers from 1.

    Raises:
        InputError: there are more than `MOST_LINES`.
    """
    for number, line in enumerate(text.removeprefix(BYTE_ORDER_MARK).splitlines(), 1):
        if number > MOST_LINES:
            raise InputError("file_long", most=MOST_LINES)
        if line.strip() and not line.startswith("#"):
            yield number, line


def skipped(number: int, line: str, reason: Message) -> Message:
    """That a line was not used, and why."""
    return Message("line_skipped", number=number, line=f"{' '.join(line.split()):.60}", reason=reason)


def shortened(found: Sequence[Message]) -> list[Message]:
    """The first few messages; a last one says how many more there are."""
    more = [Message("and_more", count=len(found) - MOST_SHOWN)] if len(found) > MOST_SHOWN else []
    return [*found[:MOST_SHOWN], *more]


def other_names(counts: Mapping[str, int], known: Collection[str]) -> Message | None:
    """How many names of sequences in a file are `known`, and how many lines (`counts`) the others have; None for none.

    A name that is a known one but for `chr` or its version is said to look like it, and is no match.
    """
    others = {name: count for name, count in counts.items() if name not in known}
    if not others:
        return None
    looks, listed = {_plain(name): name for name in known}, list[Message]()
    for name, count in others.items():
        like, fields = looks.get(_plain(name)), dict(name=f"{name:.60}", count=count)
        listed.append(Message("name_like", **fields, like=like) if like else Message("name_other", **fields))
    here, there = tuple(dict.fromkeys(known))[:MOST_SHOWN], tuple(shortened(listed))
    matching = len(counts) - len(others)
    return Message("names_match", matching=matching, count=len(counts), names=here, others=there)


def _plain(name: str) -> str:
    return re.sub(r"^chr|\.\d+$", "", name.casefold())

"""Lines of the files that come with sequences: numbered, and those that were not used counted and named."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from transformer.errors import InputError
from transformer.messages import Message
from transformer.text.base import BYTE_ORDER_MARK

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


def shortened(found: Sequence[Message], most: int = MOST_SHOWN) -> list[Message]:
    """The first few messages; a last one says how many more there are."""
    more = [Message("and_more", count=len(found) - most)] if len(found) > most else []
    return [*found[:most], *more]


def other_names(counts: Mapping[str, int], known: Collection[str]) -> Message | None:
    """How many names of sequences in a file are `known`, and how many lines (`counts`) the others have; None for none.

    A name that is a known one but for `chr` or its version is said to look like it, and is no match.
    """
    others = {name: count for name, count in counts.items() if name not in known}
    if not others:
        return None
    looks = {_plain(name): name for name in known}
    listed = tuple(
        Message("name_like", name=f"{name:.60}", count=count, like=looks[_plain(name)])
        if _plain(name) in looks
        else Message("name_other", name=f"{name:.60}", count=count)
        for name, count in others.items()
    )
    fields = dict(matching=len(counts) - len(others), count=len(counts), lines=sum(others.values()))
    return Message(
        "names_match", **fields, names=tuple(dict.fromkeys(known))[:MOST_SHOWN], others=tuple(shortened(listed))
    )


def _plain(name: str) -> str:
    return re.sub(r"^chr|\.\d+$", "", name.casefold())

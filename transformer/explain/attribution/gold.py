"""Which word of a translation belongs to which word of its source, as people say: what alignments are measured against.

Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models" (sure and possible links).
"""

import re
from dataclasses import dataclass
from pathlib import Path

from transformer.errors import InputError
from transformer.text.lines import read_lines

WORD = re.compile(r"\w+(?:[-'\u2019]\w+)*|[^\w\s]")
LINK = re.compile(r"([0-9]{1,6})([-?])([0-9]{1,6})")

Link = tuple[int, int]
"""A word of the source and a word of the translation, both counted from 0."""


def words_of(text: str) -> tuple[str, ...]:
    """The words of `text`: runs of letters and digits, and every other visible character by itself.

    A run may hold single hyphens and apostrophes (' or U+2019). So "T-shirt" and "dad's" are one word, "street." is
    two, and so is "Garten-" before a space.
    """
    return tuple(WORD.findall(text))


@dataclass(frozen=True)
class GoldAlignment:
    """One sentence pair whose words a person has linked.

    `sure` links are those that every annotator would make; `possible` are the others. An alignment owes the sure ones
    and may have the possible ones, so the set called P in the literature is `sure | possible`.
    """

    source: str
    target: str
    sure: frozenset[Link]
    possible: frozenset[Link]

    @property
    def source_words(self) -> tuple[str, ...]:
        """What the first number of a link counts."""
        return words_of(self.source)

    @property
    def target_words(self) -> tuple[str, ...]:
        """What the second number of a link counts."""
        return words_of(self.target)


def gold_alignments(folder: Path, source: str = "en", target: str = "de") -> tuple[GoldAlignment, ...]:
    """The sentence pairs of a folder that holds `sentences.en`, `sentences.de` and `links.txt`, line by line.

    A line of links is in Pharaoh's form with two marks: `0-0 1?2` links word 0 to word 0 surely, and word 1 of the
    source to word 2 of the translation possibly.

    Raises:
        InputError: a file cannot be read, their lines differ in number, or a line holds no link, one that cannot be
            read, one to a word that is not there, or one twice.
    """
    sources, targets, links = (
        read_lines(folder / name) for name in (f"sentences.{source}", f"sentences.{target}", "links.txt")
    )
    if not len(sources) == len(targets) == len(links):
        raise InputError("gold_lines_differ", folder=str(folder), lines=[len(sources), len(targets), len(links)])
    pairs = zip(sources, targets, links, strict=True)
    return tuple(_alignment(*pair, line) for line, pair in enumerate(pairs, 1))


def _alignment(source: str, target: str, written: str, line: int) -> GoldAlignment:
    marked: dict[Link, str] = {}
    n_source, n_target = len(words_of(source)), len(words_of(target))
    for text in written.split():
        found = LINK.fullmatch(text)
        if not found:
            raise InputError("gold_link_unreadable", line=line, link=text)
        link = int(found[1]), int(found[3])
        if link[0] >= n_source or link[1] >= n_target:
            raise InputError("gold_link_outside", line=line, link=text, source=n_source, target=n_target)
        if link in marked:
            raise InputError("gold_link_twice", line=line, link=text)
        marked[link] = found[2]
    if not marked:
        raise InputError("gold_line_without_links", line=line)
    sure = frozenset(link for link, mark in marked.items() if mark == "-")
    return GoldAlignment(source, target, sure, frozenset(marked) - sure)

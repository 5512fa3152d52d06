"""Alignment error rates of every head, layer and method of a translator, against links that people drew.

A holds, for each word of the translation, the source word with the largest value; S are the sure links, P those and
the possible ones. AER = 1 - (|A & S| + |A & P|) / (|A| + |S|). Pieces become words by summing over a source word's
pieces and averaging over a written word's. A word whose largest cell is a special token gets no link. A word may be
looked for in the row that *writes* it, or in the row that *reads* it, one step later: many heads look at a word's
source only then. Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models" (sure and
possible links); Kobayashi et al. 2020, section 5 (both rows); Chen et al. 2020, "Accurate Word Alignment Induction
from Neural Machine Translation" (the shift).
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from operator import add
from pathlib import Path

import numpy as np
from jaxtyping import Float

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.methods import METHODS, attribute, defined
from transformer.plots.axes import WORD_START, Axis
from transformer.runs.concurrency import forward_slot
from transformer.runs.measures.files import MeasureFile
from transformer.runs.translate import Translation, translate
from transformer.text.base import read_lines

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


@dataclass(frozen=True)
class AlignmentCounts:
    """Sizes of the sets, over any number of sentences: they add up."""

    found: int = 0
    sure: int = 0
    possible: int = 0
    found_sure: int = 0
    found_possible: int = 0

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        return AlignmentCounts(*map(add, astuple(self), astuple(other)))

    @property
    def error_rate(self) -> float:
        """0 where every sure link was found and nothing that is not possible; NaN where there is nothing to find."""
        whole = self.found + self.sure
        return 1 - (self.found_sure + self.found_possible) / whole if whole else float("nan")


def alignment_counts(
    values: Float[np.ndarray, "step source"], steps: Axis, source: Axis, gold: GoldAlignment, reads: bool = False
) -> AlignmentCounts:
    """Hold one matrix, in pieces, against the links of its sentence pair; `reads` takes the rows that read a word.

    A row without numbers gives no link.

    Raises:
        InputError: the pieces of an axis are not those of the sentence.
    """
    columns, rows = word_positions(source, gold.source_words), word_positions(steps, gold.target_words)
    specials = [i for i, special in enumerate(source.special) if special]
    groups = [*columns, *([i] for i in specials)]
    links = set()
    for word, pieces in enumerate(rows):
        taken = [i + reads for i in pieces if i + reads < len(values)]
        row = [values[taken][:, list(group)].sum(1).mean() if taken else np.nan for group in groups]
        best = int(np.argmax(row))
        if not np.isnan(row).any() and best < len(columns):
            links.add((best, word))
    possible = gold.sure | gold.possible
    return AlignmentCounts(len(links), len(gold.sure), len(possible), len(links & gold.sure), len(links & possible))


def word_positions(axis: Axis, words: Sequence[str]) -> list[list[int]]:
    """The positions of each word's pieces: a piece belongs to the word that holds its first visible character.

    Raises:
        InputError: the pieces, put together, are not the words.
    """
    owners = [word for word, text in enumerate(words) for _ in text]
    letters = "".join(words)
    found: list[list[int]] = [[] for _ in words]
    place, waiting = 0, list[int]()
    for position, (text, special) in enumerate(zip(axis.texts, axis.special, strict=True)):
        piece = text.replace(WORD_START, "")
        if special:
            continue
        if letters[place : place + len(piece)] != piece:
            raise InputError("gold_pieces_differ", piece=text, words=" ".join(words))
        waiting.append(position)
        if piece:
            found[owners[place]] += waiting
            waiting = []
            place += len(piece)
    if place != len(letters):
        raise InputError("gold_pieces_differ", piece="", words=" ".join(words))
    return found


Rates = dict[str, dict[str, AlignmentCounts]]
"""By name (`weights.2.3` is head 3 of layer 2, `norms.1` a layer, `contributions` a method), by row: written, read."""


@dataclass(frozen=True)
class AlignmentErrors:
    """Counts over so many sentences."""

    sentences: int
    methods: Rates


def alignment_errors(
    checkpoint: Checkpoint,
    gold: Iterable[GoldAlignment],
    only: Collection[str] | None = None,
) -> Rates:
    """Counts of every question, over sentence pairs whose target is walked through; `only` names the methods to ask."""
    found: Rates = defaultdict(lambda: {"written": AlignmentCounts(), "read": AlignmentCounts()})
    for pair in gold:
        translation = translate(checkpoint, pair.source, forced=pair.target)
        sequence = translation.scored_sequence(checkpoint)
        for name, (method, layer, head) in questions(checkpoint, translation, only).items():
            with forward_slot():
                answer = attribute(sequence, translation.record, method, layer, head)
            for row in ("written", "read"):
                counts = alignment_counts(answer.of_source, answer.steps, answer.source, pair, reads=row == "read")
                found[name][row] += counts
    return dict(found)


def questions(
    checkpoint: Checkpoint, translation: Translation, only: Collection[str] | None = None
) -> dict[str, tuple[str, int | None, int | None]]:
    """Every method that is defined, by itself, of each layer and of each head, where it can be asked of one."""
    sequence = translation.scored_sequence(checkpoint)
    cross = [translation.record[site] for site in translation.record if site.group == "decoder.cross"]
    asked: dict[str, tuple[str, int | None, int | None]] = {}
    methods = defined(sequence, translation.record)
    for method in methods if only is None else [one for one in methods if one in only]:
        asked[method] = method, None, None
        for layer, attention in enumerate(cross if "layer" in METHODS[method].takes else ()):
            asked[f"{method}.{layer}"] = method, layer, None
            for head in range(attention.n_heads if "head" in METHODS[method].takes else 0):
                asked[f"{method}.{layer}.{head}"] = method, layer, head
    return asked


FILE = MeasureFile("alignment_error.json", "alignment", AlignmentErrors)
shipped = FILE.beside

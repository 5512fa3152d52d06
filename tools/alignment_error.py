"""Alignment error rates of every head, layer and method of a translator, against links that people drew.

`python -m tools.alignment_error CHECKPOINT FOLDER` prints the table that stands in the card of a checkpoint. The folder
`tools/alignments` holds 100 sentence pairs, and the rules by which their words were linked.

A holds, for each word of the translation, the source word with the largest value; S are the sure links, P those and
the possible ones. AER = 1 - (|A & S| + |A & P|) / (|A| + |S|). Pieces become words by summing over a source word's
pieces and averaging over a written word's. A word whose largest cell is a special token gets no link. A word may be
looked for in the row that *writes* it, or in the row that *reads* it, one step later: many heads look at a word's
source only then. Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models" (sure and
possible links); Kobayashi et al. 2020, section 5 (both rows); Chen et al. 2020, "Accurate Word Alignment Induction
from Neural Machine Translation" (the shift).
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from operator import add
from pathlib import Path

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from heedmap.checkpoint import Checkpoint, load
from heedmap.errors import HeedmapError
from heedmap.explain.attribution.methods import METHODS, attribute, defined
from heedmap.plots.axes import WORD_START, Axis
from heedmap.runs.concurrency import forward_slot
from heedmap.runs.translate import Translation, translate
from heedmap.text.base import read_lines
from tools import ToolError

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
        InputError: a file cannot be read.
        ToolError: their lines differ in number, or a line holds no link, one that cannot be read, one to a word that
            is not there, or one twice.
    """
    sources, targets, links = (
        read_lines(folder / name) for name in (f"sentences.{source}", f"sentences.{target}", "links.txt")
    )
    if not len(sources) == len(targets) == len(links):
        lines = f"{len(sources)} lines of sources, {len(targets)} of translations and {len(links)} of links"
        raise ToolError(f"{folder} holds {lines}: line i of each belongs together")
    pairs = zip(sources, targets, links, strict=True)
    return tuple(_alignment(*pair, line) for line, pair in enumerate(pairs, 1))


def _alignment(source: str, target: str, written: str, line: int) -> GoldAlignment:
    marked: dict[Link, str] = {}
    n_source, n_target = len(words_of(source)), len(words_of(target))
    for text in written.split():
        found = LINK.fullmatch(text)
        if not found:
            raise ToolError(f"line {line} holds {text!r:.40}: write a link as 0-0 (sure) or 0?0 (possible)")
        link = int(found[1]), int(found[3])
        if link[0] >= n_source or link[1] >= n_target:
            words = f"its source has {n_source} words and its translation {n_target}, counted from 0"
            raise ToolError(f"line {line} links {text}, but {words}: link words that are there")
        if link in marked:
            raise ToolError(f"line {line} holds the link {text} twice: a link is sure or possible")
        marked[link] = found[2]
    if not marked:
        raise ToolError(f"line {line} holds no link: link at least one word, or leave the sentence out")
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
        ToolError: the pieces of an axis are not those of the sentence.
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
        ToolError: the pieces, put together, are not the words.
    """
    told = f"the pieces that were read do not make up the words of the links ({' '.join(words)})"
    remedy = "give the sentence pair as the vocabulary writes it"
    owners = [word for word, text in enumerate(words) for _ in text]
    letters = "".join(words)
    found: list[list[int]] = [[] for _ in words]
    place, waiting = 0, list[int]()
    for position, (text, special) in enumerate(zip(axis.texts, axis.special, strict=True)):
        piece = text.replace(WORD_START, "")
        if special:
            continue
        if letters[place : place + len(piece)] != piece:
            raise ToolError(f"{told}, from {text!r} on: {remedy}")
        waiting.append(position)
        if piece:
            found[owners[place]] += waiting
            waiting = []
            place += len(piece)
    if place != len(letters):
        raise ToolError(f"{told}, which go on after them: {remedy}")
    return found


Rates = dict[str, dict[str, AlignmentCounts]]
"""By name (`weights.2.3` is head 3 of layer 2, `norms.1` a layer, `contributions` a method), by row: written, read."""


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


def table(rates: Rates) -> str:
    """The error rates as a table in Markdown, a line for each method, layer and head that was asked."""
    lines = ["| method, layer, head | row that writes the word | row that reads it |", "| --- | --- | --- |"]
    for name, of in rates.items():
        lines.append(f"| {name} | {of['written'].error_rate:.1%} | {of['read'].error_rate:.1%} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a checkpoint; returns the exit status, which is 2 for what is refused."""
    parser = argparse.ArgumentParser(prog="python -m tools.alignment_error", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="folder of a translator")
    folder = "folder with sentences.SOURCE, sentences.TARGET and links.txt"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    endings, two = "endings of the sentences' files (default: en de)", ("SOURCE", "TARGET")
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=two, help=endings)
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), metavar="METHOD", help="ask these alone")
    parser.add_argument("--quiet", action="store_true", help="no bar")
    given = parser.parse_args(arguments)
    try:
        gold = gold_alignments(given.folder, *given.languages)
        bar = tqdm(gold, unit="sentence", disable=given.quiet)
        rates = alignment_errors(load(given.checkpoint), bar, given.methods)
    except (ToolError, HeedmapError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(table(rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())

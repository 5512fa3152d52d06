"""Known motifs in a file that someone brings: MEME's minimal format, or position frequency matrices of JASPAR.

Sources: meme-suite.org, "MEME motif format"; jaspar.elixir.no, "PFM". Motifs over other letters than DNA's are refused.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from transformer.errors import InputError
from transformer.messages import Message

LETTERS = "ACGT"
"""The rows of a known motif."""

MAX_MOTIFS, MAX_COLUMNS = 5_000, 200
"""Most motifs of a file, and most columns of one."""

UNEVEN = 0.05
"""How far the probabilities of a column may be from 1 in sum, since files round them."""

Line = tuple[int, str]
"""A line without the space around it, and its number from 1."""

_ALPHABETS = {"ACDEFGHIKLMNPQRSTVWY": "protein", "ACGU": "RNA"}
_MATRIX = "letter-probability matrix:"


@dataclass(frozen=True, eq=False)
class KnownMotif:
    """A motif of a file: its id, the further name that it may have, and the share of each letter in each column."""

    id: str
    name: str
    frequencies: Float[np.ndarray, "letter column"]

    @property
    def text(self) -> str:
        """Id and name."""
        return f"{self.id} {self.name}".rstrip()


def read_motifs(text: str) -> list[KnownMotif]:
    """The motifs of a file, in its order.

    Raises:
        InputError: it is of neither format, of another alphabet, damaged (the line is named), empty, or has too many.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    first = lines[0][1] if lines else ""
    if re.match(r"MEME version\b", first, re.IGNORECASE):
        found = list(_meme(lines))
    elif first.startswith(">"):
        found = list(_jaspar(lines))
    else:
        raise InputError("known_format", line=lines[0][0] if lines else 1)
    if not found:
        raise InputError("known_none")
    return found


def _meme(lines: Sequence[Line]) -> Iterator[KnownMotif]:
    title: tuple[str, str] | None = None
    count, at = 0, 0
    while at < len(lines):
        number, line = lines[at]
        at += 1
        if line.upper().startswith("ALPHABET"):
            _refuse_other_letters(number, line)
        elif line.startswith("MOTIF"):
            words = line.split(maxsplit=2)[1:]
            if not words:
                raise InputError("known_line", line=number, found=line[:60], wanted=Message("need_motif_name"))
            title = words[0], words[1] if len(words) == 2 else ""
        elif line.startswith(_MATRIX):
            if title is None:
                raise InputError("known_line", line=number, found=line[:60], wanted=Message("need_motif_before"))
            width = _width(number, line)
            rows = lines[at : at + width]
            columns = [_column(*row) for row in rows]
            if len(columns) < width:
                raise InputError("known_ends", name=title[0], found=len(columns), width=width)
            count = _counted(count)
            yield KnownMotif(*title, np.array(columns).T)
            at, title = at + width, None


def _refuse_other_letters(number: int, line: str) -> None:
    """An alphabet is named by its letters, or by a name in quotes, where it is of the reader's own."""
    given = line[len("ALPHABET") :].lstrip(" =").strip()
    if given and given.upper() != LETTERS and not re.match(r'"?DNA\b', given, re.IGNORECASE):
        name = _ALPHABETS.get(given.upper(), given[:40])
        raise InputError("known_alphabet", line=number, alphabet=name)


def _width(number: int, line: str) -> int:
    """The number of columns that the line before a matrix says."""
    facts = dict(re.findall(r"(\w+)\s*=\s*(\S+)", line))
    letters = facts.get("alength", "4")
    if letters != "4":
        raise InputError("known_alphabet", line=number, alphabet=f"alength= {letters[:10]}")
    if not re.fullmatch(r"\d{1,6}", facts.get("w", "")) or not 1 <= int(facts["w"]) <= MAX_COLUMNS:
        raise InputError("known_line", line=number, found=line[:60], wanted=Message("need_width", most=MAX_COLUMNS))
    return int(facts["w"])


def _column(number: int, line: str) -> list[float]:
    values = _numbers(number, line.split())
    total = sum(values)
    if len(values) != len(LETTERS) or abs(total - 1) > UNEVEN:
        raise InputError("known_line", line=number, found=line[:60], wanted=Message("need_probabilities"))
    return [value / total for value in values]


def _jaspar(lines: Sequence[Line]) -> Iterator[KnownMotif]:
    count = 0
    for at in range(0, len(lines), 5):
        number, header = lines[at]
        if not header.startswith(">") or not header[1:].strip():
            raise InputError("known_line", line=number, found=header[:60], wanted=Message("need_header"))
        motif_id, _, name = header[1:].strip().partition("\t" if "\t" in header else " ")
        rows = [_counts(*row, letter) for row, letter in zip(lines[at + 1 : at + 5], LETTERS, strict=False)]
        if len(rows) < len(LETTERS):
            raise InputError("known_ends", name=motif_id, found=len(rows), width=len(LETTERS))
        if len(set(map(len, rows))) > 1 or not 1 <= len(rows[0]) <= MAX_COLUMNS:
            raise InputError("known_uneven", name=motif_id, line=number, counts=[len(row) for row in rows])
        counts = np.array(rows)
        if not (counts.sum(axis=0) > 0).all():
            raise InputError("known_line", line=number, found=header[:60], wanted=Message("need_count"))
        count = _counted(count)
        yield KnownMotif(motif_id, name.strip(), counts / counts.sum(axis=0))


def _counts(number: int, line: str, letter: str) -> list[float]:
    """A row of counts: `A [ 3 0 12 ]`, or the numbers alone, in the order A, C, G, T."""
    named = re.fullmatch(r"([A-Za-z])\s*\[?([^\[\]]*)\]?", line)
    if named is not None and named[1].upper() != letter:
        if named[1].upper() == "U":
            raise InputError("known_alphabet", line=number, alphabet="RNA")
        raise InputError("known_line", line=number, found=line[:60], wanted=Message("need_counts", letter=letter))
    return _numbers(number, (named[2] if named else line).split())


def _numbers(number: int, words: Sequence[str]) -> list[float]:
    """Numbers of a line, none of them negative."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise InputError("known_line", line=number, found=" ".join(words)[:60], wanted=Message("need_numbers"))
    return values


def _counted(count: int) -> int:
    """One more motif.

    Raises:
        InputError: now there are too many.
    """
    if count == MAX_MOTIFS:
        raise InputError("known_many", most=MAX_MOTIFS)
    return count + 1

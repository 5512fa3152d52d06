"""Biological sequences as letters: which letters a checkpoint reads, what an ambiguous code means, how a strand turns.

Source of the codes: IUPAC-IUB, Cornish-Bowden 1985 (nucleotides) and IUPAC-IUB 1984 (amino acids).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import UInt8

from ..errors import ConfigError, InputError
from ..messages import Message

GAPS = frozenset("-.~")
"""What stands for nothing in the row of an alignment."""


@dataclass(frozen=True)
class Alphabet:
    """The letters of a checkpoint, with ids in their order; the id after the last is `unknown`.

    `ambiguous` maps each further code to the letters that it may stand for: every such code is read as unknown, and
    counted. `aliases` are other spellings of one letter (RNA's U is DNA's T). `complement` pairs each code with the
    one opposite; it is empty where there is no other strand.

    Raises:
        ConfigError: no letters, one twice, or an `unknown` that is no ambiguous code.
    """

    name: str
    letters: str
    unknown: str
    ambiguous: Mapping[str, str]
    aliases: Mapping[str, str]
    complement: Mapping[str, str]

    def __post_init__(self) -> None:
        if len(set(self.letters)) < len(self.letters) or not self.letters:
            raise ConfigError("alphabet_letters", letters=self.letters)
        if self.unknown in self.letters or self.unknown not in self.ambiguous:
            raise ConfigError("alphabet_unknown", unknown=self.unknown)

    @classmethod
    def of(cls, name: str) -> "Alphabet":
        """The alphabet that a checkpoint's config names: `dna` or `protein`.

        Raises:
            ConfigError: the name is not known.
        """
        if name not in ALPHABETS:
            raise ConfigError("alphabet_not_known", alphabet=name, choices=tuple(ALPHABETS))
        return ALPHABETS[name]

    def __len__(self) -> int:
        """Ids in use: the letters and `unknown`."""
        return len(self.letters) + 1

    @property
    def unknown_id(self) -> int:
        """The id of every code that does not name one letter."""
        return len(self.letters)

    def read(self, text: str) -> "Letters":
        """The sequence in `text`: white space and case do not matter; aliases become letters and are counted.

        Raises:
            InputError: nothing is left, or a character is no code of this alphabet.
        """
        written = "".join(text.split())
        typed = written.upper()
        small = 0 if written == typed else sum(written.count(letter) for letter in set(written) if letter.islower())
        if not typed:
            raise InputError("letters_empty", alphabet=self.name, letters=self.letters)
        foreign = typed.translate(self._delete_codes)
        if foreign:
            raise self._refusal(typed, foreign)
        counts = Counter(typed)
        return Letters(
            alphabet=self,
            text=typed.translate({ord(code): letter for code, letter in self.aliases.items()}),
            ambiguous={code: counts[code] for code in self.ambiguous if counts[code]},
            aliased={code: counts[code] for code in self.aliases if counts[code]},
            masked=small if small < len(written) else 0,
        )

    def ids(self, text: str) -> list[int]:
        """The id of each letter of a sequence that was read."""
        return [self._ids[letter] for letter in text]

    def id_array(self, text: str) -> UInt8[np.ndarray, " letter"]:
        """`ids` for long sequences: one byte a letter."""
        table = bytes(self._ids.get(chr(code), self.unknown_id) for code in range(256))
        return np.frombuffer(text.encode("latin-1").translate(table), np.uint8)

    def complement_ids(self) -> UInt8[np.ndarray, " id"]:
        """The id opposite to each id; unknown letters are opposite to unknown ones."""
        pairs = [self.reverse_complement(letter) for letter in self.letters]
        return np.array([*self.ids("".join(pairs)), self.unknown_id], np.uint8)

    def reverse_complement(self, text: str) -> str:
        """The other strand, read in its own direction (5' to 3').

        Raises:
            InputError: letters of this alphabet have no complement.
        """
        if not self.complement:
            raise InputError("no_other_strand", alphabet=self.name)
        return text.translate({ord(code): other for code, other in self.complement.items()})[::-1]

    def _refusal(self, typed: str, foreign: str) -> InputError:
        """What to say of `foreign` characters, the first of them by its place."""
        where: dict[str, object] = {"position": typed.index(foreign[0]) + 1, "letter": foreign[0]}
        if set(foreign) <= GAPS:
            return InputError("letters_gapped", **where, count=len(foreign))
        if foreign.isdecimal():
            return InputError("letters_numbered", **where)
        if self.name != PROTEIN.name and not typed.translate(PROTEIN._delete_codes):
            return InputError("letters_protein", **where, alphabet=self.name)
        codes = "".join(self.ambiguous)
        return InputError("letters_foreign", **where, alphabet=self.name, letters=self.letters, codes=codes)

    @cached_property
    def _ids(self) -> dict[str, int]:
        known = {letter: i for i, letter in enumerate(self.letters)}
        return known | dict.fromkeys(self.ambiguous, self.unknown_id)

    @cached_property
    def _delete_codes(self) -> dict[int, None]:
        return dict.fromkeys(map(ord, [*self.letters, *self.ambiguous, *self.aliases]))


@dataclass(frozen=True)
class Letters:
    """A sequence that a checkpoint can read: upper-case codes, and what had to be interpreted.

    `masked` counts lower-case letters beside upper-case ones, by which repeats are marked (soft-masked).
    """

    alphabet: Alphabet
    text: str
    ambiguous: Mapping[str, int]
    aliased: Mapping[str, int]
    masked: int = 0

    def __len__(self) -> int:
        return len(self.text)

    @property
    def ids(self) -> list[int]:
        """The id of each letter."""
        return self.alphabet.ids(self.text)

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each thing that was read as something else."""
        aliased = [
            Message("note_alias", code=code, count=count, letter=self.alphabet.aliases[code])
            for code, count in self.aliased.items()
        ]
        unknown = [
            Message("note_ambiguous", code=code, count=count, letters=tuple(self.alphabet.ambiguous[code]))
            for code, count in self.ambiguous.items()
        ]
        masked = (Message("note_masked", count=self.masked),) if self.masked else ()
        return (*aliased, *unknown, *masked)


DNA = Alphabet(
    name="DNA",
    letters="ACGT",
    unknown="N",
    ambiguous={
        "N": "ACGT", "R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC",
        "B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG",
    },
    aliases={"U": "T"},
    complement=dict(zip("ACGTNRYSWKMBDHV", "TGCANYRSWMKVHDB", strict=True)),
)  # fmt: skip
"""Four bases; RNA's U is read as T."""

PROTEIN = Alphabet(
    name="protein",
    letters="ACDEFGHIKLMNPQRSTVWY",
    unknown="X",
    ambiguous={"X": "ACDEFGHIKLMNPQRSTVWY", "B": "DN", "Z": "EQ", "J": "IL", "U": "C", "O": "K"},
    aliases={},
    complement={},
)
"""Twenty amino acids; selenocysteine (U) and pyrrolysine (O), which no model here knows, are unknown."""

ALPHABETS: dict[str, Alphabet] = {"dna": DNA, "protein": PROTEIN}
"""Alphabets that a checkpoint's config may name."""

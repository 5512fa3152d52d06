"""Axes: what the rows and columns of an attention map stand for.

An axis knows the text of each token, which tokens make up a word, and which are special tokens rather than text.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import SupportsIndex

import numpy as np
from jaxtyping import Float, Int

from ..errors import InputError
from ..messages import Message
from ..text.base import LACKING

WORD_START = "▁"
"""How SentencePiece writes the space before a word."""


@dataclass(frozen=True)
class Axis:
    """One axis of an attention map: its `name`, and the label of each position in `texts`.

    `words[i]` is the index of the word that token i belongs to; `special[i]` marks start, end and padding. `grid` are
    rows and columns of a picture whose patches the last positions are, row by row; those before (CLS) are no patches.
    """

    name: str
    texts: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]
    grid: tuple[int, int] | None = None

    @classmethod
    def of_pieces(cls, name: str, pieces: Sequence[str], special: Sequence[bool]) -> "Axis":
        """The axis of SentencePiece pieces: a word starts at a piece with a leading ▁; special tokens are words.

        The first piece after a special token starts a word also without ▁. Punctuation before or after a word is a
        word by itself, where pieces part it from the word; within a word (an apostrophe, a hyphen) it belongs to it.
        Where no piece has a ▁, tokens are no pieces: each is a word by itself.
        """
        whole = not any(piece.startswith(WORD_START) for piece in pieces)
        starts = [
            i
            for i, piece in enumerate(pieces)
            if whole or i == 0 or special[i] or special[i - 1] or piece.startswith(WORD_START)
        ]
        lengths: list[int] = []
        for start, end in pairwise([*starts, len(pieces)]):
            lengths.extend(_parted_lengths(pieces[start:end]))
        words = tuple(word for word, length in enumerate(lengths) for _ in range(length))
        return cls(name, tuple(pieces), words, tuple(special))

    @classmethod
    def of_text(cls, name: str, text: str) -> "Axis":
        """The axis of a text's characters, without its spaces: they make up the words that its pieces would."""
        words = text.split()
        characters = [WORD_START * (i == 0) + letter for word in words for i, letter in enumerate(word)]
        return cls.of_pieces(name, characters, [False] * len(characters))

    @classmethod
    def of_offsets(
        cls, name: str, text: str, offsets: Iterable[Iterable[SupportsIndex]], tokens: Sequence[str] | None = None
    ) -> "Axis":
        """The axis of pieces that say where in `text` they stand, as a tokenizer's offset mapping: (start, end) each.

        Pieces that touch are one word, white space divides; punctuation before and after a word is parted from it as
        in `of_pieces`. A piece at (0, 0) is a special token, called as in `tokens` where they are given. Bytes of one
        letter share its place.

        Raises:
            InputError: an offset lies outside of the text or goes back, or there are not as many `tokens`.
        """
        spans = [(int(start), int(end)) for start, end in offsets]
        if tokens is not None and len(tokens) != len(spans):
            raise InputError("offsets_tokens", found=len(tokens), needed=len(spans))
        special = [span == (0, 0) for span in spans]
        pieces, before, space = [], (0, 0), True
        for i, (start, end) in enumerate(spans):
            if special[i]:
                pieces.append(Message("label_special") if tokens is None else tokens[i])
                space = True
                continue
            if not 0 <= start <= end <= len(text):
                raise InputError("offsets_outside", number=i, start=start, end=end, length=len(text))
            if start < before[0] or end < before[1]:
                raise InputError("offsets_go_back", number=i, start=start, end=end, last=before)
            piece = text[start:end]
            begins = space or start > before[1] or piece[:1].isspace()
            stripped = piece.strip() or piece.replace(" ", "")
            pieces.append(WORD_START * begins + stripped)
            before, space = (start, end), bool(piece.strip()) and piece[-1].isspace()
        return cls.of_pieces(name, pieces, special)

    @classmethod
    def of_tokens(cls, name: str, texts: Sequence[str]) -> "Axis":
        """An axis whose tokens are words, bases or windows already."""
        return cls(name, tuple(texts), tuple(range(len(texts))), (False,) * len(texts))

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The texts, made unique: the second `the` is `the (2)`, unless that is a token itself."""
        total, seen = Counter(self.texts), Counter[str]()
        labels: list[str] = []
        for text in self.texts:
            label = text
            while total[text] > 1 and label in total:
                seen[text] += 1
                label = f"{text} ({seen[text]})"
            labels.append(label)
        return tuple(labels)

    def kept(self, positions: Sequence[int]) -> "Axis":
        """The axis of some of the positions."""
        return Axis(
            self.name,
            tuple(self.texts[i] for i in positions),
            tuple(self.words[i] for i in positions),
            tuple(self.special[i] for i in positions),
        )

    def extended(self, text: str) -> "Axis":
        """The same axis with one more position at its end, a word of its own."""
        return self.joined(Axis.of_tokens(self.name, [text]), self.name)

    def joined(self, other: "Axis", name: str) -> "Axis":
        """This axis with another one behind it; no word reaches from one into the other."""
        first = max(self.words, default=-1) + 1
        words = (*self.words, *(first + word for word in other.words))
        return Axis(name, (*self.texts, *other.texts), words, (*self.special, *other.special))

    def merged(self) -> "Axis":
        """The same axis in whole words; the unknown token is named once, after the word that it stands in."""
        texts: dict[int, str] = {}
        special: dict[int, bool] = {}
        for text, word, is_special in zip(self.texts, self.words, self.special, strict=True):
            before, *named = texts.get(word, "").split(LACKING)
            piece, *lacking = text.split(LACKING)
            texts[word] = LACKING.join([before + piece, *(named or lacking)])
            special[word] = is_special
        return Axis(
            self.name,
            tuple(text.replace(WORD_START, " ").strip() or text for text in texts.values()),
            tuple(range(len(texts))),
            tuple(special.values()),
        )

    @cached_property
    def attached(self) -> tuple[bool, ...]:
        """True for each word that is written without a space before it, as a full stop is after its word."""
        first = [i for i, word in enumerate(self.words) if i == 0 or self.words[i - 1] != word]
        spaced = any(text.startswith(WORD_START) for text in self.texts)
        return tuple(
            spaced and i > 0 and not (self.special[i] or self.special[i - 1] or self.texts[i].startswith(WORD_START))
            for i in first
        )

    @cached_property
    def word_starts(self) -> Int[np.ndarray, " word"]:
        """The first position of each word."""
        return np.flatnonzero(np.diff(self.words, prepend=-1))

    @cached_property
    def membership(self) -> Float[np.ndarray, "word position"]:
        """1 where a position belongs to a word: the matrix that sums tokens to words."""
        index = {word: i for i, word in enumerate(dict.fromkeys(self.words))}
        member = np.zeros((len(index), len(self)))
        member[[index[word] for word in self.words], np.arange(len(self))] = 1.0
        return member


def pooling_queries(count: int) -> Axis:
    """The queries of an attention that pools all positions for a decision: one for each question that it asks."""
    labels = [Message("label_question", number=i + 1) for i in range(count)]
    return Axis.of_tokens(Message("axis_pooling"), [Message("label_decision")] if count == 1 else labels)


def _parted_lengths(pieces: Sequence[str]) -> list[int]:
    """The lengths of what the pieces between two spaces are made of: punctuation, a word, punctuation."""
    marks = [_is_punctuation(piece) for piece in pieces]
    before = len(list(takewhile(bool, marks)))
    if before == 0 and pieces[0] == WORD_START:  # the space alone goes with the punctuation after it
        before = len(list(takewhile(bool, marks[1:])))
        before += before > 0
    after = len(list(takewhile(bool, reversed(marks[before:]))))
    return [length for length in (before, len(pieces) - before - after, after) if length]


def _is_punctuation(piece: str) -> bool:
    letters = piece.partition(LACKING)[0].replace(WORD_START, "")
    return bool(letters) and all(unicodedata.category(letter).startswith("P") for letter in letters)

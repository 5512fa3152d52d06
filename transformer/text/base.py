"""What every tokenizer offers: ids in, ids out, and the label that a person reads for each."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from transformer.errors import InputError

LACKING = "\u00a0"
"""Between what stands in a text and the name of the unknown token, which is all that the model reads of it."""


@runtime_checkable
class SpecialTokens(Protocol):
    """The ids that mean no word, of a tokenizer and of a model's config."""

    @property
    def pad_id(self) -> int:
        """Fills up short rows of a batch; -1 where there is none."""

    @property
    def bos_id(self) -> int:
        """Starts every target."""

    @property
    def eos_id(self) -> int:
        """Ends every source and every target."""


@runtime_checkable
class Tokenizer(SpecialTokens, Protocol):
    """Text to ids and back, with the special tokens that mean no word."""

    @property
    def unknown_id(self) -> int:
        """Stands for what the vocabulary lacks; -1 where there is none."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens.

        Raises:
            InputError: `text` holds what has no id.
        """

    def pieces(self, text: str) -> list[str]:
        """The tokens of `text` as they stand in it, one for each id."""

    def source_ids(self, text: str) -> list[int]:
        """What an encoder reads: the ids of `text` and the end token."""

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads: the ids of `text`, among special tokens where its family is known.

        A vocabulary alone does not tell whether such an encoder was trained with any.
        """

    def target_ids(self, text: str) -> list[int]:
        """A whole target: start token, the ids of `text`, end token."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens and padding leave no trace."""

    def labels(self, ids: Iterable[int]) -> list[str]:
        """What a person reads for each id."""

    def is_special(self, token: int) -> bool:
        """Whether `token` is a special token or padding, and so no part of any text."""


@runtime_checkable
class FolderTokenizer(Tokenizer, Protocol):
    """The tokenizer that a checkpoint's folder brings."""

    @property
    def max_length(self) -> int | None:
        """Most tokens that its model reads, if it knows."""

    @property
    def languages(self) -> tuple[str, str]:
        """What it reads and writes, if it knows; empty otherwise."""

    def as_target(self) -> "FolderTokenizer":
        """The same tokenizer for what is written, where its model reads one language and writes another."""


def check_unicode(text: str) -> None:
    """Refuse text that cannot be written as UTF-8.

    Raises:
        InputError: it holds half of a surrogate pair.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError("broken_character", position=error.start + 1) from error


def unknown_name(tokenizer: Tokenizer) -> str:
    """What the unknown token is called, without the ▁ of a word's beginning."""
    return tokenizer.labels([tokenizer.unknown_id])[0].lstrip("▁")


def labels_as_typed(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[str]:
    """What a person reads for each of `ids`, which begin with those of `text`, special tokens before and after them.

    The tokens of the text are shown as they stand in it; after one that the vocabulary lacks, the unknown token is
    named, since that is all that the model reads of it.
    """
    typed, known = tokenizer.encode(text), list(ids)
    starts = range(len(known) - len(typed) + 1)
    start = next((i for i in starts if known[i : i + len(typed)] == typed), None)
    if start is None:  # within a sentence the tokenizer cuts otherwise than alone
        return tokenizer.labels(known)
    before, after = known[:start], known[start + len(typed) :]
    unknown = tokenizer.unknown_id
    name = unknown_name(tokenizer) if unknown in typed else ""
    pieces = [
        f"{piece}{LACKING}{name}" if token == unknown and piece.lstrip("▁") != name else piece
        for piece, token in zip(tokenizer.pieces(text), typed, strict=True)
    ]
    return [*tokenizer.labels(before), *pieces, *tokenizer.labels(after)]

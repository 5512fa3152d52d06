"""What every tokenizer offers: ids in, ids out, and the label that a person reads for each. Text files as lines.

Text files are UTF-8, and only a line feed ends a line. Python's `splitlines` also breaks at form feeds, at U+2028 and
at six others, so line i of a translation would no longer be line i of its source. A carriage return before the line
feed belongs to the line end, as Windows writes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import InputError

LACKING = "\u00a0"
"""Between what stands in a text and the name of the unknown token, which is all that the model reads of it."""


class Tokenizer(ABC):
    """Text to ids and back, with the special tokens that mean no word; an id of -1 stands for one that there is not.

    `pad_id` fills up short rows of a batch, `bos_id` starts every target, `eos_id` ends every source and every target,
    `unknown_id` stands for what the vocabulary lacks; `mask` is how a word that is to be filled in is typed, `mask_id`
    its id. `max_length` is the most tokens that its model reads, `languages` what it reads and writes, where known.
    """

    pad_id: int = -1
    bos_id: int = -1
    eos_id: int = -1
    unknown_id: int = -1
    mask_id: int = -1
    mask: str = ""
    max_length: int | None = None
    languages: tuple[str, str] = ("", "")

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens.

        Raises:
            InputError: `text` holds what has no id, or takes too much; so do all calls below.
        """

    @abstractmethod
    def pieces(self, text: str) -> list[str]:
        """The tokens of `text` as they stand in it, one for each id; what the vocabulary lacks is shown as itself."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens and padding leave no trace."""

    @abstractmethod
    def labels(self, ids: Iterable[int]) -> list[str]:
        """What a person reads for each id; where pieces make up words, a leading ▁ starts one."""

    def is_special(self, token: int) -> bool:
        """Whether `token` is a special token or padding, and so no part of any text."""
        return token in {self.pad_id, self.bos_id, self.eos_id}

    def source_ids(self, text: str) -> list[int]:
        """What an encoder reads: the ids of `text` and the end token, where there is one."""
        return [*self.encode(text), *([self.eos_id] if self.eos_id >= 0 else [])]

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads: the ids of `text`, among special tokens where its family is known.

        A vocabulary alone does not tell whether such an encoder was trained with any.
        """
        return self.encode(text)

    def target_ids(self, text: str) -> list[int]:
        """A whole target: start token, the ids of `text`, end token."""
        return [*([self.bos_id] if self.bos_id >= 0 else []), *self.source_ids(text)]

    def as_target(self) -> "Tokenizer":
        """The same tokenizer for what is written, where its model reads one language and writes another."""
        return self


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


def both_sides(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of a text and of its translation.

    Raises:
        InputError: a file cannot be read or is empty, or they have different numbers of lines.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        files = {"source": str(source), "reference": str(target)}
        raise InputError("pairs_differ", **files, source_lines=len(sources), reference_lines=len(targets))
    if not sources:
        raise InputError("file_without_lines", file=str(source))
    return sources, targets

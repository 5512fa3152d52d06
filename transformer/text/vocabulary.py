"""Tokenizers for checkpoints that bring none of their own: words from a list, or the ids themselves."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

from transformer.errors import CheckpointError, InputError

USUAL_NAMES = {
    "pad_id": ("<pad>", "[pad]", "<blank>", "<padding>", "pad", "_pad_"),
    "bos_id": ("<s>", "<bos>", "<sos>", "[bos]", "[cls]", "<start>", "sos", "bos"),
    "eos_id": ("</s>", "<eos>", "[eos]", "[sep]", "<end>", "eos"),
    "unknown_id": ("<unk>", "[unk]", "<unknown>", "unk", "<oov>"),
}
"""What special tokens are usually called, in lower case."""

_NUMBER = re.compile(r"[0-9]{1,9}\Z")


@dataclass(frozen=True)
class SpecialIds:
    """Ids that mean no word; -1 where there is none. `unknown_id` stands for a word that the list lacks."""

    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unknown_id: int = -1


NO_SPECIAL_IDS = SpecialIds(-1, -1, -1)
"""For a first look at a vocabulary, whose special tokens are not known yet."""


class _WithSpecialIds(ABC):
    """The part that does not depend on what a token is."""

    def __init__(self, size: int, special_ids: SpecialIds) -> None:
        for field in fields(special_ids):
            special = getattr(special_ids, field.name)
            if not -1 <= special < size:
                raise CheckpointError("special_id_outside", name=field.name, id=special, last=size - 1)
        self._size, self.special_ids = size, special_ids

    @property
    def pad_id(self) -> int:
        """Fills up short rows of a batch; -1 where there is none."""
        return self.special_ids.pad_id

    @property
    def bos_id(self) -> int:
        """Starts every decoder input."""
        return self.special_ids.bos_id

    @property
    def eos_id(self) -> int:
        """Ends every source and every target."""
        return self.special_ids.eos_id

    @property
    def unknown_id(self) -> int:
        """Stands for what the vocabulary lacks; -1 where there is none."""
        return self.special_ids.unknown_id

    def __len__(self) -> int:
        return self._size

    def is_special(self, token: int) -> bool:
        """Whether `token` is a special token or padding, and so no part of any text."""
        return token in {self.pad_id, self.bos_id, self.eos_id}

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens."""

    def source_ids(self, text: str) -> list[int]:
        """What an encoder reads: the ids of `text` and the end token, where there is one."""
        return [*self.encode(text), *([self.eos_id] if self.eos_id >= 0 else [])]

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads: the ids of `text`."""
        return self.encode(text)

    def target_ids(self, text: str) -> list[int]:
        """A whole target: start token, the ids of `text`, end token."""
        return [*([self.bos_id] if self.bos_id >= 0 else []), *self.source_ids(text)]


class VocabularyTokenizer(_WithSpecialIds):
    """Words divided by spaces, each looked up in a list as it is, then in lower case; its position is its id."""

    def __init__(self, tokens: Sequence[str], special_ids: SpecialIds) -> None:
        """`tokens` in the order of their ids.

        Raises:
            CheckpointError: a token stands twice, or a special id is no id.
        """
        super().__init__(len(tokens), special_ids)
        self.tokens = tuple(tokens)
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self._ids) < len(self.tokens):
            double = next(token for i, token in enumerate(self.tokens) if self._ids[token] != i)
            raise CheckpointError("token_stands_twice", token=double)

    def with_special_ids(self, special_ids: SpecialIds) -> "VocabularyTokenizer":
        """The same list, which is shared, with `special_ids` where it names none itself.

        Raises:
            CheckpointError: one of them is no id.
        """
        named = {field.name: getattr(self.special_ids, field.name) for field in fields(self.special_ids)}
        made = copy(self)
        known = {name: i for name, i in named.items() if i >= 0}
        _WithSpecialIds.__init__(made, len(self), replace(special_ids, **known))
        return made

    def encode(self, text: str) -> list[int]:
        """Ids of the words of `text`, without special tokens.

        Raises:
            InputError: a word is not in the list, and there is no id for unknown words.
        """
        ids = [self._ids.get(word, self._ids.get(word.lower(), self.special_ids.unknown_id)) for word in text.split()]
        if -1 in ids:
            word = text.split()[ids.index(-1)]
            raise InputError("word_is_unknown", word=word)
        return ids

    def pieces(self, text: str) -> list[str]:
        """The words of `text` as they stand in it."""
        return text.split()

    def decode(self, ids: Sequence[int]) -> str:
        """The words of `ids`; special tokens and padding leave no trace."""
        return " ".join(self.tokens[int(i)] for i in ids if not self.is_special(int(i)))

    def labels(self, ids: Iterable[int]) -> list[str]:
        """The token of each id."""
        return [self.tokens[int(i)] for i in ids]


class LetterTokenizer(VocabularyTokenizer):
    """Letters, each looked up in a list as it is, spaces among them."""

    def encode(self, text: str) -> list[int]:
        """Ids of the letters of `text`, without special tokens.

        Raises:
            InputError: a letter is not in the list, and there is no id for unknown ones.
        """
        ids = [self._ids.get(letter, self.special_ids.unknown_id) for letter in text]
        if -1 in ids:
            raise InputError("word_is_unknown", word=text[ids.index(-1)])
        return ids

    def pieces(self, text: str) -> list[str]:
        """The letters of `text`."""
        return list(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The letters of `ids`; special tokens and padding leave no trace."""
        return "".join(self.tokens[int(i)] for i in ids if not self.is_special(int(i)))


class IdTokenizer(_WithSpecialIds):
    """No vocabulary: a text is numbers divided by spaces, and the numbers are the ids."""

    def __init__(self, size: int, special_ids: SpecialIds) -> None:
        """`size` is the number of rows of the embedding.

        Raises:
            CheckpointError: a special id is no id.
        """
        super().__init__(size, special_ids)

    def encode(self, text: str) -> list[int]:
        """The numbers of `text`, without special tokens.

        Raises:
            InputError: something is no number, or no id of this vocabulary.
        """
        words = text.split()
        for word in words:
            if not _NUMBER.match(word) or int(word) >= len(self):
                raise InputError("word_is_no_id", word=word, last=len(self) - 1)
        return [int(word) for word in words]

    def pieces(self, text: str) -> list[str]:
        """The numbers of `text` as they stand in it."""
        return text.split()

    def decode(self, ids: Sequence[int]) -> str:
        """The numbers themselves; special tokens and padding leave no trace."""
        return " ".join(str(int(i)) for i in ids if not self.is_special(int(i)))

    def labels(self, ids: Iterable[int]) -> list[str]:
        """Each id as a number."""
        return [str(int(i)) for i in ids]


def id_tokenizers(config: Any) -> tuple[IdTokenizer, IdTokenizer | None]:
    """Ids alone, for what a model reads and for what it writes (None if it writes nothing), told from its config."""

    def of_size(size: int, pad: str = "pad_id") -> IdTokenizer:
        pad_id, bos_id, eos_id = (getattr(config, name, -1) for name in (pad, "bos_id", "eos_id"))
        return IdTokenizer(size, SpecialIds(*(i if i < size else -1 for i in (pad_id, bos_id, eos_id))))

    if hasattr(config, "source_vocab"):
        pad = "written_pad_id" if hasattr(config, "written_pad_id") else "pad_id"
        return of_size(config.source_vocab), of_size(config.target_vocab, pad)
    return of_size(config.vocab), None


def find_special_ids(tokens: Sequence[str]) -> dict[str, int]:
    """The special tokens that a vocabulary names in a usual way; the others are left out, to be asked for."""
    ids = {token.lower(): i for i, token in reversed(list(enumerate(tokens)))}
    found = {}
    for name, usual in USUAL_NAMES.items():
        known = [ids[spelling] for spelling in usual if spelling in ids]
        if known:
            found[name] = known[0]
    return found

"""Tokenizers: SentencePiece pieces; and for checkpoints that bring none, words from a list, or the ids themselves.

Source: Kudo and Richardson 2018, "SentencePiece".
"""

import io
import re
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..distribution import extra
from ..errors import CheckpointError, InputError, TrainingError
from .base import Tokenizer, check_unicode

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
    """Ids that mean no word, as `Tokenizer` calls them; -1 where there is none."""

    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unknown_id: int = -1


NO_SPECIAL_IDS = SpecialIds(-1, -1, -1)
"""For a first look at a vocabulary, whose special tokens are not known yet."""


class WithSpecialIds(Tokenizer):
    """A tokenizer of `size` ids, which knows those of its special tokens."""

    def __init__(self, size: int, special_ids: SpecialIds) -> None:
        for name, special in asdict(special_ids).items():
            if not -1 <= special < size:
                raise CheckpointError("special_id_outside", name=name, id=special, last=size - 1)
        self._size, self.special_ids = size, special_ids
        self.pad_id, self.bos_id, self.eos_id, self.unknown_id = astuple(special_ids)

    def __len__(self) -> int:
        return self._size


class VocabularyTokenizer(WithSpecialIds):
    """Words divided by spaces, each looked up in a list as it is, then in lower case; its position is its id.

    A vocabulary of `letters` has one letter for a word, spaces among them. A word that is not in the list is refused
    where there is no id for unknown words.
    """

    def __init__(self, tokens: Sequence[str], special_ids: SpecialIds, *, letters: bool = False) -> None:
        """`tokens` in the order of their ids.

        Raises:
            CheckpointError: a token stands twice, or a special id is no id.
        """
        super().__init__(len(tokens), special_ids)
        self.tokens, self.letters = tuple(tokens), letters
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self._ids) < len(self.tokens):
            double = next(token for i, token in enumerate(self.tokens) if self._ids[token] != i)
            raise CheckpointError("token_stands_twice", token=double)

    def with_special_ids(self, special_ids: SpecialIds) -> "VocabularyTokenizer":
        """The same list, which is shared, with `special_ids` where it names none itself.

        Raises:
            CheckpointError: one of them is no id.
        """
        made, known = copy(self), {name: i for name, i in asdict(self.special_ids).items() if i >= 0}
        WithSpecialIds.__init__(made, len(self), replace(special_ids, **known))
        return made

    def encode(self, text: str) -> list[int]:
        words = self.pieces(text)
        ids = [self._ids.get(word, self._ids.get(word.lower(), self.special_ids.unknown_id)) for word in words]
        if -1 in ids:
            raise InputError("word_is_unknown", word=words[ids.index(-1)])
        return ids

    def pieces(self, text: str) -> list[str]:
        return list(text) if self.letters else text.split()

    def decode(self, ids: Sequence[int]) -> str:
        return ("" if self.letters else " ").join(self.tokens[int(i)] for i in ids if not self.is_special(int(i)))

    def labels(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[int(i)] for i in ids]


class IdTokenizer(WithSpecialIds):
    """No vocabulary but a number of rows: a text is numbers divided by spaces, which are the ids and the labels."""

    def encode(self, text: str) -> list[int]:
        words = text.split()
        for word in words:
            if not _NUMBER.match(word) or int(word) >= len(self):
                raise InputError("word_is_no_id", word=word, last=len(self) - 1)
        return [int(word) for word in words]

    def pieces(self, text: str) -> list[str]:
        return text.split()

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(int(i)) for i in ids if not self.is_special(int(i)))

    def labels(self, ids: Iterable[int]) -> list[str]:
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


class TextTokenizer(WithSpecialIds):
    """A SentencePiece model with its padding, start and end tokens. Half of a surrogate pair is no text to it."""

    def __init__(self, model: bytes) -> None:
        """`model` is the content of a `.model` file.

        Raises:
            CheckpointError: the bytes are no SentencePiece model, or a piece of it is no text.
        """
        with extra("text"):
            import sentencepiece
        self.model = model
        self._pieces = sentencepiece.SentencePieceProcessor()
        try:
            self._pieces.load_from_serialized_proto(model)  # an empty one, which the constructor passes over, too
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError("no_sentencepiece_model", reason=str(error)) from error
        ids = SpecialIds(self._pieces.pad_id(), self._pieces.bos_id(), self._pieces.eos_id(), self._pieces.unk_id())
        super().__init__(self._pieces.get_piece_size(), ids)
        for i in range(len(self)):  # refused now, since every label and every decoded text may need each piece
            try:
                self._pieces.id_to_piece(i)
            except UnicodeDecodeError as error:
                raise CheckpointError("piece_is_no_text", piece=i) from error

    @classmethod
    def read(cls, path: Path) -> "TextTokenizer":
        """The tokenizer in a file.

        Raises:
            CheckpointError: the file is missing or is no SentencePiece model.
        """
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise CheckpointError("tokenizer_unreadable", name=path.name, reason=error.strerror) from error

    def encode(self, text: str) -> list[int]:
        check_unicode(text)
        return list(self._pieces.encode(text))

    def pieces(self, text: str) -> list[str]:
        return list(self._pieces.encode(text, out_type=str))

    def decode(self, ids: Sequence[int]) -> str:
        return self._pieces.decode([int(i) for i in ids if not self.is_special(int(i))])

    def labels(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces.id_to_piece(int(i)) for i in ids]

    def is_special(self, token: int) -> bool:
        return bool(self._pieces.is_control(token))


def train_tokenizer(sentences: Iterable[str], vocab_size: int, kind: Literal["bpe", "word"] = "bpe") -> TextTokenizer:
    """A joint vocabulary of `vocab_size` byte pairs or words; pad, unknown, start and end token are ids 0 to 3.

    Raises:
        TrainingError: the sentences do not yield so many pieces, or hold more characters than that.
    """
    with extra("text"):
        import sentencepiece
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            character_coverage=1.0,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise TrainingError("vocabulary_does_not_suit", size=vocab_size, reason=reason) from error
    return TextTokenizer(model.getvalue())

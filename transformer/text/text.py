"""Text as SentencePiece pieces: ids in, ids out, and the label that a person reads for each.

Source: Kudo and Richardson 2018, "SentencePiece".
"""

import io
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Literal

import sentencepiece

from transformer.errors import CheckpointError, TrainingError
from transformer.text.base import check_unicode
from transformer.text.merges import MergeSampler

SPACE = "▁"
"""How SentencePiece writes the space before a word."""

CHECKED = 100
"""Texts whose usual cut is held against SentencePiece's before any is cut at random."""


class TextTokenizer:
    """A SentencePiece model with its padding, start and end tokens."""

    max_length: int | None = None
    languages: tuple[str, str] = ("", "")

    def __init__(self, model: bytes) -> None:
        """`model` is the content of a `.model` file.

        Raises:
            CheckpointError: the bytes are no SentencePiece model, or a piece of it is no text.
        """
        self.model = model
        self._pieces = sentencepiece.SentencePieceProcessor()
        try:
            self._pieces.load_from_serialized_proto(model)  # an empty one, which the constructor passes over, too
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError("no_sentencepiece_model", reason=str(error)) from error
        self._check_pieces()

    def _check_pieces(self) -> None:
        """Refuse a piece that is no text now, since every label and every decoded text may need it."""
        for i in range(len(self)):
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

    @property
    def pad_id(self) -> int:
        """Fills up short rows of a batch."""
        return self._pieces.pad_id()

    @property
    def bos_id(self) -> int:
        """Starts every decoder input."""
        return self._pieces.bos_id()

    @property
    def eos_id(self) -> int:
        """Ends every source and every target."""
        return self._pieces.eos_id()

    @property
    def unknown_id(self) -> int:
        """Stands for what the vocabulary lacks."""
        return self._pieces.unk_id()

    def __len__(self) -> int:
        return self._pieces.get_piece_size()

    def as_target(self) -> "TextTokenizer":
        """Itself: it writes as it reads."""
        return self

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens.

        Raises:
            InputError: `text` is not Unicode that can be encoded (it holds half of a surrogate pair).
        """
        check_unicode(text)
        return list(self._pieces.encode(text))

    def pieces(self, text: str) -> list[str]:
        """The pieces of `text` as they stand in it; a character that the vocabulary lacks is shown as itself."""
        return list(self._pieces.encode(text, out_type=str))

    def sample(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Ids of `texts` cut at random: each merge is skipped with probability `dropout` (BPE-dropout).

        A function of the texts, the dropout and the seed: the same in every process, which SentencePiece's own
        sampling is not.

        Raises:
            TrainingError: the vocabulary does not make its pieces by merges of pairs.
        """
        draws, merges = Random(seed), self._merges
        if any(merges.cut(self._pieces.normalize(text), 0.0, draws) != self.encode(text) for text in texts[:CHECKED]):
            raise TrainingError("subword_dropout_without_merges")
        return [merges.cut(self._pieces.normalize(text), dropout, draws) for text in texts]

    @cached_property
    def _merges(self) -> MergeSampler:
        known = self._pieces
        ids = {
            known.id_to_piece(i): i
            for i in range(len(self))
            if not (known.is_control(i) or known.is_unknown(i) or known.is_unused(i) or known.is_byte(i))
        }
        return MergeSampler(ids, {piece: known.get_score(i) for piece, i in ids.items()}, known.unk_id())

    def source_ids(self, text: str) -> list[int]:
        """What an encoder reads: the ids of `text` and the end token."""
        return [*self.encode(text), self.eos_id]

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads: the ids of `text`."""
        return self.encode(text)

    def target_ids(self, text: str) -> list[int]:
        """A whole target: start token, the ids of `text`, end token."""
        return [self.bos_id, *self.encode(text), self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens and padding leave no trace."""
        return self._pieces.decode([int(i) for i in ids if not self.is_special(int(i))])

    def labels(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, as SentencePiece writes it (a leading ▁ starts a word)."""
        return [self._pieces.id_to_piece(int(i)) for i in ids]

    def is_special(self, token: int) -> bool:
        """Whether `token` is a special token or padding, and so no part of any text."""
        return bool(self._pieces.is_control(token))


def train_tokenizer(sentences: Iterable[str], vocab_size: int, kind: Literal["bpe", "word"] = "bpe") -> TextTokenizer:
    """A joint vocabulary of `vocab_size` byte pairs or words; pad, unknown, start and end token are ids 0 to 3.

    Raises:
        TrainingError: the sentences do not yield so many pieces, or hold more characters than that.
    """
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

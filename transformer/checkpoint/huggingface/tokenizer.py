"""A tokenizer of the `transformers` library as this library knows tokenizers: ids, and the label that a person reads.

Labels follow one convention, SentencePiece's: a leading ▁ starts a word. Byte-level pieces (GPT-2, BART) are written in
the letters that they stand for, WordPieces (BERT) without their ##.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import RLock
from typing import Any

from transformer.checkpoint.huggingface.folder import unreadable
from transformer.checkpoint.huggingface.library import PanicError, library, panics_raised, quiet
from transformer.errors import InputError
from transformer.messages import Message
from transformer.plots.axes import WORD_START
from transformer.text.base import check_unicode

BYTE_SPACE, CONTINUED = "Ġ", "##"
"""How a byte-level tokenizer writes a space, and how WordPiece marks a piece that continues a word."""

UNKNOWN_LENGTH = 10**6
"""A tokenizer that does not know how much its model reads names a number far above this."""

PROBE = "A man is riding a bicycle."
"""What a tokenizer reads and writes before it is believed."""


class HuggingFaceTokenizer:
    """What reads the source of a model, or as `as_target` writes its target.

    Both sides share a lock: the library's tokenizers change while they work (Marian switches languages).
    """

    def __init__(self, tokenizer: Any, other: "HuggingFaceTokenizer | None" = None) -> None:
        self.library = tokenizer
        self.target = other is not None
        self._turn: Any = RLock() if other is None else other._turn

    def as_target(self) -> "HuggingFaceTokenizer":
        """The same tokenizer for what is written."""
        return HuggingFaceTokenizer(self.library, self)

    @property
    def languages(self) -> tuple[str, str]:
        """What a Marian tokenizer says that it translates; empty where nothing says it."""
        named = [getattr(self.library, name, None) for name in ("source_lang", "target_lang")]
        source, target = (name if isinstance(name, str) else "" for name in named)
        return source, target

    @property
    def folder(self) -> str:
        """The name of the folder that it was read from."""
        return Path(str(self.library.name_or_path)).name

    @property
    def max_length(self) -> int | None:
        """Most tokens that its model reads, if it knows."""
        most = self.library.model_max_length
        return int(most) if isinstance(most, int) and 0 < most < UNKNOWN_LENGTH else None

    @property
    def pad_id(self) -> int:
        """Fills up short rows of a batch; -1 where there is none."""
        return self._mark("pad_token_id")

    @property
    def bos_id(self) -> int:
        """Starts a text; -1 where there is no such mark."""
        return self._mark("bos_token_id")

    @property
    def eos_id(self) -> int:
        """Ends a text; -1 where there is no such mark."""
        return self._mark("eos_token_id")

    @property
    def unknown_id(self) -> int:
        """Stands for what the vocabulary lacks; -1 where there is no such mark."""
        return self._mark("unk_token_id")

    @property
    def mask_id(self) -> int:
        """Stands for a word that is to be filled in; -1 where there is no such mark."""
        return self._mark("mask_token_id")

    @property
    def mask(self) -> str:
        """How a word that is to be filled in is typed; empty where there is no such mark."""
        return str(self.library.mask_token) if self.mask_id >= 0 else ""

    def __len__(self) -> int:
        apart = self.target and getattr(self.library, "separate_vocabs", False)
        return len(self.library.target_encoder) if apart else len(self.library)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without marks.

        Raises:
            InputError: `text` is not Unicode that can be encoded, or the tokenizer gives up on it.
        """
        return self._ids(text, marks=False)

    def pieces(self, text: str) -> list[str]:
        """The tokens of `text` as they stand in it; what the vocabulary lacks is shown as itself."""
        if not self.library.is_fast:
            with self._working():
                self._face_side()
                return [self._label(piece) for piece in self.library.tokenize(text)]
        found = self._call(text, add_special_tokens=False, return_offsets_mapping=True)
        labels = self.labels(found["input_ids"])
        for i, (token, (start, stop)) in enumerate(zip(found["input_ids"], found["offset_mapping"], strict=True)):
            if token == self.library.unk_token_id:
                starts = start == 0 or (text[start - 1].isspace() and labels[i - 1] != WORD_START)
                labels[i] = WORD_START * starts + text[start:stop]
        return labels

    def source_ids(self, text: str) -> list[int]:
        """What the model reads: the ids of `text` among the marks that its family puts around them."""
        return self._ids(text, marks=True)

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads: as any model of the family, the special tokens among the ids."""
        return self.source_ids(text)

    def target_ids(self, text: str) -> list[int]:
        """A whole target with its marks. What a decoder reads before it is the model's `bos_id`."""
        return self._ids(text, marks=True)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; marks, padding and ids that the vocabulary lacks leave no trace."""
        known = [int(i) for i in ids if int(i) < len(self)]
        with self._working():
            return str(self.library.decode(known, skip_special_tokens=True))

    def labels(self, ids: Iterable[int]) -> list[str]:
        """What a person reads for each id; a leading ▁ starts a word. A model may have more rows than tokens."""
        with self._working():
            return [self._label_of(int(i)) for i in ids]

    def is_special(self, token: int) -> bool:
        """Whether `token` is a mark or padding, and so no part of any text."""
        return token in self._marks

    @cached_property
    def _marks(self) -> frozenset[int]:
        return frozenset(self.library.all_special_ids) - {self.library.unk_token_id, self.mask_id}  # parts of a text

    @cached_property
    def _spelling(self) -> Callable[[str], str]:
        """From the vocabulary's way of writing a piece to ours."""
        vocabulary = self.library.get_vocab()
        if any(token.startswith(BYTE_SPACE) for token in vocabulary):
            return _of_bytes
        if any(token.startswith(CONTINUED) for token in vocabulary):
            return _of_word_piece
        return str

    def _label(self, piece: str) -> str:
        return self._spelling(piece)

    def _label_of(self, token: int) -> str:
        if token >= len(self):
            return f"<{token}>"
        piece = str(self.library.convert_ids_to_tokens(token))
        if token == self.mask_id:
            return WORD_START + piece  # a word of its own
        return piece if self.is_special(token) else self._label(piece)

    def _mark(self, name: str) -> int:
        found = getattr(self.library, name, None)
        return found if isinstance(found, int) else -1

    def _ids(self, text: str, marks: bool) -> list[int]:
        check_unicode(text)
        return list(self._call(text, add_special_tokens=marks)["input_ids"])

    def _call(self, text: str, **options: Any) -> Any:
        with self._working():
            return self.library(text_target=text, **options) if self.target else self.library(text, **options)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """One caller at a time; what the native code cannot do is told as what cannot be read.

        Raises:
            InputError: the native code gave up.
        """
        try:
            with self._turn, panics_raised():
                yield
        except PanicError as error:
            raise InputError("tokenizer_gave_up", folder=self.folder, error=_line(error)) from error

    def _face_side(self) -> None:
        """Turn a tokenizer that knows two languages to the one that is meant."""
        turn = getattr(self.library, "_switch_to_target_mode" if self.target else "_switch_to_input_mode", None)
        if turn is not None:
            turn()


def read_tokenizer(path: Path) -> HuggingFaceTokenizer:
    """The tokenizer in a folder, once it was seen to read and write a text.

    Raises:
        CheckpointError: the library cannot read it, or it fails at the first text.
    """
    try:
        with quiet(), panics_raised():
            found = library().AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            tokenizer = HuggingFaceTokenizer(found)
            ids = tokenizer.source_ids(PROBE)
            tokenizer.pieces(PROBE)
            tokenizer.labels(ids)
            tokenizer.decode(ids)
    except Exception as error:
        raise unreadable(Message("tokenizer_of", folder=path.name), error) from error
    return tokenizer


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")[:200]


def _of_word_piece(piece: str) -> str:
    return piece.removeprefix(CONTINUED) if piece.startswith(CONTINUED) else WORD_START + piece


def _of_bytes(piece: str) -> str:
    """The text of a byte-level piece; bytes that are no whole letter stay as numbers."""
    letters = _byte_letters()
    if any(letter not in letters for letter in piece):
        return piece
    data = bytes(letters[letter] for letter in piece)
    return data.decode("utf-8", errors="backslashreplace").replace(" ", WORD_START)


@cache
def _byte_letters() -> dict[str, int]:
    """The byte that each letter stands for: itself where it can be printed; letters from 256 on stand for the others.

    Source: Radford et al. 2019, section 2.2, as in their code.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}

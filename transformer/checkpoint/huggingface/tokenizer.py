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

from ...errors import InputError
from ...messages import Message
from ...plots.axes import WORD_START
from ...text.base import Tokenizer, check_unicode
from .library import PanicError, first_line, library, panics_raised, quiet, unreadable

BYTE_SPACE, CONTINUED = "Ġ", "##"
"""How a byte-level tokenizer writes a space, and how WordPiece marks a piece that continues a word."""

UNKNOWN_LENGTH = 10**6
"""A tokenizer that does not know how much its model reads names a number far above this."""

PROBE = "A man is riding a bicycle."
"""What a tokenizer reads and writes before it is believed."""


class HuggingFaceTokenizer(Tokenizer):
    """What reads the source of a model, or as `as_target` writes its target, among the marks of its family.

    Both sides share a lock: the library's tokenizers change while they work (Marian switches languages). What a decoder
    reads before a target is the model's `bos_id`. A model may have more rows than its vocabulary has tokens.
    """

    def __init__(self, tokenizer: Any, other: "HuggingFaceTokenizer | None" = None) -> None:
        self.library = tokenizer
        self.target = other is not None
        self._turn: Any = RLock() if other is None else other._turn
        ids = (getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "unk", "mask"))
        known = (i if isinstance(i, int) else -1 for i in ids)
        self.pad_id, self.bos_id, self.eos_id, self.unknown_id, self.mask_id = known
        self.mask = str(tokenizer.mask_token) if self.mask_id >= 0 else ""
        most = tokenizer.model_max_length
        self.max_length = int(most) if isinstance(most, int) and 0 < most < UNKNOWN_LENGTH else None
        source, target = (getattr(tokenizer, f"{side}_lang", None) for side in ("source", "target"))
        self._marks = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id, self.mask_id}  # no part of a text
        self.languages = source if isinstance(source, str) else "", target if isinstance(target, str) else ""

    def as_target(self) -> "HuggingFaceTokenizer":
        return HuggingFaceTokenizer(self.library, self)

    @property
    def folder(self) -> str:
        """The name of the folder that it was read from."""
        return Path(str(self.library.name_or_path)).name

    def __len__(self) -> int:
        separate = self.target and getattr(self.library, "separate_vocabs", False)
        return len(self.library.target_encoder) if separate else len(self.library)

    def encode(self, text: str) -> list[int]:
        return self._ids(text, marks=False)

    def pieces(self, text: str) -> list[str]:
        if not self.library.is_fast:
            with self._working():
                turn = getattr(self.library, f"_switch_to_{'target' if self.target else 'input'}_mode", None)
                if turn is not None:  # a tokenizer that knows two languages is turned to the one that is meant
                    turn()
                return [self._spelling(piece) for piece in self.library.tokenize(text)]
        found = self._call(text, add_special_tokens=False, return_offsets_mapping=True)
        labels = self.labels(found["input_ids"])
        for i, (token, (start, stop)) in enumerate(zip(found["input_ids"], found["offset_mapping"], strict=True)):
            if token == self.library.unk_token_id:
                starts = start == 0 or (text[start - 1].isspace() and labels[i - 1] != WORD_START)
                labels[i] = WORD_START * starts + text[start:stop]
        return labels

    def source_ids(self, text: str) -> list[int]:
        return self._ids(text, marks=True)

    def encoder_ids(self, text: str) -> list[int]:
        return self.source_ids(text)

    def target_ids(self, text: str) -> list[int]:
        return self._ids(text, marks=True)

    def decode(self, ids: Sequence[int]) -> str:
        known = [int(i) for i in ids if int(i) < len(self)]
        with self._working():
            return str(self.library.decode(known, skip_special_tokens=True))

    def labels(self, ids: Iterable[int]) -> list[str]:
        with self._working():
            return [self._label_of(int(i)) for i in ids]

    def is_special(self, token: int) -> bool:
        return token in self._marks

    @cached_property
    def _spelling(self) -> Callable[[str], str]:
        """From the vocabulary's way of writing a piece to ours."""
        vocabulary = self.library.get_vocab()
        if any(token.startswith(BYTE_SPACE) for token in vocabulary):
            return _of_bytes
        if any(token.startswith(CONTINUED) for token in vocabulary):
            return lambda piece: piece[2:] if piece.startswith(CONTINUED) else WORD_START + piece
        return str

    def _label_of(self, token: int) -> str:
        if token >= len(self):
            return f"<{token}>"
        piece = str(self.library.convert_ids_to_tokens(token))
        if token == self.mask_id:
            return WORD_START + piece  # a word of its own
        return piece if self.is_special(token) else self._spelling(piece)

    def _ids(self, text: str, marks: bool) -> list[int]:
        check_unicode(text)
        return list(self._call(text, add_special_tokens=marks)["input_ids"])

    def _call(self, text: str, **options: Any) -> Any:
        with self._working():
            return self.library(text_target=text, **options) if self.target else self.library(text, **options)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """One caller at a time; what the native code cannot do is told as what cannot be read."""
        try:
            with self._turn, panics_raised():
                yield
        except PanicError as error:
            raise InputError("tokenizer_gave_up", folder=self.folder, error=first_line(error)) from error


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

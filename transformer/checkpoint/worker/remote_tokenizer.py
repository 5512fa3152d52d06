"""Vocabularies and tokenizers of untrusted files: lists of tokens come here, whatever cuts texts stays in a worker.

What a tokenizer file asks for (regular expressions, replacements, normalisation tables) runs in native code whose cost
the file's author chooses: a few typed letters may become gigabytes. A worker bounds that, and costs about a millisecond
a text. A file that is refused, or takes too much memory or time, is a CheckpointError here.
"""

import json
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ...errors import CheckpointError, InputError
from ...messages import Message
from ...safe.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits
from ...safe.tensors import is_count
from ...text.base import Tokenizer, check_unicode
from ..foreign.vocabularies import MOST_TOKENS as MOST_LISTED
from ..huggingface.folder import VOCABULARIES
from .pool import WORKERS, Budget, GaveUpError, garbled
from .resident import Resident

MOST_IDS, MOST_LETTERS = 200_000, 1_000_000
"""The longest text that is cut or joined: in tokens, and in letters of all pieces together."""

MOST_TOKENS = 10_000_000
"""Sizes of vocabularies beyond this are not believed."""

MOST_NAME = 200
"""Letters of a language's name, and of a mask."""


ASKED_ONCE = ("pad_id", "bos_id", "eos_id", "unknown_id", "mask_id", "mask", "max_length", "languages")
"""What a tokenizer is asked once, beside its size and special tokens."""


def about(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a tokenizer says of itself, as JSON can hold it."""
    size, said = len(tokenizer), {name: getattr(tokenizer, name) for name in ASKED_ONCE}
    special = [i for i in range(size) if tokenizer.is_special(i)]
    return {**said, "languages": list(said["languages"]), "size": size, "special": special}


def checked(said: Any, source: str) -> dict[str, Any]:
    """What a worker says of the tokenizer of `source`.

    Raises:
        CheckpointError: that cannot be.
    """
    fields = said if isinstance(said, dict) else {}
    found: dict[str, Any] = {name: fields.get(name) for name in (*ASKED_ONCE, "size", "special")}
    special, size, languages, longest = (found[name] for name in ("special", "size", "languages", "max_length"))
    sound = (
        is_count(size)
        and size <= MOST_TOKENS
        and all(type(i) is int and -1 <= i < MOST_TOKENS for name, i in found.items() if name.endswith("_id"))
        and isinstance(special, list)
        and all(is_count(i) and i < size for i in special)
        and isinstance(languages, list)
        and len(languages) == 2
        and all(isinstance(text, str) and len(text) <= MOST_NAME for text in (found["mask"], *languages))
        and (longest is None or (is_count(longest) and longest > 0))
    )
    if not sound:
        raise garbled(source, "no tokenizer")
    return {**found, "languages": tuple(languages), "special": frozenset(special)}


LABELS_AT_ONCE, KEPT_LABELS = 10_000, 20_000
"""How many labels one request asks for, and how many are remembered."""

Side = Literal["source", "target"]


class RemoteTokenizer(Tokenizer):
    """A tokenizer whose every call on a text is answered by a worker. Safe to use from many threads."""

    def __init__(
        self,
        resident: Resident,
        sides: Mapping[Side, Mapping[str, Any]],
        side: Side = "source",
        other: "RemoteTokenizer | None" = None,
    ) -> None:
        """`sides` is what is known of each; `other`, whose worker this one shares: else it ends with this object."""
        self._resident, self._sides, self._side, self._other = resident, sides, side, other
        vars(self).update({name: sides[side][name] for name in ASKED_ONCE})
        self._labels = dict[int, str]()
        if other is None:
            weakref.finalize(self, resident.leave)

    def as_target(self) -> "RemoteTokenizer":
        return RemoteTokenizer(self._resident, self._sides, "target", self)

    def __len__(self) -> int:
        size: int = self._sides[self._side]["size"]
        return size

    def encode(self, text: str) -> list[int]:
        return self._ids("encode", text)

    def pieces(self, text: str) -> list[str]:
        return self._texts("pieces", text)

    def source_ids(self, text: str) -> list[int]:
        return self._ids("source_ids", text)

    def encoder_ids(self, text: str) -> list[int]:
        return self._ids("encoder_ids", text)

    def target_ids(self, text: str) -> list[int]:
        return self._ids("target_ids", text)

    def decode(self, ids: Sequence[int]) -> str:
        found = self._asked("decode", [int(i) for i in ids])
        if not isinstance(found, str) or len(found) > MOST_LETTERS:
            raise self._garbled("no text")
        return found

    def labels(self, ids: Iterable[int]) -> list[str]:
        wanted = [int(i) for i in ids]
        new = sorted({i for i in wanted if i not in self._labels})
        known = self._labels
        for start in range(0, len(new), LABELS_AT_ONCE):
            some = new[start : start + LABELS_AT_ONCE]
            known = {**known, **dict(zip(some, self._texts("labels", some, len(some)), strict=True))}
        if new and len(known) <= KEPT_LABELS:
            self._labels = known
        return [known[i] for i in wanted]

    def is_special(self, token: int) -> bool:
        return token in self._sides[self._side]["special"]

    def _ids(self, call: str, text: str) -> list[int]:
        found = self._asked(call, text)
        is_list = isinstance(found, list) and len(found) <= MOST_IDS
        if not is_list or not all(is_count(i) and i < MOST_TOKENS for i in found):
            raise self._garbled("no ids")
        return list(found)

    def _texts(self, call: str, value: str | list[int], count: int | None = None) -> list[str]:
        found = self._asked(call, value)
        if not isinstance(found, list) or not all(isinstance(piece, str) for piece in found):
            raise self._garbled("no pieces")
        if len(found) > MOST_IDS or sum(map(len, found)) > MOST_LETTERS or count not in {None, len(found)}:
            raise self._garbled("no pieces")
        return found

    def _asked(self, call: str, value: str | list[int]) -> Any:
        if isinstance(value, str):
            check_unicode(value)
        if len(value) > MOST_LETTERS:
            raise InputError("tokenizer_text_long", source=self._resident.source, found=len(value), most=MOST_LETTERS)
        try:
            request = {"side": self._side, "call": call, "value": value}
            return self._resident.ask(request, len(value)).get("found")
        except GaveUpError as error:
            raise InputError("tokenizer_gave_up", folder=self._resident.source, error=error.why) from error
        except CheckpointError as error:
            raise InputError(error.code, **error.fields) from error

    def _garbled(self, said: str) -> InputError:
        why = Message("worker_garbled", said=said)
        return InputError("tokenizer_gave_up", folder=self._resident.source, error=why)


LIBRARY_MEMORY, SECONDS = 1024 * MEGABYTE, 4
"""The floor of what reading a tokenizer of the transformers library may take; its seconds are those of any tokenizer,
which has one more for each megabyte."""

JSON_GROWTH, FRAME_BYTES = 6, 1024
"""How many times as long as in its file a token may be as JSON (\\u0001), and what an empty list takes."""


def read_tokens(data: bytes, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> list[str]:
    """As `vocabularies.read_tokens`."""
    most = len(data) * JSON_GROWTH + FRAME_BYTES
    budget = Budget.of(len(data))
    answer = WORKERS.answer("vocabulary", name, [data], budget=budget, limits=limits, most_bytes=most)
    try:
        tokens = json.loads(b"".join(answer.blocks))
    except (ValueError, RecursionError):
        tokens = None
    is_list = isinstance(tokens, list) and 0 < len(tokens) <= MOST_LISTED
    if not is_list or not all(isinstance(one, str) and 0 < len(one) <= limits.name_characters for one in tokens):
        raise garbled(name, "no list of tokens")
    return list(tokens)


def sentencepiece(data: bytes, name: str) -> RemoteTokenizer:
    """The SentencePiece model in the bytes of a file."""
    return _started(Resident("tokenizer", name, [data], budget=_budget(len(data))))


def folder_tokenizer(path: Path) -> RemoteTokenizer:
    """The tokenizer at a path: a file of SentencePiece, or a folder of the transformers library."""
    if path.is_file():
        name, budget = f"{path.parent.name}/{path.name}", _budget(path.stat().st_size)
    else:
        size = sum(file.stat().st_size for name in VOCABULARIES if (file := path / name).is_file())
        name, budget = path.name, _budget(size, floor_bytes=LIBRARY_MEMORY)
    return _started(Resident("tokenizer", name, budget=budget, path=str(path.resolve())))


def _started(resident: Resident) -> RemoteTokenizer:
    """The tokenizer that a worker keeps from now on."""
    said = resident.start()
    return RemoteTokenizer(resident, {side: checked(said.get(side), resident.source) for side in get_args(Side)})


def _budget(n_bytes: int, **floor: int) -> Budget:
    return Budget.of(n_bytes, floor_seconds=SECONDS + n_bytes // MEGABYTE, **floor)

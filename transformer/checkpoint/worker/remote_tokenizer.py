"""The tokenizer of an untrusted file: it cuts and joins texts in a worker process, and only its answers come here.

What a tokenizer file asks for (regular expressions, replacements, normalisation tables) runs in native code whose cost
the file's author chooses: a few typed letters may become gigabytes. A worker bounds that, and costs about a millisecond
a text.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from transformer.checkpoint.worker.pool import GaveUpError
from transformer.checkpoint.worker.resident import Here, Resident
from transformer.checkpoint.worker.tokenizer_facts import MOST_IDS, MOST_LETTERS, MOST_TOKENS, About
from transformer.errors import CheckpointError, InputError
from transformer.messages import Message
from transformer.safe.declared import is_count
from transformer.text.base import check_unicode

LABELS_AT_ONCE, KEPT_LABELS = 10_000, 20_000
"""How many labels one request asks for, and how many are remembered."""

Side = Literal["source", "target"]


class RemoteTokenizer:
    """A `Tokenizer` whose every call on a text is answered by a worker. Safe to use from many threads."""

    pad_id: int
    bos_id: int
    eos_id: int
    unknown_id: int
    mask_id: int
    mask: str
    max_length: int | None
    languages: tuple[str, str]

    def __init__(
        self,
        resident: Resident | Here,
        about: Mapping[Side, About],
        side: Side = "source",
        other: "RemoteTokenizer | None" = None,
    ) -> None:
        """`other` is the side whose worker this one shares; without one, the worker ends with this object."""
        self._resident, self._about, self._side, self._other = resident, about, side, other
        self.about = about[side]
        for name in ("pad_id", "bos_id", "eos_id", "unknown_id", "mask_id", "mask", "max_length", "languages"):
            setattr(self, name, getattr(self.about, name))
        self._labels = dict[int, str]()
        if other is None:
            weakref.finalize(self, resident.leave)

    def as_target(self) -> "RemoteTokenizer":
        """The same tokenizer for what is written, where its model reads one language and writes another."""
        return RemoteTokenizer(self._resident, self._about, "target", self)

    def __len__(self) -> int:
        return self.about.size

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without special tokens.

        Raises:
            InputError: the tokenizer cannot cut it, or takes too much for it; so do all calls below.
        """
        return self._ids("encode", text)

    def pieces(self, text: str) -> list[str]:
        """The tokens of `text` as they stand in it."""
        return self._texts("pieces", text)

    def source_ids(self, text: str) -> list[int]:
        """What an encoder reads."""
        return self._ids("source_ids", text)

    def encoder_ids(self, text: str) -> list[int]:
        """What an encoder without a decoder reads."""
        return self._ids("encoder_ids", text)

    def target_ids(self, text: str) -> list[int]:
        """A whole target."""
        return self._ids("target_ids", text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens and padding leave no trace."""
        found = self._asked("decode", [int(i) for i in ids])
        if not isinstance(found, str) or len(found) > MOST_LETTERS:
            raise self._garbled("no text")
        return found

    def labels(self, ids: Iterable[int]) -> list[str]:
        """What a person reads for each id; a leading ▁ starts a word."""
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
        """Whether `token` is a special token or padding, and so no part of any text."""
        return token in self.about.special

    def _ids(self, call: str, text: str) -> list[int]:
        found = self._asked(call, text)
        if not isinstance(found, list) or len(found) > MOST_IDS:
            raise self._garbled("no ids")
        if not all(is_count(i) and i < MOST_TOKENS for i in found):
            raise self._garbled("no ids")
        return found

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


def started(resident: Resident | Here) -> RemoteTokenizer:
    """The tokenizer that a worker keeps from now on.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    said = resident.start()
    sides: tuple[Side, Side] = ("source", "target")
    return RemoteTokenizer(resident, {side: About.unpacked(said.get(side), resident.source) for side in sides})

"""What a worker and the server say to each other of a tokenizer, and how much of it."""

from dataclasses import dataclass
from typing import Any

from transformer.safe.declared import is_count
from transformer.safe.refusal import refused
from transformer.text.base import Tokenizer

MOST_IDS, MOST_LETTERS = 200_000, 1_000_000
"""The longest text that is cut or joined: in tokens, and in letters of all pieces together."""

MOST_TOKENS = 10_000_000
"""Sizes of vocabularies beyond this are not believed."""

MOST_NAME = 200
"""Letters of a language's name, and of a mask."""


@dataclass(frozen=True)
class About:
    """What a tokenizer says of itself once; see `tokens.base.Tokenizer`. -1 stands for an id that it does not have."""

    size: int
    pad_id: int
    bos_id: int
    eos_id: int
    unknown_id: int
    mask_id: int
    mask: str
    max_length: int | None
    languages: tuple[str, str]
    special: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "About":
        """What this one says."""
        size = len(tokenizer)
        return cls(
            size=size,
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            unknown_id=tokenizer.unknown_id,
            mask_id=getattr(tokenizer, "mask_id", -1),
            mask=getattr(tokenizer, "mask", ""),
            max_length=getattr(tokenizer, "max_length", None),
            languages=getattr(tokenizer, "languages", ("", "")),
            special=frozenset(i for i in range(size) if tokenizer.is_special(i)),
        )

    def packed(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**vars(self), "languages": list(self.languages), "special": sorted(self.special)}

    @classmethod
    def unpacked(cls, said: Any, source: str) -> "About":
        """What a worker says of the tokenizer of `source`.

        Raises:
            CheckpointError: that cannot be.
        """
        names = cls.__dataclass_fields__
        found: dict[str, Any] = {name: said.get(name) if isinstance(said, dict) else None for name in names}
        ids = [found[name] for name in names if name.endswith("_id")]
        special, size, languages = found["special"], found["size"], found["languages"]
        sound = (
            is_count(size)
            and size <= MOST_TOKENS
            and all(type(i) is int and -1 <= i < MOST_TOKENS for i in ids)
            and isinstance(special, list)
            and all(is_count(i) and i < size for i in special)
            and isinstance(languages, list)
            and len(languages) == 2
            and all(isinstance(text, str) and len(text) <= MOST_NAME for text in (found["mask"], *languages))
            and (found["max_length"] is None or (is_count(found["max_length"]) and found["max_length"] > 0))
        )
        if not sound:
            raise refused("worker_garbled", source, said="no tokenizer")
        return cls(**{**found, "languages": (languages[0], languages[1]), "special": frozenset(special)})

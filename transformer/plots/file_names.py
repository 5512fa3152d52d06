"""Names of files that say what is in them: the sentence's first words, the checkpoint, the head; safe on any system."""

import unicodedata
from functools import lru_cache

LONGEST = 180
"""Bytes of a name in UTF-8 without its ending, at most: file systems take 255."""

WORDS, WORDS_LONGEST = 5, 48
"""How many words of a text stand in a name, and their bytes at most."""

RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
"""What Windows takes for a device, whatever the ending."""


def file_name(*parts: str, text: str = "") -> str:
    """A name without its ending: the first words of `text`, then `parts` (checkpoint, site, head), joined by `_`.

    Letters and digits of every script stay; dots stay between them in `parts`; anything else becomes one hyphen. So
    nothing of it can be a path, an option or a hidden file. Never empty, at most `LONGEST` bytes.
    """
    words = _cut("-".join(_cleaned(text[:LONGEST]).split("-")[:WORDS]), WORDS_LONGEST)
    cleaned = [words, *(".".join(filter(None, map(_cleaned, part.split(".")))) for part in parts)]
    name = _cut("_".join(filter(None, cleaned)), LONGEST) or "heedmap"
    return f"_{name}" if name.partition(".")[0].lower() in RESERVED else name


@lru_cache(512)
def _cleaned(text: str) -> str:
    """Runs of letters (with their accents) and digits, joined by hyphens."""
    kept = "".join(
        letter if unicodedata.category(letter)[0] in "LMN" else " " for letter in unicodedata.normalize("NFKC", text)
    )
    return "-".join(kept.split())


def _cut(name: str, longest: int) -> str:
    """As much of a name as takes `longest` bytes, without a mark at its end that joined it to more."""
    return name.encode()[:longest].decode(errors="ignore").rstrip("-_.")

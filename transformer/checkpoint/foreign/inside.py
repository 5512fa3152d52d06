"""The vocabulary that lay in the file of the weights: it reads the source, or writes the target, whose size it has."""

from dataclasses import replace
from typing import Any

from transformer.checkpoint.foreign.vocabularies import tokenizer_of
from transformer.safe.contents import Contents
from transformer.text.base import Tokenizer
from transformer.text.vocabulary import NO_SPECIAL_IDS, LetterTokenizer, SpecialIds, find_special_ids, id_tokenizers


def names_inside(contents: Contents, config: Any) -> tuple[str | None, str | None]:
    """The names of the vocabularies that fit the source and the target; a target of the source's size has the same."""
    source_size: int = getattr(config, "source_vocab", 0) or getattr(config, "vocab", 0)
    target_size: int | None = getattr(config, "target_vocab", None)
    fitting = {size: [name for name, tokens in contents.vocabularies.items() if len(tokens) == size]
               for size in {source_size, target_size} - {None}}  # fmt: skip
    source = next(iter(fitting.get(source_size, ())), None)
    target = next(iter(fitting.get(target_size, ())), None) if target_size is not None else None
    return source, target


def tokenizers_inside(contents: Contents, config: Any) -> tuple[Tokenizer, Tokenizer | None]:
    """What reads and what writes: these vocabularies, or ids where there is none. Letters are not divided by spaces."""
    reader, writer = id_tokenizers(config)
    source, target = names_inside(contents, config)
    found = [
        known if name is None or known is None else _tokenizer(contents.vocabularies[name], name, known.special_ids)
        for name, known in ((source, reader), (target, writer))
    ]
    return found[0] or reader, found[1]


def _tokenizer(tokens: tuple[str, ...], name: str, special_ids: SpecialIds) -> Tokenizer:
    found = tokenizer_of(tokens, name).with_special_ids(special_ids)
    letters = [token for i, token in enumerate(tokens) if not found.is_special(i)]
    if all(len(token) == 1 for token in letters):
        return LetterTokenizer(tokens, replace(NO_SPECIAL_IDS, **find_special_ids(tokens))).with_special_ids(
            special_ids
        )
    return found

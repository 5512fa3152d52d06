"""Reading the vocabulary that someone brings along with a checkpoint: SentencePiece, one token a line, or JSON.

Pickled vocabularies (torchtext's, say) are refused with how to write them as text instead.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import CheckpointError
from ...messages import Message
from ...safe.archives import ARCHIVE_START
from ...safe.contents import Contents
from ...safe.limits import DEFAULT_LIMITS, ReadLimits, refused, refused_because
from ...safe.pickles import PICKLE_START
from ...text.base import Tokenizer
from ...text.tokenizers import (
    NO_SPECIAL_IDS,
    SpecialIds,
    TextTokenizer,
    VocabularyTokenizer,
    find_special_ids,
    id_tokenizers,
)

AS_TEXT = Message("remedy_write_tokens")
ONE_A_LINE = Message("remedy_one_a_line")

SENTENCEPIECE = ".model"
"""What files of SentencePiece are called."""

SPECIAL_IDS = ("pad_id", "bos_id", "eos_id")
"""Ids that a vocabulary may name, so that they need not be asked for."""

MOST_TOKENS = 1_000_000
"""Four times the largest vocabulary in use (mT5's and Gemma's 250,000); a million take about 300 MB of memory."""


def tokenizer_of(tokens: Sequence[str], name: str) -> VocabularyTokenizer:
    """What reads and writes with these tokens of the file `name`, in the order of their ids.

    Raises:
        CheckpointError: a token stands twice.
    """
    try:
        return VocabularyTokenizer(tokens, replace(NO_SPECIAL_IDS, **find_special_ids(tokens)))
    except CheckpointError as error:  # which does not know the file's name
        raise refused_because(error.message, name, ONE_A_LINE) from error


def names_inside(contents: Contents, config: Any) -> tuple[str | None, str | None]:
    """Names of the vocabularies beside the weights that have as many tokens as the source's and the target's."""
    sizes = (getattr(config, "source_vocab", None) or config.vocab, getattr(config, "target_vocab", None))
    of_source, of_target = (
        next((name for name, tokens in contents.vocabularies.items() if len(tokens) == size), None) for size in sizes
    )
    return of_source, of_target


def tokenizers_inside(contents: Contents, config: Any) -> tuple[Tokenizer, Tokenizer | None]:
    """What reads and what writes: these vocabularies, or ids where there is none. Letters are not divided by spaces."""
    reader, writer = id_tokenizers(config)
    found: list[Tokenizer | None] = []
    for name, known in zip(names_inside(contents, config), (reader, writer), strict=True):
        if name is None or known is None:
            found.append(known)
            continue
        tokens = contents.vocabularies[name]
        inside = tokenizer_of(tokens, name)
        inside.letters = all(len(token) == 1 for i, token in enumerate(tokens) if not inside.is_special(i))
        found.append(inside.with_special_ids(known.special_ids))
    return found[0] or reader, found[1]


def with_ids(found: Tokenizer, special_ids: SpecialIds) -> Tokenizer:
    """The same with these special ids where its file names none.

    Raises:
        CheckpointError: a special id is no id.
    """
    return found.with_special_ids(special_ids) if isinstance(found, VocabularyTokenizer) else found


def parse_sentencepiece(data: bytes, name: str) -> TextTokenizer:
    """The tokenizer in the bytes of a `.model` file.

    Raises:
        CheckpointError: it is no such file, or a pickle.
    """
    _refuse_pickles(data, name)
    try:
        found = TextTokenizer(data)
    except CheckpointError as error:  # which does not know the file's name
        raise refused_because(error.message, name) from error
    _check_count(len(found), name)
    return found


def read_tokens(data: bytes, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> list[str]:
    """The tokens of a text file (one a line; what follows a tab is a score) or of JSON (a list, or token -> id).

    Costs several passes over the bytes and, in memory, many times their size.

    Raises:
        CheckpointError: it is neither, or a line holds no token; or it is a pickle.
    """
    _refuse_pickles(data, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused("byte_no_text", name, Message("remedy_utf8"), byte=error.start) from error
    if text.lstrip()[:1] in {"{", "["} and name.endswith(".json"):
        tokens = _from_json(text, name)
    else:
        _check_count(text.count("\n"), name)
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
        tokens = [line.partition("\t")[0] for line in lines]
    _check_count(len(tokens), name)
    for i, token in enumerate(tokens):
        if not token:
            raise refused("token_empty", name, ONE_A_LINE, token=i)
        if len(token) > limits.name_characters:
            raise refused("token_long", name, ONE_A_LINE, token=i, found=len(token))
    if not tokens:
        raise refused("vocabulary_empty", name, ONE_A_LINE)
    return tokens


def _check_count(count: int, name: str) -> None:
    if count > MOST_TOKENS:
        raise refused("tokens_many", name, AS_TEXT, found=count, most=MOST_TOKENS)


def _from_json(text: str, name: str) -> list[str]:
    remedy = Message("remedy_json_tokens")
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused("no_json_at_all", name, remedy, error=type(error).__name__) from error
    if isinstance(found, list) and all(isinstance(token, str) for token in found):
        return found
    if isinstance(found, dict) and all(type(i) is int for i in found.values()):
        if sorted(found.values()) == list(range(len(found))):
            return sorted(found, key=lambda token: found[token])
        raise refused("ids_not_in_order", name, remedy)
    raise refused("no_vocabulary", name, remedy)


def _refuse_pickles(data: bytes, name: str) -> None:
    """Refuse what torch or pickle wrote, whatever is in it: no vocabulary is read from there."""
    if data.startswith((PICKLE_START, ARCHIVE_START)):
        raise refused("vocabulary_pickled", name, AS_TEXT)


def sample_ids(config: Any, count: int, size: int) -> list[int]:
    """`count` ids of a vocabulary of this `size`, spread over all of it, with some that come twice; no special tokens.

    Attention to a token that stands twice shows what a head makes of place and of content.
    """
    special_ids = {getattr(config, name, -1) for name in SPECIAL_IDS}
    free = [i for i in range(min(size, 50_000)) if i not in special_ids] or [0]
    different = max(1, count * 2 // 3)
    spread = [free[(i * len(free)) // different % len(free)] for i in range(different)]
    return [spread[i % different] for i in range(count)]

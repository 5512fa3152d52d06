"""Reading the vocabulary that someone brings along with a checkpoint: SentencePiece, one token a line, or JSON.

Pickled vocabularies (torchtext's, say) are refused with what they ask for and how to write them as text instead.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.archives import ARCHIVE_START, open_archive
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.pickles import PICKLE_START, Structure
from transformer.safe.refusal import refused, refused_because
from transformer.text.base import Tokenizer
from transformer.text.text import TextTokenizer
from transformer.text.vocabulary import NO_SPECIAL_IDS, SpecialIds, VocabularyTokenizer, find_special_ids

AS_TEXT = Message("remedy_write_tokens")
ONE_A_LINE = Message("remedy_one_a_line")

SENTENCEPIECE = ".model"
"""What files of SentencePiece are called."""

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


def with_ids(found: Tokenizer, special_ids: SpecialIds) -> Tokenizer:
    """The same with these special ids where its file names none.

    Raises:
        CheckpointError: a special id is no id.
    """
    return found.with_special_ids(special_ids) if isinstance(found, VocabularyTokenizer) else found


def parse_sentencepiece(data: bytes, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> TextTokenizer:
    """The tokenizer in the bytes of a `.model` file.

    Raises:
        CheckpointError: it is no such file, or a pickle.
    """
    _refuse_pickles(data, name, limits)
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
    _refuse_pickles(data, name, limits)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused("byte_no_text", name, Message("remedy_utf8"), byte=error.start) from error
    if text.lstrip()[:1] in {"{", "["} and name.endswith(".json"):
        tokens = _from_json(text, name)
    else:
        _check_count(text.count("\n"), name)
        tokens = _from_lines(text)
    _check_count(len(tokens), name)
    for i, token in enumerate(tokens):
        if not token or len(token) > limits.name_characters:
            if not token:
                raise refused("token_empty", name, ONE_A_LINE, token=i)
            raise refused("token_long", name, ONE_A_LINE, token=i, found=len(token))
    if not tokens:
        raise refused("vocabulary_empty", name, ONE_A_LINE)
    return tokens


def _check_count(count: int, name: str) -> None:
    if count > MOST_TOKENS:
        raise refused("tokens_many", name, AS_TEXT, found=count, most=MOST_TOKENS)


def _from_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    return [line.partition("\t")[0] for line in lines]


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


def _refuse_pickles(data: bytes, name: str, limits: ReadLimits) -> None:
    """Say what a pickle would import; even one that imports nothing is no vocabulary that is read."""
    program = None
    if data.startswith(PICKLE_START):
        program = data
    elif data.startswith(ARCHIVE_START):
        program = open_archive(io.BytesIO(data), len(data), name, limits).program
    if program is not None:
        try:
            Structure(name, limits).read(io.BytesIO(program))
        except CheckpointError as error:
            if error.code != "refused":
                raise
            raise CheckpointError("refused", source=name, reason=error.fields["reason"], remedy=AS_TEXT) from error
        raise refused("vocabulary_pickled", name, AS_TEXT)

"""Sentences as the lessons take them: token ids, and the label that a person reads for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.messages import Message
from transformer.plots.axes import Axis
from transformer.runs.translate import MAX_CHARACTERS
from transformer.text.base import Tokenizer

MAX_TOKENS = 24
"""Longest sentence of a lesson, special tokens counted: a blackboard holds no more."""

_SOURCE, _TARGET = Message("lesson_source"), Message("lesson_target")


@dataclass(frozen=True)
class Sentence:
    """Token ids and the label that a person reads for each."""

    ids: tuple[int, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, ids: Sequence[int], texts: Sequence[str]) -> "Sentence":
        """Ids with their texts; repeated texts are numbered, so that labels are unique."""
        return cls(tuple(ids), Axis.of_tokens("token", texts).labels)


def source_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What the encoder reads of `text`: its pieces and the end token.

    Raises:
        InputError: nothing to read, or more than a blackboard holds.
    """
    tokenizer = _found(checkpoint, checkpoint.tokenizer)
    return _sentence(tokenizer, tokenizer.source_ids(_checked(_SOURCE, text)), _SOURCE)


def target_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What the decoder reads of `text` while it writes it: the start token and its pieces.

    Raises:
        InputError: nothing to read, or more than a blackboard holds.
    """
    tokenizer = _found(checkpoint, checkpoint.writer)
    return _sentence(tokenizer, tokenizer.target_ids(_checked(_TARGET, text))[:-1], _TARGET)


def encoder_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What an encoder without a decoder reads of `text`: its pieces, and special tokens where its family is known.

    Raises:
        InputError: nothing to read, or more than a blackboard holds.
    """
    tokenizer = _found(checkpoint, checkpoint.tokenizer)
    if not tokenizer.encode(_checked(_SOURCE, text)):
        raise InputError("lesson_empty", what=_SOURCE)
    return _short(tokenizer, tokenizer.encoder_ids(text), _SOURCE)


def _found(checkpoint: Checkpoint, tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise CheckpointError("lesson_no_tokenizer", name=checkpoint.name)
    return tokenizer


def _checked(what: Message, text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise InputError("lesson_too_many_characters", what=what, found=len(text), most=MAX_CHARACTERS)
    return text


def _sentence(tokenizer: Tokenizer, ids: list[int], what: Message) -> Sentence:
    if len(ids) < 2:
        raise InputError("lesson_empty", what=what)
    return _short(tokenizer, ids, what)


def _short(tokenizer: Tokenizer, ids: list[int], what: Message) -> Sentence:
    if len(ids) > MAX_TOKENS:
        raise InputError("lesson_too_many_tokens", what=what, found=len(ids), most=MAX_TOKENS)
    return Sentence.of(ids, tokenizer.labels(ids))

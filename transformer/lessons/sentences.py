"""Sentences as the lessons take them: token ids, and the label that a person reads for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.pictures.axes import Axis
from transformer.runs.translate import MAX_CHARACTERS
from transformer.tokens.base import Tokenizer

MAX_TOKENS = 24
"""Longest sentence of a lesson, with its marks: a blackboard holds no more."""


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
    """What the encoder reads of `text`: its pieces and the end mark.

    Raises:
        InputError: nothing to read, or more than a blackboard holds.
    """
    tokenizer = _found(checkpoint, checkpoint.tokenizer)
    return _sentence(tokenizer, tokenizer.source_ids(_checked("source", text)), "source")


def target_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What the decoder reads of `text` while it writes it: the start mark and its pieces.

    Raises:
        InputError: nothing to read, or more than a blackboard holds.
    """
    tokenizer = _found(checkpoint, checkpoint.writer)
    return _sentence(tokenizer, tokenizer.target_ids(_checked("target", text))[:-1], "target")


def _found(checkpoint: Checkpoint, tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise CheckpointError(f"{checkpoint.name} has no tokenizer: bring the one that it was trained with")
    return tokenizer


def _checked(what: str, text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the {what} has {len(text):,} characters, at most {MAX_CHARACTERS:,} are read: shorten it")
    return text


def _sentence(tokenizer: Tokenizer, ids: list[int], what: str) -> Sentence:
    if len(ids) < 2:
        raise InputError(f"the {what} is empty: type at least one word")
    if len(ids) > MAX_TOKENS:
        raise InputError(f"the {what} has {len(ids)} tokens, a lesson shows at most {MAX_TOKENS}: shorten it")
    return Sentence.of(ids, tokenizer.labels(ids))

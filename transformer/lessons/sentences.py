"""Sentences as the lessons take them, and toy models: real layers, so small that every number can be written down."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from ..checkpoint.checkpoint import Checkpoint
from ..errors import CheckpointError, InputError
from ..messages import Message
from ..nn.recurrent import Recurrent, RecurrentConfig
from ..nn.seq2seq import Seq2Seq, Seq2SeqConfig
from ..plots.axes import Axis
from ..runs.translate import MAX_CHARACTERS
from ..text.base import Tokenizer

MAX_TOKENS = 24
"""Longest sentence of a lesson, special tokens counted: a blackboard holds no more."""


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
    return _sentence(checkpoint, "source", text, lambda one: one.source_ids(text), 2)


def target_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What the decoder reads of `text` while it writes it (the start token and its pieces), refused as a source is."""
    return _sentence(checkpoint, "target", text, lambda one: one.target_ids(text)[:-1], 2)


def encoder_sentence(checkpoint: Checkpoint, text: str) -> Sentence:
    """What an encoder without a decoder reads of `text`: its pieces, and special tokens where its family is known.

    It is refused as a source is.
    """
    return _sentence(checkpoint, "source", text, lambda one: one.encoder_ids(text) if one.encode(text) else [], 1)


def _sentence(
    checkpoint: Checkpoint, side: str, text: str, ids_of: Callable[[Tokenizer], Sequence[int]], least: int
) -> Sentence:
    """The ids of a text with their labels, at least so many, within the bounds of a lesson."""
    tokenizer, what = checkpoint.writer if side == "target" else checkpoint.tokenizer, Message(f"lesson_{side}")
    if tokenizer is None:
        raise CheckpointError("lesson_no_tokenizer", name=checkpoint.name)
    if len(text) > MAX_CHARACTERS:
        raise InputError("lesson_too_many_characters", what=what, found=len(text), most=MAX_CHARACTERS)
    ids = ids_of(tokenizer)
    if len(ids) < least:
        raise InputError("lesson_empty", what=what)
    if len(ids) > MAX_TOKENS:
        raise InputError("lesson_too_many_tokens", what=what, found=len(ids), most=MAX_TOKENS)
    return Sentence.of(ids, tokenizer.labels(ids))


SOURCE_WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "slept")
TARGET_WORDS = ("die", "Katze", "sitzt", "auf", "der", "Matte", "und", "schläft")
Model = TypeVar("Model", bound=nn.Module)

N_SPECIAL, BOS, EOS = 3, 1, 2
"""Ids before the first word: padding (0), start, end."""

MOST_WORDS = len(SOURCE_WORDS)


def toy_sentences(n_tokens: int, source: str = "", target: str = "") -> tuple[Sentence, Sentence]:
    """Source and target: the words that are typed, apart by spaces, or the first `n_tokens` of the toy's own.

    A word that stands twice is one token that stands twice, with one vector.

    Raises:
        InputError: more than 8 typed words.
    """

    def typed(line: str, otherwise: Sequence[str]) -> Sentence:
        words = typed_words(line, MOST_WORDS) if line.split() else otherwise
        ids = word_ids(words)
        return Sentence.of([ids[word] for word in words], words)

    return typed(source, SOURCE_WORDS[:n_tokens]), typed(target, TARGET_WORDS[:n_tokens])


def word_ids(words: Sequence[str]) -> dict[str, int]:
    """The id of each word, in the order of their first places."""
    return {word: N_SPECIAL + i for i, word in enumerate(dict.fromkeys(words))}


def typed_words(line: str, most: int) -> list[str]:
    """The words of a typed line, of which there are one at least and `most` at most, or it is refused."""
    words = line.split()
    if not 1 <= len(words) <= most:
        raise InputError("lesson_words_in_a_line", line=line[:30], found=len(words), most=most)
    return words


def toy_transformer(
    d_model: int, n_heads: int, seed: int, norm_first: bool = False, vocab: int = N_SPECIAL + MOST_WORDS, **dialect: Any
) -> Seq2Seq:
    """One encoder and one decoder layer whose parameters are a few round numbers, drawn from `seed`."""
    usual: dict[str, Any] = {"d_ff": d_model, "attention_bias": False}
    config = Seq2SeqConfig.of(
        source_vocab=vocab, target_vocab=vocab, d_model=d_model, n_heads=n_heads, n_encoder_layers=1,
        n_decoder_layers=1, dropout=0.0, norm_first=norm_first, max_length=MAX_TOKENS, **(usual | dialect),
    )  # fmt: skip
    return _rounded(Seq2Seq(config), d_model, seed)


def toy_layers(d_model: int, seed: int, norm_first: bool = False, gelu: bool = False, tied: bool = True) -> Seq2Seq:
    """One encoder and one decoder layer with nothing at rest: gains, shifts and biases are round numbers too.

    `gelu` bends the feed-forward nets with GELU instead of ReLU; `tied` makes the target's embedding the output layer.
    """
    model = toy_transformer(
        d_model, 1 if d_model % 2 else 2, seed, norm_first, d_ff=2 * d_model, attention_bias=True,
        norm_after_stack=norm_first, activation="gelu" if gelu else "relu", tie_projection=tied, projection_bias=True,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                middle = 1.0 if "norm" in name and name.endswith("weight") else 0.0
                parameter.copy_(middle + torch.randint(-1, 2, parameter.shape, generator=generator) * 0.5)
    return model


def toy_words(target: str = "") -> tuple[str, ...]:
    """The words that a toy writes, by id: padding, start and end, then those of its target sentence, then its own.

    Typed words come first, as many as they are.
    """
    typed = tuple(dict.fromkeys(target.split()))
    own = [word for word in TARGET_WORDS if word not in typed]
    return ("<pad>", "<s>", "</s>", *typed, *own[: MOST_WORDS - len(typed)])


def toy_recurrent(hidden: int, attention: Literal["location", "additive"], seed: int) -> Recurrent:
    """A recurrent encoder-decoder with `additive` or `location` attention, its parameters round numbers too."""
    vocab = N_SPECIAL + MOST_WORDS
    config = RecurrentConfig.of(
        source_vocab=vocab, target_vocab=vocab, hidden=hidden, attention=attention, dropout=0.0, max_length=MOST_WORDS
    )
    return _rounded(Recurrent(config), hidden, seed)


def _rounded(model: Model, width: int, seed: int) -> Model:
    """Matrices of round numbers; biases 0 and gains 1 as they are in a new model.

    Their spread falls with the width about as that of a new model does, 1 / sqrt(width): halves up to 1 for 4, tenths
    up to 0.4 for 16. Otherwise a wide toy's scores would be so large that no softmax of it hesitates.
    """
    step = 0.5 if width <= 4 else 0.25 if width <= 8 else 0.2
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator) * step)
            elif name.split(".")[-1].startswith("bias"):
                parameter.zero_()
    return model.double().eval()

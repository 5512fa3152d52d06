"""Toy models: real layers, small enough that every number can be written down."""

from collections.abc import Sequence
from typing import Literal, TypeVar

import torch
from torch import nn

from transformer.errors import ConfigError, InputError
from transformer.lessons.masks import Batch
from transformer.lessons.sentences import MAX_TOKENS as LONGEST
from transformer.lessons.sentences import Sentence
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig

SOURCE_WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "slept")
TARGET_WORDS = ("die", "Katze", "sitzt", "auf", "der", "Matte", "und", "schläft")
Model = TypeVar("Model", bound=nn.Module)

N_SPECIAL, BOS, EOS = 3, 1, 2
"""Ids before the first word: padding (0), start, end."""

MAX_TOKENS = len(SOURCE_WORDS)
MAX_SIZE = 16
"""Widest toy: beyond, nobody writes the numbers down."""


def toy_sentences(n_tokens: int, source: str = "", target: str = "") -> tuple[Sentence, Sentence]:
    """Source and target: the words that are typed, apart by spaces, or the first `n_tokens` of the toy's own.

    A word that stands twice is one token that stands twice, with one vector.

    Raises:
        ConfigError: fewer than 1 or more than 8 words of the toy's own.
        InputError: more than 8 typed words.
    """
    _between("n_tokens", n_tokens, 1, MAX_TOKENS)
    return _typed(source, SOURCE_WORDS[:n_tokens]), _typed(target, TARGET_WORDS[:n_tokens])


def _typed(line: str, otherwise: Sequence[str]) -> Sentence:
    words = line.split() or otherwise
    if len(words) > MAX_TOKENS:
        raise InputError("lesson_words_in_a_line", line=line[:30], found=len(words), most=MAX_TOKENS)
    ids = {word: N_SPECIAL + i for i, word in enumerate(dict.fromkeys(words))}
    return Sentence.of([ids[word] for word in words], words)


def toy_batch(sources: Sequence[str], targets: Sequence[str]) -> tuple[Batch, int]:
    """Typed lines as a batch of words, and the vocabulary that a toy needs for it.

    Sources end with an end token, targets begin with a start token, as a translator reads them.

    Raises:
        InputError: no line, too many, too long ones, or not as many sources as targets.
    """
    vocabulary = {word: N_SPECIAL + i for i, word in enumerate(dict.fromkeys(" ".join([*sources, *targets]).split()))}
    for line in (*sources, *targets):
        if not 1 <= len(line.split()) < LONGEST:
            raise InputError("lesson_words_in_a_line", line=line[:30], found=len(line.split()), most=LONGEST - 1)

    def ids(line: str) -> list[int]:
        return [vocabulary[word] for word in line.split()]

    read = [Sentence.of([*ids(line), EOS], [*line.split(), "</s>"]) for line in sources]
    written = [Sentence.of([BOS, *ids(line)], ["<s>", *line.split()]) for line in targets]
    return Batch.of(read, written, pad_id=0), N_SPECIAL + len(vocabulary)


def toy_transformer(
    d_model: int, n_heads: int, seed: int, norm_first: bool = False, vocab: int = N_SPECIAL + MAX_TOKENS
) -> Seq2Seq:
    """One encoder and one decoder layer whose parameters are a few round numbers, drawn from `seed`.

    Raises:
        ConfigError: the sizes are too large to be written down, or do not fit together.
    """
    _between("d_model", d_model, 1, MAX_SIZE)
    config = Seq2SeqConfig(
        source_vocab=vocab,
        target_vocab=vocab,
        d_model=d_model,
        n_heads=n_heads,
        d_ff=d_model,
        n_encoder_layers=1,
        n_decoder_layers=1,
        dropout=0.0,
        norm_first=norm_first,
        attention_bias=False,
        max_length=LONGEST,
    )
    return _rounded(Seq2Seq(config), d_model, seed)


def toy_layers(d_model: int, seed: int, norm_first: bool = False, gelu: bool = False, tied: bool = True) -> Seq2Seq:
    """One encoder and one decoder layer with nothing at rest: gains, shifts and biases are round numbers too.

    `gelu` bends the feed-forward nets with GELU instead of ReLU; `tied` makes the target's embedding the output layer.

    Raises:
        ConfigError: the width is too large to be written down.
    """
    _between("d_model", d_model, 1, MAX_SIZE)
    vocab = N_SPECIAL + MAX_TOKENS
    config = Seq2SeqConfig(
        source_vocab=vocab,
        target_vocab=vocab,
        d_model=d_model,
        n_heads=1 if d_model % 2 else 2,
        d_ff=2 * d_model,
        n_encoder_layers=1,
        n_decoder_layers=1,
        dropout=0.0,
        norm_first=norm_first,
        norm_after_stack=norm_first,
        activation="gelu" if gelu else "relu",
        tie_projection=tied,
        projection_bias=True,
        max_length=LONGEST,
    )
    model = _rounded(Seq2Seq(config), d_model, seed)
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
    return ("<pad>", "<s>", "</s>", *typed, *own[: MAX_TOKENS - len(typed)])


def toy_recurrent(hidden: int, attention: Literal["location", "additive"], seed: int) -> Recurrent:
    """A recurrent encoder-decoder with `additive` or `location` attention, its parameters round numbers too.

    Raises:
        ConfigError: the sizes are too large to be written down.
    """
    _between("hidden", hidden, 1, MAX_SIZE)
    vocab = N_SPECIAL + MAX_TOKENS
    config = RecurrentConfig(
        source_vocab=vocab, target_vocab=vocab, hidden=hidden, attention=attention, dropout=0.0, max_length=MAX_TOKENS
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


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError("lesson_out_of_range", name=name, value=value, low=low, high=high)

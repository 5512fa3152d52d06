"""Small tasks that a Transformer learns within seconds: their settings, their sequences, and the untrained model.

A run is a function of its settings, seed included. The sequences of each update are drawn anew; those that measure the
model are never among them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from ..errors import TrainingError
from ..nn.masks import Mask
from ..nn.seq2seq import Seq2Seq, Seq2SeqConfig
from ..nn.stacks import Decoder, DecoderConfig
from ..text.tokenizers import TextTokenizer, train_tokenizer

BATCH, UNSEEN = 64, 200
"""Sequences of an update, and sequences that measure the model and are never trained on."""

PERIODS = (5, 10)
"""Shortest and longest run of letters that a sequence of the repeated pattern repeats."""

WARM_UP, SMOOTHING, DROPOUT = 200, 0.1, 0.1
"""What the switches turn on: updates of warm-up, probability spread over all tokens, share of numbers dropped."""

BAD_START = 4.0
"""How many times as wide as Xavier's the matrices of a bad start are drawn."""

Rows = Int[Tensor, "row letter"]


@dataclass(frozen=True)
class Task:
    """What is read and what is to be written, as letters of `letters` by number.

    `places` says which source position each written letter is right to look at; None where no position is.
    """

    letters: str
    draw: Callable[[int, torch.Generator], Rows]
    target: Callable[[Rows], Tensor] | None
    places: Callable[[Rows], Bool[Tensor, "row written source"]] | None = None

    @property
    def tokenizer(self) -> TextTokenizer:
        """One token a letter, after padding, unknown, start and end: texts are letters with spaces between."""
        return _tokenizer(self.letters)


@cache
def _tokenizer(letters: str) -> TextTokenizer:
    lines = [" ".join(letters[: len(letters) - end]) for end in range(len(letters))]  # ids in this order
    return train_tokenizer(lines, N_SPECIAL + len(letters), "word")


N_SPECIAL = 4
"""Ids before the first letter's."""


def _letters(n_letters: int, length: int) -> Callable[[int, torch.Generator], Rows]:
    return lambda count, generator: torch.randint(n_letters, (count, length), generator=generator)


def _sum(count: int, generator: torch.Generator) -> Rows:
    digits = torch.randint(10, (count, 4), generator=generator)
    return torch.cat([digits[:, :2], torch.full((count, 1), 10), digits[:, 2:]], dim=1)


def _added(rows: Rows) -> Int[Tensor, "row digit"]:
    total = rows[:, [0, 3]].sum(1) * 10 + rows[:, [1, 4]].sum(1)
    return torch.stack([total // 100, total // 10 % 10, total % 10], dim=1)


def _repeated(count: int, generator: torch.Generator) -> Rows:
    shortest, longest = PERIODS
    runs = torch.rand(count, 26, generator=generator).argsort(1)[:, :longest]  # no letter twice in a run
    periods = torch.randint(shortest, longest + 1, (count, 1), generator=generator)
    return runs.gather(1, torch.arange(32).expand(count, -1) % periods)


def _after_repeats(rows: Rows) -> Bool[Tensor, "row position earlier"]:
    """Where each letter of a repeated pattern was followed before: the positions after the same letter."""
    n = rows.shape[1]
    same = (rows[:, :, None] == rows[:, None, :]) & torch.ones(n, n, dtype=torch.bool).tril(-1)
    return same.roll(1, dims=2)


def _same_letter(rows: Rows) -> Bool[Tensor, "row written source"]:
    return rows.sort(1).values[:, :, None] == rows[:, None, :]


def _one_place(order: list[int]) -> Callable[[Rows], Tensor]:
    return lambda rows: torch.eye(len(order), dtype=torch.bool)[order].expand(len(rows), -1, -1)


TASKS: Mapping[str, Task] = {
    "reverse": Task("abcdefghij", _letters(10, 8), lambda rows: rows.flip(1), _one_place(list(range(7, -1, -1)))),
    "copy": Task("abcdefghij", _letters(10, 8), lambda rows: rows, _one_place(list(range(8)))),
    "sort": Task("abcdefghij", _letters(10, 8), lambda rows: rows.sort(1).values, _same_letter),
    "add": Task("0123456789+", _sum, _added),
    "repeat": Task("abcdefghijklmnopqrstuvwxyz", _repeated, None, _after_repeats),
}
"""Reverse, copy or sort eight letters, add two numbers of two digits, go on with a pattern that repeats."""


CHOICES: Mapping[str, tuple[str, ...]] = {
    "task": tuple(TASKS),
    "n_layers": ("1", "2", "4"),
    "n_heads": ("1", "2", "4"),
    "d_model": ("16", "32", "64"),
    "rate": ("0.001", "0.003", "0.005", "0.006", "0.01"),
}
"""The values that settings can have; the others are on or off, and `seed` is any number up to `LAST_SEED`."""

LAST_SEED = 999


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that decides a run: the same settings give the same weights, bit for bit, on the same machine.

    `sees_future` trains with the decoder's mask off; it is on again whenever the model is measured or used.
    """

    task: str = "reverse"
    n_layers: int = 1
    n_heads: int = 1
    d_model: int = 32
    norm_first: bool = True
    rate: float = 0.005
    warmup: bool = False
    smoothing: bool = False
    dropout: bool = False
    positions: bool = True
    sees_future: bool = False
    xavier: bool = True
    seed: int = 1

    @classmethod
    def of(cls, said: Mapping[str, str]) -> "Settings":
        """The settings that texts say, such as `{"rate": "0.006", "warmup": "true"}`.

        Raises:
            TrainingError: a name or a value is none of those known.
        """
        found: dict[str, Any] = {}
        for name, usual in asdict(cls()).items():
            value = said.get(name, str(usual).lower())
            known = ("true", "false") if isinstance(usual, bool) else CHOICES.get(name, ())
            is_known = value in known if known else value.isdecimal() and int(value) <= LAST_SEED
            if not is_known:
                raise _no_choice(name, value, known or ("0", "...", str(LAST_SEED)))
            found[name] = value == "true" if isinstance(usual, bool) else type(usual)(value)
        if unknown := said.keys() - found.keys():
            raise _no_choice("setting", min(unknown), tuple(found))
        return cls(**found)

    @property
    def learned(self) -> Task:
        """What is learned."""
        return TASKS[self.task]

    def rate_of(self, update: int) -> float:
        """Learning rate of an update (from 1): constant, or Noam's schedule with its peak at the end of warm-up."""
        return self.rate * (noam(update, WARM_UP) if self.warmup else 1.0)

    def held_out(self) -> Rows:
        """The sequences that measure the model."""
        return self.learned.draw(UNSEEN, torch.Generator().manual_seed(self.seed))

    def batch(self, update: int) -> Rows:
        """The sequences of an update (from 1), none of which measures the model."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + update)
        drawn, unseen = self.learned.draw(2 * BATCH, generator), self.held_out()
        known = (drawn[:, None, :] == unseen[None]).all(2).any(1)
        return drawn[~known][:BATCH]

    def right_places(self, rows: Rows) -> Bool[Tensor, "row query key"] | None:
        """The keys that each query is right to look at; None where none is. The last letter of a text is only read."""
        task = self.learned
        found = None if task.places is None else task.places(rows)
        return found if found is None or task.target is not None else found[:, :-1, :-1]

    def tensors(self, rows: Rows) -> tuple[Tensor, ...]:
        """What the loss takes: source with its end token and target with start and end token, or one text."""
        ids, task, tokenizer = rows + N_SPECIAL, self.learned, self.learned.tokenizer
        if task.target is None:
            return (ids,)
        start, end = (torch.full((len(rows), 1), token) for token in (tokenizer.bos_id, tokenizer.eos_id))
        return torch.cat([ids, end], dim=1), torch.cat([start, task.target(rows) + N_SPECIAL, end], dim=1)


def _no_choice(name: str, value: str, choices: tuple[str, ...]) -> TrainingError:
    return TrainingError("training_no_choice", name=name, value=value, choices=choices)


def noam(update: int, warmup: int) -> float:
    """Learning rate of an update (from 1), its peak being 1: up in a line over `warmup`, then with n^-0.5.

    Source: Vaswani et al. 2017, equation 3, times (d_model · warmup)^0.5.
    """
    return min(update / warmup, (warmup / update) ** 0.5)


def new_model(settings: Settings) -> Seq2Seq | Decoder:
    """The untrained model; that of the repeated pattern has attention alone: its feed-forward nets stay zero."""
    tokenizer = settings.learned.tokenizer
    shared: dict[str, Any] = dict(
        d_model=settings.d_model, n_heads=settings.n_heads, norm_first=settings.norm_first,
        norm_after_stack=settings.norm_first, dropout=DROPOUT * settings.dropout, max_length=64, scale_embedding=True,
        positions="sinusoidal" if settings.positions else "none",
    )  # fmt: skip
    model: Seq2Seq | Decoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        if settings.learned.target is None:
            model = Decoder(DecoderConfig.of(vocab=len(tokenizer), n_layers=settings.n_layers, d_ff=1, **shared))
            _initialise(model)
        else:
            shared |= dict(pad_id=tokenizer.pad_id, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id)
            shared |= dict(n_encoder_layers=settings.n_layers, n_decoder_layers=settings.n_layers)
            shared |= dict(source_vocab=len(tokenizer), target_vocab=len(tokenizer), d_ff=2 * settings.d_model)
            model = Seq2Seq(Seq2SeqConfig.of(**shared))
    if not settings.xavier:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data *= BAD_START
    if settings.sees_future:
        for block in model.decoder:
            block.self_attention.core.register_forward_pre_hook(_unmasked)
    return model


def _unmasked(core: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """In training, let a decoder's self-attention see what comes later."""
    *qkv, mask = given
    return (*qkv, Mask(keys=mask.keys)) if core.training else given


def _initialise(model: Decoder) -> None:
    """Start values as those of an encoder-decoder; feed-forward nets give zero, now and after training."""
    for name, parameter in model.named_parameters():
        if name == "embedding.weight":
            nn.init.normal_(parameter, std=model.config.block.d_model**-0.5)
        elif "feed_forward" in name and "norm" not in name:
            nn.init.zeros_(parameter).requires_grad_(False)
        elif parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)

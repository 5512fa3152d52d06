"""How a translator is made: parallel text as batches of like length, the untrained model, and how it is measured.

Recipe: Wu et al. 2021, "Good for Misconceived Reasons" (Multi30k, the small model); subword sampling after
Provilkov et al. 2020, "BPE-Dropout".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint import load
from transformer.checkpoint.ours.folder import TOKENIZER, fill
from transformer.errors import TrainingError
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import DecodingOptions, teacher_forced
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.runs.corpus import bleu, translate_lines
from transformer.text.batch import pad
from transformer.text.lines import read_lines
from transformer.text.text import TextTokenizer, train_tokenizer
from transformer.training.loop import NextTokenLoss, Translator
from transformer.training.options import TranslationOptions

GREEDY = DecodingOptions(beam=1)
"""How validation translates while the model is trained."""

VALIDATION_ROWS = 100
"""Validation pairs that pass through the model together."""


@dataclass(frozen=True)
class Pair:
    """One training example: source with its end token; target with start and end token."""

    source: list[int]
    target: list[int]

    @property
    def n_written(self) -> int:
        """Tokens that the model has to predict: all of the target but the start token."""
        return len(self.target) - 1


@dataclass(frozen=True)
class ParallelText:
    """Two texts: line i of `target` translates line i of `source`."""

    source: list[str]
    target: list[str]

    @classmethod
    def read(cls, folder: Path, split: str, languages: tuple[str, str]) -> "ParallelText":
        """Both sides of `folder/split.LANGUAGE`.

        Raises:
            InputError: a file is missing or is not UTF-8.
            TrainingError: the sides differ in length, or are empty.
        """
        source, target = (read_lines(folder / f"{split}.{language}") for language in languages)
        if len(source) != len(target):
            raise TrainingError(
                "training_sides_differ",
                first=f"{split}.{languages[0]}",
                first_lines=len(source),
                second=f"{split}.{languages[1]}",
                second_lines=len(target),
            )
        if not source:
            raise TrainingError("training_empty", name=f"{split}.{languages[0]}")
        return cls(source, target)

    @property
    def lines(self) -> list[str]:
        """All source lines, then all target lines."""
        return [*self.source, *self.target]

    def __len__(self) -> int:
        return len(self.source)


def pairs(
    text: ParallelText, tokenizer: TextTokenizer, max_tokens: int, subword_dropout: float = 0.0, seed: int = 0
) -> list[Pair]:
    """Encode both sides; pairs with an empty or an over-long side teach nothing and are left out.

    With `subword_dropout`, words are cut into pieces at random, as `seed` says.

    Raises:
        TrainingError: subwords are to be dropped, and the tokenizer does not make its pieces by merges.
    """
    if subword_dropout:
        encoded = tokenizer.sample(text.lines, subword_dropout, seed)
    else:
        encoded = [tokenizer.encode(line) for line in text.lines]
    both = zip(encoded[: len(text)], encoded[len(text) :], strict=True)
    framed = (Pair([*s, tokenizer.eos_id], [tokenizer.bos_id, *t, tokenizer.eos_id]) for s, t in both)
    return [p for p in framed if 1 < len(p.source) <= max_tokens and 2 < len(p.target) <= max_tokens]


def epoch_batches(data: list[Pair], tokens: int, seed: int, epoch: int) -> Iterator[list[Pair]]:
    """All pairs once, in batches of at most `tokens` source and `tokens` target positions (padding counted).

    Lengths are jittered before sorting, so that companions change from epoch to epoch.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    jitter = torch.rand(len(data), 2, generator=generator).tolist()
    order = sorted(
        range(len(data)), key=lambda i: (len(data[i].target) + jitter[i][0], len(data[i].source) + 2 * jitter[i][1])
    )
    groups: list[list[int]] = [[]]
    width = 0
    for i in order:
        wider = max(width, len(data[i].source), len(data[i].target))
        if groups[-1] and wider * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            wider = max(len(data[i].source), len(data[i].target))
        groups[-1].append(i)
        width = wider
    for group in torch.randperm(len(groups), generator=generator).tolist():
        yield [data[i] for i in groups[group]]


def new_model(options: TranslationOptions, tokenizer: TextTokenizer) -> Translator:
    """The untrained model that `options` describe, with one vocabulary for both languages.

    A Transformer has a norm before each sub-layer. Recurrent nets are as in Bahdanau et al. 2015, with either
    attention, so that two runs differ in nothing else.
    """
    shared: dict[str, Any] = dict(
        source_vocab=len(tokenizer),
        target_vocab=len(tokenizer),
        dropout=options.dropout,
        tie_embeddings=True,
        tie_projection=True,
        max_length=options.max_tokens,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    kind, _, attention = options.architecture.partition("-")
    if kind == "rnn":
        return Recurrent(
            RecurrentConfig(
                hidden=options.d_model,
                d_embedding=options.d_embedding,
                attention=attention,
                bidirectional=True,
                deep_output=True,
                **shared,
            )
        )
    return Seq2Seq(
        Seq2SeqConfig(
            d_model=options.d_model,
            n_heads=options.n_heads,
            d_ff=options.d_ff,
            n_encoder_layers=options.n_layers,
            n_decoder_layers=options.n_layers,
            positions=options.positions,
            norm_first=True,
            norm_after_stack=True,
            **shared,
        )
    )


class Translation:
    """Learning to translate: the task of a run."""

    def __init__(self, options: TranslationOptions, device: torch.device) -> None:
        """Read the texts, make or take over the tokenizer, and draw the first weights.

        Raises:
            InputError: a text cannot be read.
            TrainingError: the texts do not match, or the work folder holds another tokenizer.
        """
        self.options, self.device = options, device
        self.train_text = ParallelText.read(options.data, "train", options.languages)
        self.valid_text = ParallelText.read(options.data, "val", options.languages)
        self.tokenizer = self._tokenizer()
        self.valid = self._pairs(self.valid_text)
        torch.manual_seed(options.seed)
        self.model: Translator = self._model().to(device)
        self.loss = NextTokenLoss(self.model, options.label_smoothing)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), fused=True)

    def batches(self, epoch: int) -> list[list[Pair]]:
        """Pairs of like length together; early epochs cut words anew."""
        options = self.options
        dropout = options.subword_dropout if epoch < options.subword_epochs else 0.0
        data = self._pairs(self.train_text, dropout, options.seed * 1_000_003 + epoch)
        return list(epoch_batches(data, options.batch_tokens, options.seed, epoch))

    def count(self, batch: Sequence[Pair]) -> int:
        """Tokens to predict."""
        return sum(pair.n_written for pair in batch)

    def tensors(self, rows: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Padded source and target."""
        pad_id = self.tokenizer.pad_id
        source, target = pad([row.source for row in rows], pad_id), pad([row.target for row in rows], pad_id)
        return source.to(self.device), target.to(self.device)

    def validate(self) -> dict[str, float]:
        """Nats per token of the validation targets, and greedy BLEU."""
        lines = translate_lines(self.model, self.tokenizer, self.valid_text.source, GREEDY, device=self.device)
        score = bleu([line.text for line in lines], self.valid_text.target).score
        return {"valid_loss": self._valid_loss(), "valid_bleu_greedy": score}

    @torch.no_grad()
    def _valid_loss(self) -> float:
        total = 0.0
        for start in range(0, len(self.valid), VALIDATION_ROWS):
            source, target = self.tensors(self.valid[start : start + VALIDATION_ROWS])
            total -= teacher_forced(self.model, source, target).sum().item()
        return total / self.count(self.valid)

    def _tokenizer(self) -> TextTokenizer:
        """The run's tokenizer: first the one to take over, or one trained on the training text alone."""
        path, start = self.options.work / TOKENIZER, self.options.start
        given = start / TOKENIZER if start else self.options.tokenizer
        taken = TextTokenizer.read(given) if given else None
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            known = taken or train_tokenizer(self.train_text.lines, self.options.vocab_size)
            path.write_bytes(known.model)
        kept = TextTokenizer.read(path)
        if taken is not None and taken.model != kept.model:
            raise TrainingError("training_another_tokenizer", given=given, folder=path.parent)
        return kept

    def _model(self) -> Translator:
        """Random weights, or those of the checkpoint to start from."""
        model = new_model(self.options, self.tokenizer)
        if self.options.start is not None:
            start = load(self.options.start)
            fill(model, dict(start.model.named_parameters()), start.name)
        return model

    def _pairs(self, text: ParallelText, subword_dropout: float = 0.0, seed: int = 0) -> list[Pair]:
        found = pairs(text, self.tokenizer, self.options.max_tokens, subword_dropout, seed)
        if not found:
            raise TrainingError("training_no_pair", most=self.options.max_tokens)
        return found

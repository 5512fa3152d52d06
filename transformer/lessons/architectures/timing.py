"""How long an encoder takes on this machine, measured as it runs."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.errors import CheckpointError
from transformer.layers.positions import TablePositions
from transformer.models.recurrent import Recurrent
from transformer.models.seq2seq import Seq2Seq
from transformer.runs.concurrency import forward_slot

LENGTHS = (16, 32, 64, 128, 256, 512)
"""Tokens at which encoders are timed."""

REPEATS = 7
"""Runs of each length, after one that is not counted; the fastest is the time, as other work can only slow one."""


@dataclass(frozen=True)
class EncoderTime:
    """`seconds` that model number `model` took to read `tokens` random tokens: the fastest run."""

    model: int
    tokens: int
    seconds: float


def encoder_times(
    models: Sequence[object], lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS, seed: int = 0
) -> Iterator[EncoderTime]:
    """Time the encoders of all models, one length after the other; each result comes as soon as it is known.

    Every run reads one sentence of random tokens and waits for its turn among all runs of the process. The models
    take turns at each length, so that other work on the machine disturbs them alike. A model with a table of positions
    is left out past its end; computed positions past the ones kept ready are part of the time.

    Raises:
        CheckpointError: a model has no encoder to time.
    """
    readers = [_Reader(model) for model in models]
    for tokens in lengths:
        able = {number: reader for number, reader in enumerate(readers) if tokens <= reader.longest}
        sources = {number: reader.source(tokens, seed) for number, reader in able.items()}
        taken: dict[int, list[float]] = {number: [] for number in able}
        for turn in range(repeats + 1):
            for number, reader in able.items():
                with forward_slot():
                    started = time.perf_counter()
                    reader.read(sources[number])
                    seconds = time.perf_counter() - started
                if turn:
                    taken[number].append(seconds)
        for number, found in taken.items():
            yield EncoderTime(number, tokens, min(found))


class _Reader:
    """The encoder of a model: embedding and all layers, nothing of the decoder."""

    def __init__(self, model: object) -> None:
        if not isinstance(model, (Seq2Seq, Recurrent)):
            raise CheckpointError("lesson_model_without_encoder", kind=type(model).__name__)
        self.model = model

    @property
    def longest(self) -> float:
        """The most tokens that it can read."""
        positions = self.model.source_positions if isinstance(self.model, Seq2Seq) else None
        return float(len(positions.table)) if isinstance(positions, TablePositions) else float("inf")

    def source(self, tokens: int, seed: int) -> Tensor:
        """One sentence of random tokens; none of them is padding."""
        config = self.model.config
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randint(config.source_vocab, (1, tokens), generator=generator)
        return ids.masked_fill(ids == config.pad_id, config.eos_id)

    def read(self, source: Tensor) -> None:
        """Pass a source through the encoder."""
        if isinstance(self.model, Seq2Seq):
            self.model.encode(source)
        else:
            self.model.encoder(self.model.source_embedding(source))

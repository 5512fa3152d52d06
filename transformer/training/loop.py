"""Updates of a model's weights: what they descend, and how each follows from a seed, so that a stopped run goes on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.nn.decoder import Decoder
from transformer.nn.recurrent import Recurrent
from transformer.nn.seq2seq import Seq2Seq

Translator = Seq2Seq | Recurrent
"""A model with `hidden(source, target)`, and the `logits` of that; a `Decoder` reads a target alone."""


class NextTokenLoss(nn.Module):
    """Summed cross-entropy (nats) of each next token of the target; padding is not counted."""

    def __init__(self, model: Translator | Decoder, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, *read: Tensor) -> Tensor:
        """The loss of a padded batch: of source and target, which begins with the start token, or of texts alone."""
        *source, target = read
        hidden: Tensor = cast(Any, self.model).hidden(*source, target[:, :-1])
        labels = target[:, 1:]
        real = labels != self.model.config.pad_id
        logits = self.model.logits(hidden[real][None])[0]
        return F.cross_entropy(logits, labels[real], label_smoothing=self.label_smoothing, reduction="sum")


class Trainer:
    """Steps down the gradient of a loss: a module from a batch's tensors to the sum over its examples.

    What is drawn in an update (dropout, hidden letters) is a function of (seed, update).
    """

    def __init__(
        self,
        loss: nn.Module,
        optimizer: torch.optim.Optimizer,
        rate: Callable[[int], float],
        seed: int = 1,
        clip: float = 0.0,
        fast: bool = False,
    ) -> None:
        """`rate` is the learning rate of each update (from 1); gradients longer than `clip` are shortened (0: none)."""
        self.loss, self.parameters = loss, list(loss.parameters())
        self.optimizer, self.rate, self.seed, self.clip, self.fast = optimizer, rate, seed, clip, fast

    def step(self, update: int, tensors: Sequence[Tensor], count: int) -> float:
        """Do the update with this number on a batch of `count` examples; returns its summed loss."""
        torch.manual_seed((self.seed * 1_000_003 + update) * 1_009)
        self.loss.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(update)
        self.optimizer.zero_grad()
        with fast_products(self.fast):
            summed = self.loss(*tensors)
            (summed / count).backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()
        return float(summed.item())


@contextmanager
def fast_products(fast: bool = True) -> Iterator[None]:
    """Multiply float32 matrices the fastest way that PyTorch has, if `fast`.

    On a CPU they go to oneDNN, which uses AVX-512 on every make: 200 in place of 100 GFLOP/s, in full float32, on an
    AMD EPYC with one thread. A processor with matrix units of lower precision (AMX, a GPU) uses those.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if fast else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

"""The loss of next tokens, and one step down the gradient of any loss."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..nn.recurrent import Recurrent
from ..nn.seq2seq import Seq2Seq
from ..nn.stacks import Decoder


class NextTokenLoss(nn.Module):
    """Summed cross-entropy (nats) of each next token of the target; padding is not counted."""

    def __init__(self, model: Seq2Seq | Recurrent | Decoder, label_smoothing: float = 0.0) -> None:
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


def descend(
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Sequence[Tensor],
    count: int,
    *,
    rate: float,
    seed: tuple[int, int],
    clip: float = 0.0,
) -> float:
    """One step down the gradient of a loss, the sum over the `count` examples of a batch; returns that sum.

    What is drawn (dropout, hidden letters) is a function of `seed`: that of the run, and the number of the update.
    A gradient longer than `clip` is shortened (0: none is).
    """
    torch.manual_seed((seed[0] * 1_000_003 + seed[1]) * 1_009)
    loss.train()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    summed = loss(*tensors)
    (summed / count).backward()
    if clip:
        nn.utils.clip_grad_norm_(loss.parameters(), clip)
    optimizer.step()
    return float(summed.item())

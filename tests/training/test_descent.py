"""The loss of next tokens counts what is real, whatever the model."""

from typing import Any

import pytest
import torch

from tests import toy
from transformer.nn.common import pad
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.training.descent import NextTokenLoss


@pytest.mark.parametrize("attention", ["dot product", "additive", "location"])
def test_the_loss_counts_each_real_token_once(attention: str) -> None:
    """Padding adds nothing, and a row without real tokens gives zero and no gradient."""
    words = toy.tokenizer()
    model: Any = toy.model(words)
    if attention != "dot product":
        vocabulary = dict(source_vocab=len(words), target_vocab=len(words), pad_id=words.pad_id, bos_id=words.bos_id)
        sizes = dict(hidden=7, d_embedding=5, attention=attention, bidirectional=True, max_length=32)
        model = Recurrent(RecurrentConfig.of(**vocabulary, **sizes, eos_id=words.eos_id, deep_output=True))
    learner = NextTokenLoss(model.eval(), label_smoothing=0.1)
    rows = [(words.source_ids(s), words.target_ids(t)) for s, t in toy.sentences(5, seed=1)]
    together = learner(pad([s for s, _ in rows], words.pad_id), pad([t for _, t in rows], words.pad_id))
    alone = sum(learner(torch.tensor([s]), torch.tensor([t])) for s, t in rows)
    torch.testing.assert_close(together, alone)
    nothing = learner(torch.tensor([[words.eos_id]]), torch.tensor([[words.bos_id, words.pad_id]]))
    assert nothing.item() == 0
    nothing.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())

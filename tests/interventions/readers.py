"""Small models that read one text, one for each thing that such a model can end with."""

import torch

from transformer import Checkpoint, watch
from transformer.models.encoder import Encoder, EncoderConfig
from transformer.tokens.vocabulary import IdTokenizer, SpecialIds

VOCAB = 13
TEXT = "4 7 2 11 5"
HEADS: dict[str, dict[str, object]] = {
    "classes": {"head": (5, 3), "head_reads": "mean"},
    "states": {},
    "positions": {"head": (VOCAB,), "head_reads": "each"},
    "next": {"head": (VOCAB,), "head_reads": "each", "causal": True},
    "number": {"head": (1,), "head_reads": "each"},
}
"""What each is made with: a model with one number at each position has nothing to choose among."""


def reader(kind: str) -> Checkpoint:
    """A model that reads ids, float32, and ends with `kind`."""
    torch.manual_seed(3)
    config = EncoderConfig(vocab=VOCAB, d_model=6, n_heads=2, d_ff=7, n_layers=2, max_length=40, **HEADS[kind])  # type: ignore[arg-type]
    return Checkpoint(kind, watch(Encoder(config).eval()), IdTokenizer(VOCAB, SpecialIds(-1, -1, -1)))

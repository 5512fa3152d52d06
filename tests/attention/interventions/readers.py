"""Small models that read one text, one for each thing that such a model can end with."""

from typing import Any

import torch

from transformer import Checkpoint, watch
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.text.vocabulary import IdTokenizer, SpecialIds

VOCAB = 13
TEXT = "4 7 2 11 5"
HEADS: dict[str, dict[str, Any]] = {
    "classes": {"head": (5, 3), "head_reads": "mean"},
    "states": {},
    "positions": {"head_reads": "each"},
    "number": {"head": (1,), "head_reads": "each"},
}
"""What each encoder is made with: a model with one number at each position has nothing to choose among."""


def model_of(kind: str, vocab: int) -> Encoder | Decoder:
    """A model that ends with `kind`; `next` is a decoder alone."""
    sizes: dict[str, Any] = dict(vocab=vocab, d_model=6, n_heads=2, d_ff=7, n_layers=2, max_length=40)
    if kind == "next":
        return Decoder(DecoderConfig(**sizes, positions="sinusoidal", scale_embedding=True))
    heads = {"head": (vocab,)} if kind == "positions" else {}
    return Encoder(EncoderConfig(**sizes, **HEADS[kind], **heads))


def reader(kind: str) -> Checkpoint:
    """A model that reads ids, float32, and ends with `kind`."""
    torch.manual_seed(3)
    return Checkpoint(kind, watch(model_of(kind, VOCAB).eval()), IdTokenizer(VOCAB, SpecialIds(-1, -1, -1)))

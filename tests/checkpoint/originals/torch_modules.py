"""Modules around torch.nn.Transformer and its layers. The outputs are torch's own; the maps come from its attention."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original, table


def keep_weights(module: nn.Module, maps: Maps, name: str) -> None:
    """Make one torch attention keep its weights by head under `name`."""
    run = module.forward

    def watched(*args, **kwargs):
        output, weights = run(*args, **(kwargs | {"need_weights": True, "average_attn_weights": False}))
        maps[name] = weights
        return output, weights

    module.forward = watched


@contextmanager
def step_by_step() -> Iterator[None]:
    """torch's fast path skips the attention modules, so no weights could be seen."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def watch_layers(encoder: Any, decoder: Any, maps: Maps) -> None:
    for i, layer in enumerate(encoder):
        keep_weights(layer.self_attn, maps, f"encoder.{i}.self")
    for i, layer in enumerate(decoder or ()):
        keep_weights(layer.self_attn, maps, f"decoder.{i}.self")
        keep_weights(layer.multihead_attn, maps, f"decoder.{i}.cross")


class Translator(Original):
    """Embeddings under names of the caller's choice, `nn.Transformer`, and a projection."""

    def __init__(self, source: int, target: int, n: tuple[int, int], d_model: int, h: int, d_ff: int, **options):
        super().__init__()
        names = options.pop("names", ("src_embed", "tgt_embed", "transformer", "generator"))
        self.names, self.stored = names, options.pop("stored", False)
        bias = options.get("bias", True)
        setattr(self, names[0], nn.Embedding(source, d_model))
        if names[1] != names[0]:
            setattr(self, names[1], nn.Embedding(target, d_model))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on its own fast path, which the maps do without
            setattr(self, names[2], nn.Transformer(d_model, h, *n, d_ff, 0.0, batch_first=True, **options))
        setattr(self, names[3], nn.Linear(d_model, target, bias=bias))
        if self.stored:
            self.register_buffer("pos_embedding", table(40, d_model)[:, None].float())

    @step_by_step()
    def forward(self, source: Tensor, target: Tensor) -> Maps:
        maps: Maps = {}
        embed, embed_target, transformer, generator = (getattr(self, name) for name in self.names)
        watch_layers(transformer.encoder.layers, transformer.decoder.layers, maps)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = transformer(
            self._positioned(embed(source)),
            self._positioned(embed_target(target)),
            tgt_mask=future,
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return maps | {"log_probs": generator(hidden).log_softmax(-1)}

    def _positioned(self, x: Tensor) -> Tensor:
        rows = self.pos_embedding[:, 0] if self.stored else table(x.shape[1], x.shape[2])
        return x * math.sqrt(x.shape[-1]) + rows[: x.shape[1]].to(x.dtype)


class EncoderOnly(Original):
    """The published encoder-only net: layers in a plain list, positions along the batch."""

    def __init__(self, vocab: int, n: int, d_model: int, h: int, d_ff: int):
        super().__init__()
        self.embeding = nn.Embedding(vocab, d_model)
        self.pos_encoder = Original()
        self.pos_encoder.register_buffer("pe", table(30, d_model)[:, None].float())
        self.transformer_encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(d_model, h, d_ff, 0.0, batch_first=True) for _ in range(n)
        )

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        watch_layers(self.transformer_encoder, None, maps)
        x = self.embeding(ids)
        x = x + self.pos_encoder.pe[: x.shape[0]]
        for layer in self.transformer_encoder:
            x = layer(x)
        return maps | {"hidden": x}


class Classifier(Original):
    """A module around nn.TransformerEncoder, with a template layer left over and a head after it."""

    def __init__(self, vocab: int, n: int, d_model: int, h: int, d_ff: int, norm_first: bool, reads: str = "mean"):
        super().__init__()
        self.reads = reads
        self.word_embedding = nn.Embedding(vocab, d_model)
        self.position_embedding = nn.Embedding(30, d_model)
        self.one_layer = nn.TransformerEncoderLayer(
            d_model, h, d_ff, 0.0, "gelu", batch_first=True, norm_first=norm_first
        )
        norm = nn.LayerNorm(d_model)
        self.backbone = nn.TransformerEncoder(self.one_layer, n, norm, enable_nested_tensor=False)
        self.pooler, self.head = nn.Linear(d_model, d_ff), nn.Linear(d_ff, 3, bias=False)

    @step_by_step()
    def forward(self, ids: Tensor) -> Maps:
        maps: Maps = {}
        watch_layers(self.backbone.layers, None, maps)
        x = self.word_embedding(ids) + self.position_embedding.weight[: ids.shape[1]]
        hidden = self.backbone(x, src_key_padding_mask=ids == 0)
        return maps | {"hidden": hidden, "logits": self.head(torch.tanh(self.pooler(self._read(hidden, ids != 0))))}

    def _read(self, hidden: Tensor, real: Tensor) -> Tensor:
        if self.reads == "mean":
            return torch.stack([row[kept].mean(0) for row, kept in zip(hidden, real, strict=True)])
        if self.reads == "last":
            return torch.stack([row[kept][-1] for row, kept in zip(hidden, real, strict=True)])
        return hidden[:, 0] if self.reads == "first" else hidden

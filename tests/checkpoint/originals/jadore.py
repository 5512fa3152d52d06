"""The names of jadore801120/attention-is-all-you-need-pytorch."""

from argparse import Namespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original, attend, past, real, split, table


class Attention(Original):
    def __init__(self, n_head: int, d_model: int, d_k: int, d_v: int):
        super().__init__()
        self.n_head = n_head
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, x: Tensor, memory: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = split(self.w_qs(x), self.n_head), split(self.w_ks(memory), self.n_head), self.w_vs(memory)
        mixed, weights = attend(q, k, split(v, self.n_head), visible)
        return self.layer_norm(x + self.fc(mixed)), weights


class FeedForward(Original):
    def __init__(self, d_model: int, d_hid: int):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_hid), nn.Linear(d_hid, d_model)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer_norm(x + self.w_2(F.relu(self.w_1(x))))


class Layer(Original):
    def __init__(self, s: Namespace, decodes: bool):
        super().__init__()
        self.slf_attn = Attention(s.n_head, s.d_model, s.d_k, s.d_v)
        if decodes:
            self.enc_attn = Attention(s.n_head, s.d_model, s.d_k, s.d_v)
        self.pos_ffn = FeedForward(s.d_model, s.d_inner_hid)


class Positions(Original):
    def __init__(self, d_model: int, n_position: int):
        super().__init__()
        self.register_buffer("pos_table", table(n_position, d_model)[None].float())


class Encoder(Original):
    def __init__(self, s: Namespace):
        super().__init__()
        self.src_word_emb = nn.Embedding(s.src_vocab_size, s.d_model)
        self.position_enc = Positions(s.d_model, 50)
        self.layer_stack = nn.ModuleList(Layer(s, decodes=False) for _ in range(s.n_layers))
        self.layer_norm = nn.LayerNorm(s.d_model, eps=1e-6)


class Decoder(Original):
    def __init__(self, s: Namespace):
        super().__init__()
        self.trg_word_emb = nn.Embedding(s.trg_vocab_size, s.d_model)
        self.position_enc = Positions(s.d_model, 50)
        self.layer_stack = nn.ModuleList(Layer(s, decodes=True) for _ in range(s.n_layers))
        self.layer_norm = nn.LayerNorm(s.d_model, eps=1e-6)


class Transformer(Original):
    def __init__(self, s: Namespace):
        super().__init__()
        self.encoder, self.decoder = Encoder(s), Decoder(s)
        self.pads = getattr(s, "src_pad_idx", 0), getattr(s, "trg_pad_idx", 0)
        self.trg_word_prj = nn.Linear(s.d_model, s.trg_vocab_size, bias=False)
        self.scale_emb = s.proj_share_weight and s.scale_emb_or_prj == "emb"
        self.scale_prj = s.proj_share_weight and s.scale_emb_or_prj == "prj"
        if s.proj_share_weight:
            self.trg_word_prj.weight = self.decoder.trg_word_emb.weight
        if s.embs_share_weight:
            self.encoder.src_word_emb.weight = self.decoder.trg_word_emb.weight

    def forward(self, source: Tensor, target: Tensor) -> Maps:
        maps: Maps = {}
        layer: Any
        x = self._embed(self.encoder, self.encoder.src_word_emb, source)
        for i, layer in enumerate(self.encoder.layer_stack):
            x, maps[f"encoder.{i}.self"] = layer.slf_attn(x, x, real(source, self.pads[0]))
            x = layer.pos_ffn(x)
        memory, x = x, self._embed(self.decoder, self.decoder.trg_word_emb, target)
        for i, layer in enumerate(self.decoder.layer_stack):
            x, maps[f"decoder.{i}.self"] = layer.slf_attn(x, x, past(target, self.pads[1]))
            x, maps[f"decoder.{i}.cross"] = layer.enc_attn(x, memory, real(source, self.pads[0]))
            x = layer.pos_ffn(x)
        logits = self.trg_word_prj(x)
        return maps | {"log_probs": (logits * x.shape[-1] ** -0.5 if self.scale_prj else logits).log_softmax(-1)}

    def _embed(self, half: Any, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        x = embedding(ids)
        if self.scale_emb:
            x = x * torch.tensor(x.shape[-1], dtype=x.dtype) ** 0.5
        return half.layer_norm(x + half.position_enc.pos_table[:, : ids.shape[1]])

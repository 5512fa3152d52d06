"""Recurrent pairs of other tutorials, step by step as their authors write them."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original


class D2lEncoder(Original):
    def __init__(self, vocab: int, d: int, hidden: int, layers: int):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(vocab, d), nn.GRU(d, hidden, layers)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self.rnn(self.embedding(source))


class D2lDecoder(Original):
    def __init__(self, vocab: int, d: int, hidden: int, layers: int):
        super().__init__()
        self.attention, self.embedding = Original(), nn.Embedding(vocab, d)
        for name in ("W_q", "W_k"):
            setattr(self.attention, name, nn.Linear(hidden, hidden, bias=False))
        self.attention.w_v = nn.Linear(hidden, 1, bias=False)
        self.rnn, self.dense = nn.GRU(d + hidden, hidden, layers), nn.Linear(hidden, vocab)

    def forward(self, token: Tensor, hidden: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, a = outputs.permute(1, 0, 2), self.attention
        features = torch.tanh(a.W_q(hidden[-1][:, None])[:, :, None] + a.W_k(keys)[:, None])
        weights = a.w_v(features).squeeze(-1).softmax(-1)  # (batch, 1, source)
        context = torch.bmm(weights, keys)
        x = torch.cat((context, self.embedding(token)[:, None]), dim=-1)
        output, hidden = self.rnn(x.permute(1, 0, 2), hidden)
        return self.dense(output[0]), hidden, weights[:, 0]


class ChatbotEncoder(Original):
    def __init__(self, vocab: int, hidden: int, layers: int, net: Any, name: str):
        super().__init__()
        self.embedding, self.name = nn.Embedding(vocab, hidden), name
        setattr(self, name, net(hidden, hidden, layers, bidirectional=True))

    def forward(self, source: Tensor) -> tuple[Tensor, Any]:
        outputs, hidden = getattr(self, self.name)(self.embedding(source))
        half = outputs.shape[2] // 2
        return outputs[:, :, :half] + outputs[:, :, half:], hidden


class ChatbotDecoder(Original):
    def __init__(self, vocab: int, hidden: int, layers: int, net: Any, name: str, method: str):
        super().__init__()
        self.embedding, self.name, self.method, self.layers = nn.Embedding(vocab, hidden), name, method, layers
        setattr(self, name, net(hidden, hidden, layers))
        self.concat, self.out = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, vocab)
        self.attn = Original()
        if method == "general":
            self.attn.attn = nn.Linear(hidden, hidden)
        if method == "concat":
            self.attn.attn, self.attn.v = nn.Linear(2 * hidden, hidden), nn.Parameter(torch.empty(hidden))

    def forward(self, token: Tensor, hidden: Any, outputs: Tensor) -> tuple[Tensor, Any, Tensor]:
        hidden = tuple(h[: self.layers] for h in hidden) if isinstance(hidden, tuple) else hidden[: self.layers]
        output, hidden = getattr(self, self.name)(self.embedding(token[None]), hidden)
        weights = self._energies(output, outputs).t().softmax(1)
        context = weights[:, None].bmm(outputs.transpose(0, 1))[:, 0]
        joined = torch.tanh(self.concat(torch.cat((output[0], context), 1)))
        return self.out(joined), hidden, weights

    def _energies(self, hidden: Tensor, outputs: Tensor) -> Tensor:
        if self.method == "general":
            return torch.sum(hidden * self.attn.attn(outputs), dim=2)
        if self.method == "concat":
            both = torch.cat((hidden.expand(len(outputs), -1, -1), outputs), 2)
            return torch.sum(self.attn.v * self.attn.attn(both).tanh(), dim=2)
        return torch.sum(hidden * outputs, dim=2)


class StackedEncoder(Original):
    """The first tutorial's with several layers."""

    def __init__(self, vocab: int, hidden: int, layers: int):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, layers)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return self.gru(self.embedding(source))


class StackedDecoder(Original):
    def __init__(self, vocab: int, hidden: int, layers: int, positions: int):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, layers)
        self.attn, self.attn_combine = nn.Linear(2 * hidden, positions), nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, token: Tensor, hidden: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = self.embedding(token)
        weights = self.attn(torch.cat((embedded, hidden[0]), 1)).softmax(1)
        context = torch.einsum("bs,sbh->bh", weights[:, : len(outputs)], outputs)
        mixed = torch.relu(self.attn_combine(torch.cat((embedded, context), 1)))
        output, hidden = self.gru(mixed[None], hidden)
        return self.out(output[0]), hidden, weights


def run(encoder: nn.Module, decoder: nn.Module, source: Tensor, target: Tensor) -> Maps:
    """Every step's weights and log-probabilities, of inputs (batch, position); the originals have the batch second."""
    outputs, hidden = encoder(source.T)
    steps = []
    for token in target.T:
        logits, hidden, weights = decoder(token, hidden, outputs)
        steps.append((logits, weights))
    logits, weights = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return {"log_probs": logits.log_softmax(-1), "decoder.cross": weights[:, None]}

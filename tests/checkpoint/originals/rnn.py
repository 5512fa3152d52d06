"""The PyTorch seq2seq tutorial's encoder and its two decoders."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checkpoint.originals.common import Maps, Original


class EncoderRNN(Original):
    def __init__(self, vocab: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.gru(self.embedding(ids))


class LocationDecoder(Original):
    def __init__(self, vocab: int, hidden: int, max_length: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.attn = nn.Linear(2 * hidden, max_length)
        self.attn_combine = nn.Linear(2 * hidden, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def step(self, token: Tensor, hidden: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = self.embedding(token)
        weights = self.attn(torch.cat([embedded, hidden[0]], 1)).softmax(-1)
        states = F.pad(states, (0, 0, 0, self.attn.out_features - states.shape[1]))
        context = torch.bmm(weights[:, None], states)[:, 0]
        mixed = F.relu(self.attn_combine(torch.cat([embedded, context], 1)))
        output, hidden = self.gru(mixed[:, None], hidden)
        return self.out(output[:, 0]), hidden, weights


class AdditiveDecoder(Original):
    def __init__(self, vocab: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.attention = Original()
        self.attention.Wa, self.attention.Ua = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.attention.Va = nn.Linear(hidden, 1)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def step(self, token: Tensor, hidden: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = self.attention
        weights = a.Va(torch.tanh(a.Wa(hidden[0])[:, None] + a.Ua(states))).softmax(1).transpose(1, 2)
        context = torch.bmm(weights, states)
        output, hidden = self.gru(torch.cat([self.embedding(token)[:, None], context], 2), hidden)
        return self.out(output[:, 0]), hidden, weights[:, 0]


def run(encoder: EncoderRNN, decoder: LocationDecoder | AdditiveDecoder, source: Tensor, target: Tensor) -> Maps:
    states, hidden = encoder(source)
    steps = []
    for token in target.unbind(1):
        logits, hidden, weights = decoder.step(token, hidden, states)
        steps.append((logits, weights))
    logits, weights = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return {"log_probs": logits.log_softmax(-1), "decoder.cross": weights[:, None]}

"""Recurrent pairs and other loops: one map of all steps, one head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, ready


def steps_of(weighted: Tensor) -> Tensor:
    """One head and one query: (batch, key) to (batch, 1, 1, key)."""
    return weighted[:, None, None]


class BahdanauAttention(nn.Module):
    """PyTorch's tutorial on translation with an RNN."""

    def __init__(self, d: int, form: str = "bmm") -> None:
        super().__init__()
        self.Wa, self.Ua, self.Va, self.form = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1), form

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        if self.form == "bmm":
            return torch.bmm(weights, keys)
        if self.form == "sum":
            return (weights.squeeze(1).unsqueeze(-1) * keys).sum(dim=1, keepdim=True)
        return torch.einsum("bqk,bkd->bqd", weights, keys)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        summed = (query @ self.Wa.weight.T + self.Wa.bias) + (keys @ self.Ua.weight.T + self.Ua.bias)
        return (torch.tanh(summed) * self.Va.weight[0]).sum(-1) + self.Va.bias


class RecurrentPair(nn.Module):
    def __init__(self, vocab: int, d: int, form: str) -> None:
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(vocab, d), nn.GRU(d, d, batch_first=True)
        self.attention, self.cell, self.out = (
            BahdanauAttention(d, form),
            nn.GRU(2 * d, d, batch_first=True),
            nn.Linear(d, vocab),
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, hidden = self.encoder(self.embedding(source))
        outputs = []
        for i in range(target.shape[1]):
            context = self.attention(hidden.permute(1, 0, 2), states)
            y, hidden = self.cell(torch.cat([self.embedding(target[:, i : i + 1]), context], dim=2), hidden)
            outputs.append(self.out(y))
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)


def recurrent_pair(s: Sizes, form: str) -> Case:
    model, target, source = ready(RecurrentPair(s.vocab, s.d, form)), s.ids, s.other_ids

    def reference(brute: Brute) -> Tensor:
        states, hidden = model.encoder(model.embedding(source))
        outputs = []
        for i in range(target.shape[1]):
            scores = model.attention.scores(hidden.transpose(0, 1), states)
            context = brute.mix("attention", steps_of(scores), states[:, None])[:, 0]
            y, hidden = model.cell(torch.cat([model.embedding(target[:, i : i + 1]), context], dim=2), hidden)
            outputs.append(model.out(y))
        return torch.cat(outputs, 1).log_softmax(-1)

    return Case(model, (source, target), reference)


@case
def bahdanau_by_bmm(s: Sizes) -> Case:
    return recurrent_pair(s, "bmm")


@case
def bahdanau_by_product_and_sum(s: Sizes) -> Case:
    return recurrent_pair(s, "sum")


@case
def bahdanau_by_einsum(s: Sizes) -> Case:
    return recurrent_pair(s, "einsum")


class LuongStep(nn.Module):
    def __init__(self, method: str, d: int) -> None:
        super().__init__()
        self.attn, self.gru, self.concat = LuongAttn(method, d), nn.GRU(d, d), nn.Linear(2 * d, d)

    def forward(self, x: Tensor, hidden: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
        y, hidden = self.gru(x, hidden)
        context = self.attn(y, outputs).bmm(outputs.transpose(0, 1))
        return torch.tanh(self.concat(torch.cat((y.squeeze(0), context.squeeze(1)), 1))), hidden


class LuongAttn(nn.Module):
    def __init__(self, method: str, d: int) -> None:
        super().__init__()
        self.method = method
        if method != "dot":
            self.attn = nn.Linear(d if method == "general" else 2 * d, d)
        self.v = nn.Parameter(torch.randn(d))

    def energies(self, hidden: Tensor, outputs: Tensor) -> Tensor:
        if self.method == "dot":
            return torch.sum(hidden * outputs, dim=2)
        if self.method == "general":
            return torch.sum(hidden * self.attn(outputs), dim=2)
        energy = self.attn(torch.cat((hidden.expand(outputs.size(0), -1, -1), outputs), 2)).tanh()
        return torch.sum(self.v * energy, dim=2)

    def forward(self, hidden: Tensor, outputs: Tensor) -> Tensor:
        return F.softmax(self.energies(hidden, outputs).t(), dim=1).unsqueeze(1)


class Luong(nn.Module):
    """PyTorch's chatbot: positions first; a module gives the weights, its parent mixes by them."""

    def __init__(self, method: str, vocab: int, d: int) -> None:
        super().__init__()
        self.embedding, self.encoder, self.decoder = nn.Embedding(vocab, d), nn.GRU(d, d), LuongStep(method, d)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        outputs, hidden = self.encoder(self.embedding(source))
        found = []
        for i in range(len(target)):
            y, hidden = self.decoder(self.embedding(target[i : i + 1]), hidden, outputs)
            found.append(y)
        return torch.stack(found)


def luong(s: Sizes, method: str) -> Case:
    model, target, source = ready(Luong(method, s.vocab, s.d)), s.ids.t(), s.other_ids.t()
    step = model.decoder

    def reference(brute: Brute) -> Tensor:
        outputs, hidden = model.encoder(model.embedding(source))
        found, (w, b) = [], (step.attn.attn.weight, step.attn.attn.bias) if method != "dot" else (None, None)
        for i in range(len(target)):
            y, hidden = step.gru(model.embedding(target[i : i + 1]), hidden)
            if method == "concat":
                energy = torch.tanh(y @ w[:, : y.shape[2]].T + outputs @ w[:, y.shape[2] :].T + b) @ step.attn.v
            else:
                energy = (y * (outputs if method == "dot" else outputs @ w.T + b)).sum(-1)
            context = brute.mix("decoder", steps_of(energy.T), outputs.transpose(0, 1)[:, None])[:, 0, 0]
            found.append(torch.tanh(step.concat(torch.cat((y[0], context), 1))))
        return torch.stack(found)

    return Case(model, (source, target), reference)


@case
def luong_dot(s: Sizes) -> Case:
    return luong(s, "dot")


@case
def luong_general(s: Sizes) -> Case:
    return luong(s, "general")


@case
def luong_concat(s: Sizes) -> Case:
    return luong(s, "concat")


class AttnDecoder(nn.Module):
    """PyTorch's first tutorial: weights from the state alone, over MAX_LENGTH places, one sentence at a time."""

    def __init__(self, vocab: int, d: int, longest: int) -> None:
        super().__init__()
        self.embedding, self.encoder, self.longest = nn.Embedding(vocab, d), nn.GRU(d, d), longest
        self.attn, self.attn_combine, self.gru = nn.Linear(2 * d, longest), nn.Linear(2 * d, d), nn.GRU(d, d)

    def read(self, source: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.zeros(1, 1, self.gru.hidden_size)
        outputs = torch.zeros(self.longest, self.gru.hidden_size)
        for i in range(len(source)):
            y, hidden = self.encoder(self.embedding(source[i]).view(1, 1, -1), hidden)
            outputs[i] = y[0, 0]
        return outputs, hidden

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        outputs, hidden = self.read(source)
        found = []
        for token in target:
            embedded = self.embedding(token).view(1, 1, -1)
            weights = F.softmax(self.attn(torch.cat((embedded[0], hidden[0]), 1)), dim=1)
            applied = torch.bmm(weights.unsqueeze(0), outputs.unsqueeze(0))
            y = F.relu(self.attn_combine(torch.cat((embedded[0], applied[0]), 1)).unsqueeze(0))
            y, hidden = self.gru(y, hidden)
            found.append(y[0])
        return torch.cat(found)


@case
def weights_from_the_state_alone(s: Sizes) -> Case:
    model = ready(AttnDecoder(s.vocab, s.d, s.keys + 3))
    target, source = s.ids[0], s.other_ids[0]

    def reference(brute: Brute) -> Tensor:
        outputs, hidden = model.read(source)
        found = []
        for token in target:
            e = model.embedding.weight[token][None]
            scores = torch.cat((e, hidden[0]), 1) @ model.attn.weight.T + model.attn.bias
            context = brute.mix("AttnDecoder", steps_of(scores), outputs[None, None])[:, 0, 0]
            y, hidden = model.gru(model.attn_combine(torch.cat((e, context), 1))[None].clamp(min=0), hidden)
            found.append(y[0])
        return torch.cat(found)

    return Case(model, (source, target), reference)

"""Loops that look once a step, whose steps are one map."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Lambda, Sizes, case, linears, ready

Attend = Callable[[Tensor, Tensor], Tensor]


def steps_of(weighted: Tensor) -> Tensor:
    """One head and one query: (batch, key) to (batch, 1, 1, key)."""
    return weighted[:, None, None]


def recurrent_pair(m: Any, source: Tensor, target: Tensor, attend: Attend) -> Tensor:
    states, hidden = m.encoder(m.embedding(source))
    outputs = []
    for i in range(target.shape[1]):
        context = attend(hidden.permute(1, 0, 2), states)
        y, hidden = m.cell(torch.cat([m.embedding(target[:, i : i + 1]), context], dim=2), hidden)
        outputs.append(m.out(y))
    return F.log_softmax(torch.stack(outputs), dim=-1)


def bahdanau(m: Any, query: Tensor, keys: Tensor) -> Tensor:
    """PyTorch's tutorial on translation with an RNN."""
    scores = m.Va(torch.tanh(m.Wa(query) + m.Ua(keys))).squeeze(2).unsqueeze(1)
    return torch.bmm(F.softmax(scores, dim=-1), keys)


def additive(m: Any, query: Tensor, keys: Tensor) -> Tensor:
    summed = (query @ m.Wa.weight.T + m.Wa.bias) + (keys @ m.Ua.weight.T + m.Ua.bias)
    return (torch.tanh(summed) * m.Va.weight[0]).sum(-1) + m.Va.bias


@case
def bahdanau_by_bmm(s: Sizes) -> Case:
    attention = Lambda(bahdanau, **linears(s.d, "Wa Ua"), **linears(s.d, "Va", 1))
    rnns = {"encoder": nn.GRU(s.d, s.d, batch_first=True), "cell": nn.GRU(2 * s.d, s.d, batch_first=True)}
    ends = {"embedding": nn.Embedding(s.vocab, s.d), "out": nn.Linear(s.d, s.vocab)}
    model = ready(Lambda(lambda m, x, y: recurrent_pair(m, x, y, m.attention), attention=attention, **rnns, **ends))
    target, source = s.ids, s.other_ids

    def reference(brute: Brute) -> Tensor:
        def attend(query: Tensor, states: Tensor) -> Tensor:
            scores = additive(model.attention, query, states)
            return brute.mix("attention", steps_of(scores), states[:, None])[:, 0]

        return recurrent_pair(model, source, target, attend)

    return Case(model, (source, target), reference)


def by_input(m: Any, source: Tensor, target: Tensor) -> Tensor:
    """PyTorch's first tutorial: weights from what is written alone, over MAX_LENGTH places, one sentence at a time."""
    outputs = torch.zeros(m.longest, source.shape[1])
    for i, read in enumerate(source):
        outputs[i] = m.encoder(read)
    found = []
    for token in target:
        weights = F.softmax(m.attn(token[None]), dim=1)
        found.append(torch.bmm(weights.unsqueeze(0), outputs.unsqueeze(0))[0])
    return torch.cat(found)


@case
def weights_from_the_state_alone(s: Sizes) -> Case:
    nets = linears(s.d, "attn", s.keys + 3) | linears(s.d, "encoder")
    model, source, target = ready(Lambda(by_input, longest=s.keys + 3, **nets)), s.y[0], s.x[0]

    def reference(brute: Brute) -> Tensor:
        outputs = F.pad(model.encoder(source), (0, 0, 0, 3))[None, None]
        return torch.cat([brute.mix("Lambda", steps_of(model.attn(t)[None]), outputs)[0, 0] for t in target])

    return Case(model, (source, target), reference)


def own_past(m: Any, x: Tensor, attend: Attend) -> Tensor:
    """A recurrent language model that attends to its own earlier states: each step has one key more."""
    past = [torch.zeros(len(x), x.shape[2])]
    for i in range(x.shape[1]):
        context = attend(m.score(past[-1]), torch.stack(past, dim=1))
        past.append(m.cell(torch.cat([x[:, i], context], -1), past[-1]))
    return torch.stack(past[1:], dim=1)


def by_sum(query: Tensor, memory: Tensor) -> Tensor:
    return torch.sum(torch.softmax(memory @ query.unsqueeze(-1), dim=1) * memory, dim=1)


@case
def a_key_more_each_step(s: Sizes) -> Case:
    nets = {"cell": nn.GRUCell(2 * s.d, s.d), "score": nn.Linear(s.d, s.d, bias=False)}
    model, x = ready(Lambda(lambda m, x: own_past(m, x, by_sum), **nets)), s.x

    def reference(brute: Brute) -> Tensor:
        def attend(query: Tensor, memory: Tensor) -> Tensor:
            return brute.mix("Lambda", steps_of((memory * query[:, None]).sum(-1)), memory[:, None])[:, 0, 0]

        return own_past(model, x, attend)

    return Case(model, (x,), reference, changeable=False)

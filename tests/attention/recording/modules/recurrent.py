"""Recurrent pairs, and loops that write step by step: one map of all steps."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Lambda, Sizes, case, causal, dots, joined, linears, ready
from tests.attention.recording.modules.decoders import Projections, parts


def steps_of(weighted: Tensor) -> Tensor:
    """One head and one query: (batch, key) to (batch, 1, 1, key)."""
    return weighted[:, None, None]


def bahdanau(m: Any, query: Tensor, keys: Tensor) -> Tensor:
    """PyTorch's tutorial on translation with an RNN."""
    scores = m.Va(torch.tanh(m.Wa(query) + m.Ua(keys))).squeeze(2).unsqueeze(1)
    return torch.bmm(F.softmax(scores, dim=-1), keys)


def additive(m: Any, query: Tensor, keys: Tensor) -> Tensor:
    summed = (query @ m.Wa.weight.T + m.Wa.bias) + (keys @ m.Ua.weight.T + m.Ua.bias)
    return (torch.tanh(summed) * m.Va.weight[0]).sum(-1) + m.Va.bias


def recurrent_pair(m: Any, source: Tensor, target: Tensor, attend: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    states, hidden = m.encoder(m.embedding(source))
    outputs = []
    for i in range(target.shape[1]):
        context = attend(hidden.permute(1, 0, 2), states)
        y, hidden = m.cell(torch.cat([m.embedding(target[:, i : i + 1]), context], dim=2), hidden)
        outputs.append(m.out(y))
    return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)


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


def luong_step(m: Any, x: Tensor, hidden: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    y, hidden = m.gru(x, hidden)
    context = m.attn(y, outputs).bmm(outputs.transpose(0, 1))
    return torch.tanh(m.concat(torch.cat((y.squeeze(0), context.squeeze(1)), 1))), hidden


def luong(m: Any, source: Tensor, target: Tensor) -> Tensor:
    """PyTorch's chatbot: positions first; a module gives the weights, its parent mixes by them."""
    outputs, hidden = m.encoder(m.embedding(source))
    found = []
    for i in range(len(target)):
        y, hidden = m.decoder(m.embedding(target[i : i + 1]), hidden, outputs)
        found.append(y)
    return torch.stack(found)


@case
def luong_dot(s: Sizes) -> Case:
    attention = Lambda(lambda _, hidden, outputs: F.softmax((hidden * outputs).sum(2).t(), dim=1).unsqueeze(1))
    step = Lambda(luong_step, attn=attention, gru=nn.GRU(s.d, s.d), concat=nn.Linear(2 * s.d, s.d))
    parts = {"embedding": nn.Embedding(s.vocab, s.d), "encoder": nn.GRU(s.d, s.d), "decoder": step}
    model, target, source = ready(Lambda(luong, **parts)), s.ids.t(), s.other_ids.t()

    def reference(brute: Brute) -> Tensor:
        outputs, hidden = model.encoder(model.embedding(source))
        found = []
        for i in range(len(target)):
            y, hidden = model.decoder.gru(model.embedding(target[i : i + 1]), hidden)
            energy = (y * outputs).sum(-1)
            context = brute.mix("decoder", steps_of(energy.T), outputs.transpose(0, 1)[:, None])[:, 0, 0]
            found.append(torch.tanh(model.decoder.concat(torch.cat((y[0], context), 1))))
        return torch.stack(found)

    return Case(model, (source, target), reference)


def read_word_by_word(m: Any, source: Tensor) -> tuple[Tensor, Tensor]:
    hidden, outputs = torch.zeros(1, 1, m.gru.hidden_size), torch.zeros(m.longest, m.gru.hidden_size)
    for i in range(len(source)):
        y, hidden = m.encoder(m.embedding(source[i]).view(1, 1, -1), hidden)
        outputs[i] = y[0, 0]
    return outputs, hidden


def by_state(m: Any, source: Tensor, target: Tensor) -> Tensor:
    """PyTorch's first tutorial: weights from the state alone, over MAX_LENGTH places, one sentence at a time."""
    outputs, hidden = read_word_by_word(m, source)
    found = []
    for token in target:
        embedded = m.embedding(token).view(1, 1, -1)
        weights = F.softmax(m.attn(torch.cat((embedded[0], hidden[0]), 1)), dim=1)
        applied = torch.bmm(weights.unsqueeze(0), outputs.unsqueeze(0))
        y = F.relu(m.attn_combine(torch.cat((embedded[0], applied[0]), 1)).unsqueeze(0))
        y, hidden = m.gru(y, hidden)
        found.append(y[0])
    return torch.cat(found)


@case
def weights_from_the_state_alone(s: Sizes) -> Case:
    nets = linears(2 * s.d, "attn", s.keys + 3) | linears(2 * s.d, "attn_combine", s.d)
    nets |= {"embedding": nn.Embedding(s.vocab, s.d), "encoder": nn.GRU(s.d, s.d), "gru": nn.GRU(s.d, s.d)}
    model, target, source = ready(Lambda(by_state, longest=s.keys + 3, **nets)), s.ids[0], s.other_ids[0]

    def reference(brute: Brute) -> Tensor:
        outputs, hidden = read_word_by_word(model, source)
        found = []
        for token in target:
            e = model.embedding.weight[token][None]
            scores = torch.cat((e, hidden[0]), 1) @ model.attn.weight.T + model.attn.bias
            context = brute.mix("Lambda", steps_of(scores), outputs[None, None])[:, 0, 0]
            y, hidden = model.gru(model.attn_combine(torch.cat((e, context), 1))[None].clamp(min=0), hidden)
            found.append(y[0])
        return torch.cat(found)

    return Case(model, (source, target), reference)


def own_past(m: Any, x: Tensor) -> Tensor:
    """A recurrent language model that attends to its own earlier states: each step has one key more."""
    past = [torch.zeros(len(x), x.shape[2])]
    for i in range(x.shape[1]):
        memory = torch.stack(past, dim=1)
        alpha = torch.softmax(memory @ m.score(past[-1]).unsqueeze(-1), dim=1)
        context = torch.sum(alpha * memory, dim=1)
        past.append(m.cell(torch.cat([x[:, i], context], -1), past[-1]))
    return torch.stack(past[1:], dim=1)


@case
def a_key_more_each_step(s: Sizes) -> Case:
    model, x = ready(Lambda(own_past, cell=nn.GRUCell(2 * s.d, s.d), score=nn.Linear(s.d, s.d, bias=False))), s.x

    def reference(brute: Brute) -> Tensor:
        past = torch.zeros(s.batch, 1, s.d)
        for i in range(s.queries):
            scores = torch.einsum("bd,bnd->bn", past[:, -1] @ model.score.weight.T, past)
            context = brute.mix("Lambda", steps_of(scores), past[:, None])[:, 0, 0]
            new = model.cell(torch.cat([x[:, i], context], -1), past[:, -1])
            past = torch.cat([past, new[:, None]], 1)
        return past[:, 1:]

    return Case(model, (x,), reference, changeable=False)


def both(m: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Decomposable attention (Parikh et al. 2016): one table of scores, a softmax along each side."""
    e = torch.matmul(m.f(a), m.f(b).transpose(1, 2))
    return torch.matmul(F.softmax(e, dim=2), b), torch.matmul(F.softmax(e, dim=1).transpose(1, 2), a)


@case
def both_ways(s: Sizes) -> Case:
    model, x, y = ready(Lambda(both, f=nn.Sequential(nn.Linear(s.d, s.d), nn.ReLU()))), s.x * 0.3, s.y * 0.3

    def reference(brute: Brute) -> tuple[Tensor, Tensor]:
        e = dots(model.f(x)[:, None], model.f(y)[:, None], 1.0)
        first = brute.mix("Lambda#1", e, y[:, None])[:, 0]
        return first, brute.mix("Lambda#2", e.transpose(2, 3), x[:, None])[:, 0]

    return Case(model, (x, y), reference)


def cached(m: Any, ids: Tensor, steps: int) -> Tensor:
    """Writes token by token; keys and values of earlier steps are kept by the attention's caller."""
    past: Any = None
    new = ids
    for _ in range(steps):
        y, past = m.attn((m.emb(new), past))
        new = m.head(y[:, -1:]).argmax(-1)
        ids = torch.cat([ids, new], 1)
    return ids


def step(a: Any, given: tuple[Tensor, Any]) -> Any:
    x, past = given
    q, k, v = a.qkv(x)
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    return a.out(F.scaled_dot_product_attention(q, k, v, is_causal=past is None)), (k, v)


@case
def written_token_by_token_with_a_cache(s: Sizes) -> Case:
    nets = {"emb": nn.Embedding(s.vocab, s.d), "head": nn.Linear(s.d, s.vocab)}
    model, steps, ids = ready(Lambda(cached, attn=Projections(step, s), **nets)), 4, s.ids

    def reference(brute: Brute) -> Tensor:
        found, new = ids, ids
        for _ in range(steps):
            q, k, v = parts(model.attn, model.emb(found))
            rows = causal(found.shape[1])[-new.shape[1] :]
            mixed = brute.mix("attn", dots(q[:, :, -new.shape[1] :], k) + rows, v)
            new = model.head(model.attn.o_proj(joined(mixed))[:, -1:]).argmax(-1)
            found = torch.cat([found, new], 1)
        return found

    return Case(model, (ids, steps), reference, changeable=False)

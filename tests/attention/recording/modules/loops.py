"""Loops that write step by step: pointers, captions, caches, weights that are used again, growing memories."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, causal, dots, joined, ready
from tests.attention.recording.modules.decoders import Projections, parts
from tests.attention.recording.modules.recurrent import BahdanauAttention, steps_of


class Pointer(nn.Module):
    """A glimpse mixes the inputs; the pointer is an output distribution, and its argmax the next input."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.encoder, self.cell = nn.LSTM(d, d, batch_first=True), nn.LSTMCell(d, d)
        self.glimpse, self.point, self.start = BahdanauAttention(d), BahdanauAttention(d), nn.Parameter(torch.randn(d))

    def forward(self, x: Tensor, steps: int) -> Tensor:
        states, (h, c) = self.encoder(x)
        h, c, step, found = h[0], c[0], self.start.expand(len(x), -1), []
        for _ in range(steps):
            h, c = self.cell(step, (h, c))
            context = self.glimpse(h[:, None], states)
            probabilities = torch.softmax(self.point.scores(context, states), dim=1)
            chosen = probabilities.argmax(1)
            step = x.gather(1, chosen[:, None, None].expand(-1, 1, x.shape[2])).squeeze(1)
            found.append(probabilities)
        return torch.stack(found, 1)


@case
def pointer_network_with_a_glimpse(s: Sizes) -> Case:
    model, x, n = ready(Pointer(s.d)), s.y, s.queries

    def reference(brute: Brute) -> Tensor:
        states, (h, c) = model.encoder(x)
        h, c, step, found = h[0], c[0], model.start.expand(len(x), -1), []
        for _ in range(n):
            h, c = model.cell(step, (h, c))
            context = brute.mix("glimpse", steps_of(model.glimpse.scores(h[:, None], states)), states[:, None])[:, 0]
            found.append(model.point.scores(context, states).softmax(1))
            step = x[torch.arange(len(x)), found[-1].argmax(1)]
        return torch.stack(found, 1)

    return Case(model, (x, n), reference)


class SoftAttention(nn.Module):
    def __init__(self, channels: int, d: int) -> None:
        super().__init__()
        self.encoder_att, self.decoder_att, self.full_att = nn.Linear(channels, d), nn.Linear(d, d), nn.Linear(d, 1)
        self.relu, self.softmax = nn.ReLU(), nn.Softmax(dim=1)

    def forward(self, regions: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        att = self.full_att(self.relu(self.encoder_att(regions) + self.decoder_att(hidden).unsqueeze(1))).squeeze(2)
        alpha = self.softmax(att)
        return (regions * alpha.unsqueeze(2)).sum(dim=1), alpha


class ShowAttendTell(nn.Module):
    """Xu et al. 2015: a CNN's regions, soft attention with a gate, an LSTM that writes."""

    def __init__(self, vocab: int, channels: int, d: int) -> None:
        super().__init__()
        self.cnn, self.attention = nn.Conv2d(3, channels, 3, stride=2), SoftAttention(channels, d)
        self.embedding, self.lstm = nn.Embedding(vocab, d), nn.LSTMCell(d + channels, d)
        self.f_beta, self.fc = nn.Linear(d, channels), nn.Linear(d, vocab)

    def forward(self, image: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        regions = self.cnn(image).flatten(2).permute(0, 2, 1)
        h = c = torch.zeros(len(image), self.lstm.hidden_size)
        predictions, alphas = [], torch.zeros(*words.shape, regions.shape[1])
        for t in range(words.shape[1]):
            awe, alpha = self.attention(regions, h)
            awe = torch.sigmoid(self.f_beta(h)) * awe
            h, c = self.lstm(torch.cat([self.embedding(words[:, t]), awe], dim=1), (h, c))
            predictions.append(self.fc(h))
            alphas[:, t] = alpha
        return torch.stack(predictions, 1), ((1.0 - alphas.sum(dim=1)) ** 2).mean()


@case
def captions_with_soft_attention(s: Sizes) -> Case:
    model, words = ready(ShowAttendTell(s.vocab, 5, s.d)), s.ids
    image = torch.randn(s.batch, 3, 7, 9)

    def reference(brute: Brute) -> tuple[Tensor, Tensor]:
        regions = torch.stack(list(model.cnn(image).flatten(2).unbind(2)), 1)
        h = c = torch.zeros(s.batch, s.d)
        found, a = [], model.attention
        for t in range(words.shape[1]):
            seen = (a.encoder_att(regions) + a.decoder_att(h)[:, None]).clamp(min=0)
            awe = brute.mix("attention", steps_of(a.full_att(seen)[..., 0]), regions[:, None])[:, 0, 0]
            h, c = model.lstm(torch.cat([model.embedding(words[:, t]), awe * model.f_beta(h).sigmoid()], 1), (h, c))
            found.append(model.fc(h))
        return torch.stack(found, 1), ((1.0 - brute.weights["attention"].sum((1, 2))) ** 2).mean()

    return Case(model, (image, words), reference, changeable=False)


class Located(nn.Module):
    """Tacotron 2: the weights of earlier steps, convolved, are part of the next scores."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.query, self.memory, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1)
        self.conv, self.cell = nn.Conv1d(2, d, 3, padding=1, bias=False), nn.GRUCell(d, d)

    def energies(self, h: Tensor, memory: Tensor, past: Tensor) -> Tensor:
        return self.v(torch.tanh(self.query(h)[:, None] + self.memory(memory) + self.conv(past).transpose(1, 2)))[
            ..., 0
        ]

    def forward(self, memory: Tensor, steps: int) -> Tensor:
        h, weights = torch.zeros(len(memory), memory.shape[2]), torch.zeros(memory.shape[:2])
        total, found = weights, []
        for _ in range(steps):
            weights = F.softmax(self.energies(h, memory, torch.stack((weights, total), 1)), dim=1)
            total = total + weights
            h = self.cell(torch.bmm(weights.unsqueeze(1), memory).squeeze(1), h)
            found.append(h)
        return torch.stack(found, 1)


@case
def location_sensitive(s: Sizes) -> Case:
    model, y, n = ready(Located(s.d)), s.y, s.queries

    def reference(brute: Brute) -> Tensor:
        h, past, found = torch.zeros(s.batch, s.d), torch.zeros(s.batch, 2, s.keys), []
        for _ in range(n):
            h = model.cell(brute.mix("Located", steps_of(model.energies(h, y, past)), y[:, None])[:, 0, 0], h)
            rows = brute.weights["Located"][:, 0]
            past = torch.stack([rows[:, -1], rows.sum(1)], 1)
            found.append(h)
        return torch.stack(found, 1)

    return Case(model, (y, n), reference, changeable=False)


class PointerGenerator(nn.Module):
    """See et al. 2017: the same weights mix the states and are scattered onto the vocabulary."""

    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.embedding, self.encoder, self.decoder = (
            nn.Embedding(vocab, d),
            nn.GRU(d, d, batch_first=True),
            nn.GRU(d, d, batch_first=True),
        )
        self.gate, self.out, self.vocab = nn.Linear(2 * d, 1), nn.Linear(2 * d, vocab), vocab

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        keys, _ = self.encoder(self.embedding(source))
        states, _ = self.decoder(self.embedding(target))
        weights = F.softmax(torch.bmm(states, keys.transpose(1, 2)), dim=2)
        both = torch.cat((torch.bmm(weights, keys), states), dim=2)
        gate, words = torch.sigmoid(self.gate(both)), F.softmax(self.out(both), dim=-1)
        index = source.unsqueeze(1).expand(-1, target.shape[1], -1)
        return (gate * words).scatter_add(2, index, (1 - gate) * weights)


@case
def pointer_generator(s: Sizes) -> Case:
    model, target, source = ready(PointerGenerator(s.vocab, s.d)), s.ids, s.other_ids

    def reference(brute: Brute) -> Tensor:
        keys, states = model.encoder(model.embedding(source))[0], model.decoder(model.embedding(target))[0]
        mixed = brute.mix("PointerGenerator", dots(states[:, None], keys[:, None], 1.0), keys[:, None])[:, 0]
        both, weights = torch.cat((mixed, states), 2), brute.weights["PointerGenerator"][:, 0]
        gate, places = model.gate(both).sigmoid(), F.one_hot(source, model.vocab).double()
        return gate * model.out(both).softmax(-1) + (1 - gate) * (weights @ places)

    return Case(model, (source, target), reference, changeable=False)


class OwnPast(nn.Module):
    """A recurrent language model that attends to its own earlier states: each step has one key more."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.cell, self.score = nn.GRUCell(2 * d, d), nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        past = [torch.zeros(len(x), x.shape[2])]
        for i in range(x.shape[1]):
            memory = torch.stack(past, dim=1)
            alpha = torch.softmax(memory @ self.score(past[-1]).unsqueeze(-1), dim=1)
            context = torch.sum(alpha * memory, dim=1)
            past.append(self.cell(torch.cat([x[:, i], context], -1), past[-1]))
        return torch.stack(past[1:], dim=1)


@case
def a_key_more_each_step(s: Sizes) -> Case:
    model, x = ready(OwnPast(s.d)), s.x

    def reference(brute: Brute) -> Tensor:
        past = torch.zeros(s.batch, 1, s.d)
        for i in range(s.queries):
            scores = torch.einsum("bd,bnd->bn", past[:, -1] @ model.score.weight.T, past)
            context = brute.mix("OwnPast", steps_of(scores), past[:, None])[:, 0, 0]
            new = model.cell(torch.cat([x[:, i], context], -1), past[:, -1])
            past = torch.cat([past, new[:, None]], 1)
        return past[:, 1:]

    return Case(model, (x,), reference, changeable=False)


class BothWays(nn.Module):
    """Decomposable attention (Parikh et al. 2016): one table of scores, a softmax along each side."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, d), nn.ReLU())

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        e = torch.matmul(self.f(a), self.f(b).transpose(1, 2))
        return torch.matmul(F.softmax(e, dim=2), b), torch.matmul(F.softmax(e, dim=1).transpose(1, 2), a)


@case
def both_ways(s: Sizes) -> Case:
    model, x, y = ready(BothWays(s.d)), s.x * 0.3, s.y * 0.3

    def reference(brute: Brute) -> tuple[Tensor, Tensor]:
        e = dots(model.f(x)[:, None], model.f(y)[:, None], 1.0)
        first = brute.mix("BothWays#1", e, y[:, None])[:, 0]
        return first, brute.mix("BothWays#2", e.transpose(2, 3), x[:, None])[:, 0]

    return Case(model, (x, y), reference)


class Cached(nn.Module):
    """Writes token by token; keys and values of earlier steps are kept by the module's caller."""

    def __init__(self, vocab: int, d: int, heads: int) -> None:
        super().__init__()
        self.emb, self.attn, self.head = nn.Embedding(vocab, d), Projections(d, heads), nn.Linear(d, vocab)
        self.attn.forward = self.step  # type: ignore[method-assign, assignment]

    def step(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = self.attn.qkv(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.attn.out(F.scaled_dot_product_attention(q, k, v, is_causal=past is None)), (k, v)

    def forward(self, ids: Tensor, steps: int) -> Tensor:
        past, new = None, ids
        for _ in range(steps):
            y, past = self.attn(self.emb(new), past)
            new = self.head(y[:, -1:]).argmax(-1)
            ids = torch.cat([ids, new], 1)
        return ids


@case
def written_token_by_token_with_a_cache(s: Sizes) -> Case:
    model, steps, ids = ready(Cached(s.vocab, s.d, s.heads)), 4, s.ids

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

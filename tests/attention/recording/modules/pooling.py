"""Attention that pools: learned queries, hierarchical attention, several instances, memories."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Brute, Case, Sizes, case, dots, joined, multi_head, ready, split


class Pooling(nn.Module):
    """A learned query pools a sequence, in each of the forms that people write."""

    def __init__(self, d: int, form: str) -> None:
        super().__init__()
        self.query, self.form = nn.Parameter(torch.randn(d)), form

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        scores = torch.matmul(x, self.query) / x.shape[-1] ** 0.5
        w = torch.softmax(scores.masked_fill(~real, -torch.inf), dim=1)
        if self.form == "sum":
            return (w.unsqueeze(-1) * x).sum(1)
        if self.form == "method":
            return x.mul(w[..., None]).sum(dim=-2)
        if self.form == "bmm":
            return torch.bmm(w.unsqueeze(1), x).squeeze(1)
        if self.form == "matmul left":
            return (x.transpose(1, 2) @ w.unsqueeze(2)).squeeze(2)
        return torch.einsum("bn,bnd->bd", w, x)


def pooling(s: Sizes, form: str) -> Case:
    model, x = ready(Pooling(s.d, form)), s.y
    real = torch.arange(s.keys)[None] < torch.randint(2, s.keys + 1, (s.batch, 1))

    def reference(brute: Brute) -> Tensor:
        scores = (x * model.query).sum(-1) / s.d**0.5 + torch.where(real, 0.0, -torch.inf)
        return brute.mix("Pooling", scores[:, None, None], x[:, None])[:, 0, 0]

    return Case(model, (x, real), reference)


@case
def pooled_by_product_and_sum(s: Sizes) -> Case:
    return pooling(s, "sum")


@case
def pooled_by_mul_and_sum_methods(s: Sizes) -> Case:
    return pooling(s, "method")


@case
def pooled_by_bmm(s: Sizes) -> Case:
    return pooling(s, "bmm")


@case
def pooled_with_values_on_the_left(s: Sizes) -> Case:
    return pooling(s, "matmul left")


@case
def pooled_by_einsum(s: Sizes) -> Case:
    return pooling(s, "einsum")


class Level(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.rnn, self.fc = nn.GRU(d, d, batch_first=True), nn.Linear(d, d)
        self.context = nn.Linear(d, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.rnn(x)
        alpha = F.softmax(self.context(torch.tanh(self.fc(h))), dim=1)
        return torch.sum(h * alpha, dim=1)


class Hierarchical(nn.Module):
    """Yang et al. 2016: words to sentences, sentences to a document, each by a context vector."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.word, self.sentence = Level(d), Level(d)

    def forward(self, x: Tensor) -> Tensor:
        return self.sentence(self.word(x.flatten(0, 1)).view(len(x), -1, x.shape[-1]))


@case
def hierarchical_attention(s: Sizes) -> Case:
    model, x = ready(Hierarchical(s.d)), torch.randn(s.batch, s.queries, s.keys, s.d)

    def level(brute: Brute, name: str, t: Tensor) -> Tensor:
        part = getattr(model, name)
        h, _ = part.rnn(t)
        scores = (torch.tanh(h @ part.fc.weight.T + part.fc.bias) * part.context.weight[0]).sum(-1)
        return brute.mix(name, scores[:, None, None], h[:, None])[:, 0, 0]

    def reference(brute: Brute) -> Tensor:
        words = level(brute, "word", x.flatten(0, 1))
        return level(brute, "sentence", words.view(s.batch, s.queries, s.d))

    return Case(model, (x,), reference)


class Instances(nn.Module):
    """Ilse et al. 2018: a bag of instances without a batch axis, gated scores, `mm`."""

    def __init__(self, d: int, hops: int) -> None:
        super().__init__()
        self.V, self.U, self.w = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, hops)

    def forward(self, bag: Tensor) -> Tensor:
        h = bag.squeeze(0)
        a = self.w(torch.tanh(self.V(h)) * torch.sigmoid(self.U(h)))
        return torch.mm(F.softmax(torch.transpose(a, 1, 0), dim=1), h)


@case
def a_bag_of_instances(s: Sizes) -> Case:
    model, bag = ready(Instances(s.d, 3)), torch.randn(1, s.keys, s.d)

    def reference(brute: Brute) -> Tensor:
        scores = torch.stack([model.w(model.V(h).tanh() * model.U(h).sigmoid()) for h in bag[0]], -1)
        return brute.mix("Instances", scores[None, None], bag[:, None])[0, 0]

    return Case(model, (bag,), reference)


class Structured(nn.Module):
    """Lin et al. 2017: several hops over an LSTM's states; each hop is a query."""

    def __init__(self, d: int, hops: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d, d, batch_first=True, bidirectional=True)
        self.ws1, self.ws2 = nn.Linear(2 * d, d, bias=False), nn.Linear(d, hops, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.lstm(x)
        a = F.softmax(self.ws2(torch.tanh(self.ws1(h))), dim=1).transpose(1, 2)
        return (a @ h).flatten(1)


@case
def several_hops(s: Sizes) -> Case:
    model, x = ready(Structured(s.d, s.queries)), s.y

    def reference(brute: Brute) -> Tensor:
        h, _ = model.lstm(x)
        scores = torch.einsum("hd,bnd->bhn", model.ws2.weight, torch.tanh(h @ model.ws1.weight.T))
        return brute.mix("Structured", scores[:, None], h[:, None])[:, 0].flatten(1)

    return Case(model, (x,), reference)


class OwnSet(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.heads, self.d = (
            nn.Linear(d, d),
            nn.Linear(d, d),
            nn.Linear(d, d),
            heads,
            d,
        )

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q, k, v = self.fc_q(q), self.fc_k(k), self.fc_v(k)
        many_q, many_k, many_v = (torch.cat(t.split(self.d // self.heads, 2), 0) for t in (q, k, v))
        a = torch.softmax(many_q.bmm(many_k.transpose(1, 2)) / self.d**0.5, 2)
        return torch.cat((many_q + a.bmm(many_v)).split(q.size(0), 0), 2)


class Seeds(nn.Module):
    """Set Transformer: seeds attend to a set by PyTorch's module, then to themselves by an own one."""

    def __init__(self, d: int, heads: int, seeds: int) -> None:
        super().__init__()
        self.seeds, self.pool = (
            nn.Parameter(torch.randn(1, seeds, d)),
            nn.MultiheadAttention(d, heads, batch_first=True),
        )
        self.sab = OwnSet(d, heads)

    def forward(self, x: Tensor) -> Tensor:
        z, _ = self.pool(self.seeds.repeat(len(x), 1, 1), x, x)
        return self.sab(z, z)


@case
def seeds_of_a_set(s: Sizes) -> Case:
    model, x = ready(Seeds(s.d, s.heads, s.queries)), s.y

    def reference(brute: Brute) -> Tensor:
        z = multi_head(brute, "pool", model.pool, model.seeds.repeat(s.batch, 1, 1), x)
        q, k, v = (split(f(z), s.heads) for f in (model.sab.fc_q, model.sab.fc_k, model.sab.fc_v))

        return joined(q + brute.mix("sab", dots(q, k, s.d**-0.5), v))

    return Case(model, (x,), reference, flat="heads")


class Hop(nn.Module):
    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.A, self.C = nn.Embedding(vocab, d), nn.Embedding(vocab, d)

    def forward(self, stories: Tensor, u: Tensor) -> Tensor:
        m, c = self.A(stories).sum(2), self.C(stories).sum(2)
        p = (m * u.unsqueeze(1)).sum(2).softmax(-1)
        return u + (c * p.unsqueeze(2).expand_as(c)).sum(1)


class Memory(nn.Module):
    """End-to-end memory network: each hop reads the stories with embeddings of its own."""

    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.B, self.hops = nn.Embedding(vocab, d), nn.ModuleList(Hop(vocab, d) for _ in range(2))

    def forward(self, stories: Tensor, question: Tensor) -> Tensor:
        u = self.B(question).sum(1)
        for hop in self.hops:
            u = hop(stories, u)
        return u


@case
def hops_over_a_memory(s: Sizes) -> Case:
    model = ready(Memory(s.vocab, s.d))
    stories, question = torch.randint(s.vocab, (s.batch, s.keys, 4)), s.ids

    def reference(brute: Brute) -> Tensor:
        u = model.B.weight[question].sum(1) * 1.0
        for i, hop in enumerate(model.hops):
            m, c = hop.A.weight[stories].sum(2), hop.C.weight[stories].sum(2)
            u = u + brute.mix(f"hops.{i}", torch.einsum("bnd,bd->bn", m, u)[:, None, None], c[:, None])[:, 0, 0]
        return u

    return Case(model, (stories, question), reference)


class ClassQuery(nn.Module):
    """CaiT and CLIP's pooling: the mean is one more token and the only query; keys include it."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.c_proj = (nn.Linear(d, d) for _ in range(4))
        self.num_heads = heads

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(1, 0, 2)
        x = torch.cat([x.mean(dim=0, keepdim=True), x], dim=0)
        x, _ = F.multi_head_attention_forward(
            x[:1], x, x, x.shape[-1], self.num_heads, None,
            torch.cat([self.q_proj.bias, self.k_proj.bias, self.v_proj.bias]), None, None, False, 0.0,
            self.c_proj.weight, self.c_proj.bias, self.training, None, False, None, True,
            self.q_proj.weight, self.k_proj.weight, self.v_proj.weight,
        )  # fmt: skip
        return x.squeeze(0)


@case
def pooled_by_the_function_of_torch(s: Sizes) -> Case:
    model, x = ready(ClassQuery(s.d, s.heads)), s.y

    def reference(brute: Brute) -> Tensor:
        h = torch.cat([x.sum(1, keepdim=True) / s.keys, x], 1)
        q, k, v = (split(f(t), s.heads) for f, t in ((model.q_proj, h[:, :1]), (model.k_proj, h), (model.v_proj, h)))
        return model.c_proj(joined(brute.mix("ClassQuery", dots(q, k), v)))[:, 0]

    return Case(model, (x,), reference)

"""What is no attention, and attention that PyTorch's functions do not show: an empty record, with a word on it.

A trap's softmax mixes nothing, or parameters, or experts. An unseen module mixes positions, but by no softmax that can
be watched.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Sizes, ready

Made = tuple[nn.Module, tuple[Any, ...]]
TRAPS: dict[str, Callable[[Sizes], Made]] = {}
UNSEEN: dict[str, Callable[[Sizes], Made]] = {}


class Lambda(nn.Module):
    """Parts by name, and a forward over them."""

    def __init__(self, forward: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.does = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Tensor:
        return self.does(self, *inputs)


def trap(build: Callable[[Sizes], Made]) -> Callable[[Sizes], Made]:
    TRAPS[build.__name__] = build
    return build


def unseen(build: Callable[[Sizes], Made]) -> Callable[[Sizes], Made]:
    UNSEEN[build.__name__] = build
    return build


def net(s: Sizes, forward: Callable[..., Tensor], *inputs: Any, **parts: nn.Module) -> Made:
    return ready(Lambda(forward, **parts)), inputs or (s.x,)


@trap
def output_distribution_back_to_vectors(s: Sizes) -> Made:
    """Scheduled sampling: the expected embedding under the model's own distribution."""
    return net(
        s,
        lambda m, ids: torch.softmax(m.head(m.emb(ids)), -1) @ m.emb.weight,
        s.ids,
        emb=nn.Embedding(s.vocab, s.d),
        head=nn.Linear(s.d, s.vocab),
    )


def experts(s: Sizes, count: int = 5) -> dict[str, nn.Module]:
    return {"gate": nn.Linear(s.d, count), "experts": nn.ModuleList(nn.Linear(s.d, s.d + 1) for _ in range(count))}


@trap
def experts_stacked_and_summed(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in m.experts], dim=-2)
        return (F.softmax(m.gate(x), dim=-1).unsqueeze(-1) * outputs).sum(dim=-2)

    return net(s, forward, **experts(s))


@trap
def experts_by_einsum(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in m.experts], dim=2)
        return torch.einsum("bne,bned->bnd", F.softmax(m.gate(x), dim=-1), outputs)

    return net(s, forward, **experts(s))


@trap
def experts_by_matmul(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in m.experts], dim=-2)
        return (m.gate(x).softmax(-1).unsqueeze(-2) @ outputs).squeeze(-2)

    return net(s, forward, **experts(s))


@trap
def experts_of_single_vectors(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in m.experts], dim=1)
        return torch.bmm(F.softmax(m.gate(x), dim=1).unsqueeze(1), outputs).squeeze(1)

    return net(s, forward, torch.randn(s.batch, s.d), **experts(s))


class Table(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(shape))


@trap
def experts_as_one_tensor(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        outputs = torch.einsum("bnd,edf->bnef", x, m.table.w)
        return torch.einsum("bne,bnef->bnf", m.gate(x).softmax(-1), outputs)

    return net(s, forward, gate=nn.Linear(s.d, 5), table=Table(5, s.d, s.d + 1))


@trap
def experts_merged_before_use(s: Sizes) -> Made:
    """CondConv: the gate mixes the experts' weights."""

    def forward(m: Any, x: Tensor) -> Tensor:
        weight = torch.einsum("be,edf->bdf", torch.softmax(m.gate(x.mean(1)), -1), m.table.w)
        return torch.bmm(x, weight)

    return net(s, forward, gate=nn.Linear(s.d, 5), table=Table(5, s.d, s.d + 1))


@trap
def best_two_experts(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        weights, chosen = torch.topk(F.softmax(m.gate(x.flatten(0, 1)), dim=-1), 2)
        rows, out = x.flatten(0, 1), torch.zeros(x.shape[0] * x.shape[1], s.d + 1)
        for i, expert in enumerate(m.experts):
            tokens, place = torch.where(chosen == i)
            out[tokens] += weights[tokens, place, None] * expert(rows[tokens])
        return out.view(*x.shape[:2], -1)

    return net(s, forward, **experts(s))


@trap
def soft_codebook(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        return torch.matmul(F.softmax(-torch.cdist(x, m.codes.w), dim=-1), m.codes.w)

    return net(s, forward, codes=Table(9, s.d))


@trap
def soft_codebook_projected(s: Sizes) -> Made:
    """The codes pass a Linear and a batch axis first: still parameters."""

    def forward(m: Any, x: Tensor) -> Tensor:
        codes = m.proj(m.codes.w).unsqueeze(0).expand(len(x), -1, -1)
        return torch.bmm(torch.softmax(x @ m.codes.w.T, -1), codes)

    return net(s, forward, codes=Table(9, s.d), proj=nn.Linear(s.d, s.d))


@trap
def gumbel_codebook(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        return F.gumbel_softmax(m.head(x), tau=0.7, dim=-1) @ m.codes.w

    return net(s, forward, head=nn.Linear(s.d, 9), codes=Table(9, s.d))


@trap
def softmax_of_squeezed_channels(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        return x * torch.softmax(m.two(torch.relu(m.one(x.mean((2, 3))))), dim=1)[:, :, None, None]

    return net(s, forward, torch.randn(s.batch, s.d, 3, 5), one=nn.Linear(s.d, 4), two=nn.Linear(4, s.d))


@trap
def features_gated_by_channel(s: Sizes) -> Made:
    return net(
        s, lambda m, x: m.out(x * torch.softmax(m.gate(x), dim=-1)), gate=nn.Linear(s.d, s.d), out=nn.Linear(s.d, 3)
    )


@trap
def expected_coordinate(s: Sizes) -> Made:
    """Spatial soft-argmax: a constant grid is mixed."""

    def forward(m: Any, x: Tensor) -> Tensor:
        heat = torch.softmax(m.conv(x).flatten(2), dim=-1)
        grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 7), indexing="ij"), -1)
        return heat @ grid.view(-1, 2)

    return net(s, forward, torch.randn(s.batch, 3, 5, 7), conv=nn.Conv2d(3, 4, 1))


@trap
def vectors_of_all_labels(s: Sizes) -> Made:
    """The table of labels is looked up by constant ids: still parameters."""

    def forward(m: Any, x: Tensor) -> Tensor:
        return torch.softmax(m.head(x), -1) @ m.labels(torch.arange(7))

    return net(s, forward, head=nn.Linear(s.d, 7), labels=nn.Embedding(7, s.d))


@trap
def kernels_of_two_sizes(s: Sizes) -> Made:
    """Selective kernels: a softmax over two branches of convolutions."""

    def forward(m: Any, x: Tensor) -> Tensor:
        branches = torch.stack([m.small(x), m.large(x)], dim=1)
        gate = m.fc(branches.sum(1).mean(-1)).view(len(x), 2, -1)
        return (torch.softmax(gate, dim=1).unsqueeze(-1) * branches).sum(dim=1)

    parts = {"small": nn.Conv1d(s.d, s.d, 1), "large": nn.Conv1d(s.d, s.d, 3, padding=1), "fc": nn.Linear(s.d, 2 * s.d)}
    return net(s, forward, torch.randn(s.batch, s.d, s.keys), **parts)


@trap
def layers_weighed_by_parameters(s: Sizes) -> Made:
    """ELMo: a softmax of parameters weighs a model's layers."""

    def forward(m: Any, x: Tensor) -> Tensor:
        layers = torch.stack([x, m.one(x), m.two(x)])
        return torch.einsum("l,lbnd->bnd", torch.softmax(m.table.w, 0), layers)

    return net(s, forward, one=nn.Linear(s.d, s.d), two=nn.Linear(s.d, s.d), table=Table(3))


@trap
def loss_of_a_soft_label(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        teacher, student = F.softmax(m.one(x), dim=-1), F.log_softmax(m.two(x), dim=-1)
        return (teacher * (teacher.log() - student)).sum(-1).mean() + F.kl_div(student, teacher, reduction="batchmean")

    return net(s, forward, one=nn.Linear(s.d, 7), two=nn.Linear(s.d, 7))


@trap
def entropy_of_an_output(s: Sizes) -> Made:
    def forward(m: Any, x: Tensor) -> Tensor:
        logits = m.head(x)
        return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)

    return net(s, forward, head=nn.Linear(s.d, 7))


@trap
def a_plain_classifier(s: Sizes) -> Made:
    return net(s, lambda m, x: F.softmax(m.head(m.rnn(x)[0].mean(1)), dim=-1), rnn=nn.GRU(s.d, 8), head=nn.Linear(8, 3))


class Attends(nn.Module):
    """Attention without a softmax that can be watched: the kind says what stands in its place."""

    def __init__(self, d: int, kind: str) -> None:
        super().__init__()
        self.qkv, self.kind = nn.Linear(d, 3 * d), kind

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        if self.kind == "linear":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            return (q @ (k.transpose(1, 2) @ v)) / (q @ k.sum(1, keepdim=True).transpose(1, 2))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        if self.kind == "sigmoid":
            return torch.sigmoid(scores) @ v
        if self.kind == "relu":
            return F.relu(scores).square() / x.shape[1] @ v
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True) @ v


def hidden(s: Sizes, kind: str) -> Made:
    return net(s, lambda m, x: x + m.attn(x), attn=Attends(s.d, kind))


@unseen
def linear_attention(s: Sizes) -> Made:
    return hidden(s, "linear")


@unseen
def sigmoid_attention(s: Sizes) -> Made:
    return hidden(s, "sigmoid")


@unseen
def relu_attention(s: Sizes) -> Made:
    return hidden(s, "relu")


@unseen
def exponentials_by_hand(s: Sizes) -> Made:
    return hidden(s, "exp")


class Kernel(torch.autograd.Function):
    """A kernel of its own, which NumPy stands for."""

    @staticmethod
    def forward(_: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.transpose(1, 2)).detach().numpy()
        powers = torch.from_numpy(scores).exp_()
        return powers / powers.sum(-1, keepdim=True) @ v


class ByKernel(Attends):
    def forward(self, x: Tensor) -> Tensor:
        return Kernel.apply(*self.qkv(x * 0.1).chunk(3, -1))


@unseen
def a_kernel_of_its_own(s: Sizes) -> Made:
    return net(s, lambda m, x: x + m.attn(x), attn=ByKernel(s.d, "kernel"))

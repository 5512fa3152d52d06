"""Softmaxes that are no attention, and attention that cannot be seen: no site, and a note that names the module.

A trap's softmax mixes nothing, or parameters, or experts. An unseen module mixes positions, but by no softmax that can
be watched.
"""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Lambda, Sizes, Table, built, ready, watched
from tests.attention.recording.modules import MODULES  # noqa: F401 - whose cases are entered

pytestmark = pytest.mark.usefixtures("in_doubles")

Made = tuple[nn.Module, tuple[Any, ...]]


def net(s: Sizes, forward: Callable[..., Tensor], *inputs: Any, **parts: nn.Module) -> Made:
    return ready(Lambda(forward, **parts)), inputs or (s.x,)


def experts(s: Sizes, count: int = 5) -> dict[str, nn.Module]:
    return {"gate": nn.Linear(s.d, count), "experts": nn.ModuleList(nn.Linear(s.d, s.d + 1) for _ in range(count))}


def stacked_and_summed(m: Any, x: Tensor) -> Tensor:
    outputs = torch.stack([expert(x) for expert in m.experts], dim=-2)
    return (F.softmax(m.gate(x), dim=-1).unsqueeze(-1) * outputs).sum(dim=-2)


def as_one_tensor(m: Any, x: Tensor) -> Tensor:
    outputs = torch.einsum("bnd,edf->bnef", x, m.table.w)
    return torch.einsum("bne,bnef->bnf", m.gate(x).softmax(-1), outputs)


def merged_before_use(m: Any, x: Tensor) -> Tensor:
    """CondConv: the gate mixes the experts' weights."""
    return torch.bmm(x, torch.einsum("be,edf->bdf", torch.softmax(m.gate(x.mean(1)), -1), m.table.w))


def best_two(m: Any, x: Tensor) -> Tensor:
    weights, chosen = torch.topk(F.softmax(m.gate(x.flatten(0, 1)), dim=-1), 2)
    rows, out = x.flatten(0, 1), torch.zeros(x.shape[0] * x.shape[1], m.experts[0].out_features)
    for i, expert in enumerate(m.experts):
        tokens, place = torch.where(chosen == i)
        out[tokens] += weights[tokens, place, None] * expert(rows[tokens])
    return out.view(*x.shape[:2], -1)


def expected_coordinate(m: Any, x: Tensor) -> Tensor:
    """Spatial soft-argmax: a constant grid is mixed."""
    heat = torch.softmax(m.conv(x).flatten(2), dim=-1)
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-1, 1, 7), indexing="ij"), -1)
    return heat @ grid.view(-1, 2)


def kernels_of_two_sizes(m: Any, x: Tensor) -> Tensor:
    """Selective kernels: a softmax over two branches of convolutions."""
    branches = torch.stack([m.small(x), m.large(x)], dim=1)
    gate = m.fc(branches.sum(1).mean(-1)).view(len(x), 2, -1)
    return (torch.softmax(gate, dim=1).unsqueeze(-1) * branches).sum(dim=1)


def loss_of_a_soft_label(m: Any, x: Tensor) -> Tensor:
    teacher, student = F.softmax(m.one(x), dim=-1), F.log_softmax(m.two(x), dim=-1)
    return (teacher * (teacher.log() - student)).sum(-1).mean() + F.kl_div(student, teacher, reduction="batchmean")


TRAPS: dict[str, Callable[[Sizes], Made]] = {
    # Scheduled sampling: the expected embedding under the model's own distribution.
    "output_distribution_back_to_vectors": lambda s: net(
        s,
        lambda m, ids: torch.softmax(m.head(m.emb(ids)), -1) @ m.emb.weight,
        s.ids,
        emb=nn.Embedding(s.vocab, s.d),
        head=nn.Linear(s.d, s.vocab),
    ),
    "experts_stacked_and_summed": lambda s: net(s, stacked_and_summed, **experts(s)),
    "experts_as_one_tensor": lambda s: net(s, as_one_tensor, gate=nn.Linear(s.d, 5), table=Table(5, s.d, s.d + 1)),
    "experts_merged": lambda s: net(s, merged_before_use, gate=nn.Linear(s.d, 5), table=Table(5, s.d, s.d + 1)),
    "best_two_experts": lambda s: net(s, best_two, **experts(s)),
    # The codes pass a Linear and a batch axis first: still parameters.
    "soft_codebook_projected": lambda s: net(
        s,
        lambda m, x: torch.bmm(
            torch.softmax(x @ m.codes.w.T, -1), m.proj(m.codes.w).unsqueeze(0).expand(len(x), -1, -1)
        ),
        codes=Table(9, s.d),
        proj=nn.Linear(s.d, s.d),
    ),
    "expected_coordinate": lambda s: net(
        s, expected_coordinate, torch.randn(s.batch, 3, 5, 7), conv=nn.Conv2d(3, 4, 1)
    ),
    "kernels_of_two_sizes": lambda s: net(
        s,
        kernels_of_two_sizes,
        torch.randn(s.batch, s.d, s.keys),
        small=nn.Conv1d(s.d, s.d, 1),
        large=nn.Conv1d(s.d, s.d, 3, padding=1),
        fc=nn.Linear(s.d, 2 * s.d),
    ),
    # ELMo: a softmax of parameters weighs a model's layers.
    "layers_weighed_by_parameters": lambda s: net(
        s,
        lambda m, x: torch.einsum("l,lbnd->bnd", torch.softmax(m.table.w, 0), torch.stack([x, m.one(x), m.two(x)])),
        one=nn.Linear(s.d, s.d),
        two=nn.Linear(s.d, s.d),
        table=Table(3),
    ),
    "loss_of_a_soft_label": lambda s: net(s, loss_of_a_soft_label, one=nn.Linear(s.d, 7), two=nn.Linear(s.d, 7)),
    "a_plain_classifier": lambda s: net(
        s, lambda m, x: F.softmax(m.head(m.rnn(x)[0].mean(1)), dim=-1), rnn=nn.GRU(s.d, 8), head=nn.Linear(8, 3)
    ),
}


class Kernel(torch.autograd.Function):
    """A kernel of its own, which NumPy stands for."""

    @staticmethod
    def forward(_: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        powers = torch.from_numpy((q @ k.transpose(1, 2)).detach().numpy()).exp_()
        return powers / powers.sum(-1, keepdim=True) @ v


class Attends(nn.Module):
    """Attention without a softmax that can be watched: the kind says what stands in its place."""

    def __init__(self, d: int, kind: str) -> None:
        super().__init__()
        self.qkv, self.kind = nn.Linear(d, 3 * d), kind

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x * 0.1).chunk(3, -1)
        if self.kind == "a kernel":
            return Kernel.apply(q, k, v)
        if self.kind == "linear":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            return (q @ (k.transpose(1, 2) @ v)) / (q @ k.sum(1, keepdim=True).transpose(1, 2))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        if self.kind == "sigmoid":
            return torch.sigmoid(scores) @ v
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True) @ v


def unseen(kind: str) -> Callable[[Sizes], Made]:
    return lambda s: net(s, lambda m, x: x + m.attn(x), attn=Attends(s.d, kind))


UNSEEN = {kind: unseen(kind) for kind in ("linear", "sigmoid", "exponentials by hand", "a kernel")}


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", TRAPS)
def test_a_softmax_that_is_no_attention(name: str, seed: int) -> None:
    module, inputs = TRAPS[name](Sizes(seed))
    seen, _ = watched(module, *inputs)
    assert tuple(seen.sites) == ()
    assert seen.notes


@pytest.mark.parametrize("name", UNSEEN)
def test_attention_that_cannot_be_seen_is_named(name: str) -> None:
    module, inputs = UNSEEN[name](Sizes(5))
    for one, names in ((module, ("attn", "Lambda")), (module.attn, ("Attends",))):
        seen, _ = watched(one, *inputs)
        assert tuple(seen.sites) == ()
        assert any(name in str(note) for note in seen.notes for name in names)


def test_a_sparse_table_that_is_turned_runs_as_ever() -> None:
    module = Lambda(lambda m, x: m.table.t() @ x + x.softmax(-1) @ m.table.transpose(0, 1).to_dense())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.register_buffer("table", torch.rand(5, 5).round().to_sparse_csr())
    seen, _ = watched(module, torch.rand(5, 5))
    assert seen.sites == ()


class Scripted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.transpose(1, 2)).softmax(-1) @ x


@pytest.mark.parametrize("made", [torch.jit.script, lambda one: torch.jit.trace(one, torch.ones(2, 7, 5))])
def test_torchscript_is_named_and_what_stands_around_it_is_seen(made: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = made(Scripted())
    around = nn.Sequential(nn.TransformerEncoderLayer(5, 5, 3, batch_first=True), inner).eval()
    x = torch.rand(2, 7, 5)
    for module, sites, name in ((inner, (), type(inner).__name__), (around, ("0.self_attn",), "1")):
        seen, _ = watched(module, x)
        assert tuple(seen.sites) == sites
        assert any(f"in {name}: TorchScript" in str(note) for note in seen.notes)


def test_experts_beside_attention_leave_the_attention_alone() -> None:
    case, s = built("nanogpt_written_out"), Sizes(3)
    module = Lambda(
        lambda m, ids: m.mixture(m.enter(m.attention(ids))),
        attention=case.module,
        enter=nn.Linear(case.module.lm_head.out_features, s.d),
        mixture=Lambda(stacked_and_summed, **experts(s)),
    ).eval()
    seen, _ = watched(module, *case.inputs)
    assert tuple(seen.sites) == ("attention.blocks.0.attn", "attention.blocks.1.attn")
    assert any("in mixture mixes" in str(note) for note in seen.notes)

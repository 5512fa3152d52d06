"""Batch, heads and windows are told apart in small modules in the style of well-known repositories.

What is right is written down in each test by an einsum over named axes, and a head that is switched off is the one
that is shown.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import (
    Lambda,
    apart,
    assert_seen,
    mixed_by,
    ready,
    softmax,
    truth,
    watched,
)
from transformer import Intervention, intervening, recording

pytestmark = pytest.mark.usefixtures("in_doubles")


COPIES = {
    "expand": lambda t, b: t[None].expand(b, -1, -1),
    "einops": lambda t, b: torch.broadcast_to(t.unsqueeze(0), (b, *t.shape)).contiguous(),
    "repeat": lambda t, b: t.repeat(b, 1, 1),
    "stack": lambda t, b: torch.stack([t] * b),
}


class Look(nn.Module):
    """Attention of one sequence to another."""

    def __init__(self, d: int, heads: int, form: str) -> None:
        super().__init__()
        self.heads_of_it, self.form = heads, form
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (apart(t, self.heads_of_it, self.form) for t in (self.q(x), self.k(y), self.v(y)))
        if self.form == "fused":
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
        if mixed.dim() == 4:
            return self.out(mixed.transpose(1, 2).flatten(2))
        parts = (len(y), self.heads_of_it) if self.form == "batch first" else (self.heads_of_it, len(y))
        axes = (0, 2, 1, 3) if self.form == "batch first" else (1, 2, 0, 3)
        return self.out(mixed.unflatten(0, parts).permute(axes).flatten(2))

    def by_hand(self, x: Tensor, y: Tensor, off: int | None = None) -> tuple[Tensor, Tensor]:
        weights, values = truth(self.q(x), self.k(y), self.heads_of_it), self.v(y).clone()
        if off is not None:
            values.unflatten(-1, (self.heads_of_it, -1))[:, :, off] = 0
        return weights, self.out(mixed_by(weights, values))


class Resampler(nn.Module):
    """Latents that look at one another, then at what is read, then at one another: Q-Former, Perceiver."""

    def __init__(self, d: int, heads: int, form: str, copies: str, n: int) -> None:
        super().__init__()
        self.latents, self.copies, self.norm = nn.Parameter(torch.randn(n, d)), copies, nn.LayerNorm(d)
        self.alone, self.cross, self.after = (Look(d, heads, form) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        t = self.norm(COPIES[self.copies](self.latents, len(x)))
        t = t + self.alone(t, t)
        t = t + self.cross(t, x)
        return t + self.after(t, t)

    def by_hand(self, x: Tensor, off: int) -> tuple[dict[str, Tensor], Tensor]:
        """Weights by site, and the output with one head of the last two switched off."""
        found, t, changed = {}, *(self.norm(self.latents.repeat(len(x), 1, 1)) for _ in range(2))
        for name, one in (("alone", self.alone), ("cross", self.cross), ("after", self.after)):
            found[name], given = one.by_hand(t, t if name != "cross" else x)
            head = None if name == "alone" else off
            changed = changed + one.by_hand(changed, changed if name != "cross" else x, head)[1]
            t = t + given
        return found, changed


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("form", ["axis", "batch first", "heads first", "fused"])
@pytest.mark.parametrize(("batch", "heads"), [(1, 3), (2, 1), (3, 2), (2, 5)])
def test_learned_queries_have_one_set_for_each_of_the_batch(copies: str, form: str, batch: int, heads: int) -> None:
    torch.manual_seed(batch * heads)
    module, x = ready(Resampler(heads * 6, heads, form, copies, 7)), torch.randn(batch, 11, heads * 6)
    seen, _ = watched(module, x)
    weights, changed = module.by_hand(x, heads - 1)
    assert seen.sites == tuple(weights)
    for site, one in weights.items():
        assert_seen(seen, site, one)
    off = [Intervention(site, "zero", heads=heads - 1) for site in ("cross", "after")]
    with torch.no_grad(), recording(module), intervening(off):
        assert float((module(x) - changed).abs().max()) < 1e-12


class Windows(nn.Module):
    """Local attention that looks back one window; heads stand beside the batch, in a `cat` of one tensor."""

    def __init__(self, d: int, heads: int, size: int) -> None:
        super().__init__()
        self.qkv, self.count, self.size = nn.Linear(d, 3 * d), heads, size

    def split(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values (batch, head, window, position, d_head); keys of the window before stand first."""
        q, k, v = (t.unflatten(-1, (self.count, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k, v = (t.unflatten(2, (-1, self.size)) for t in (q, k, v))
        before = (F.pad(t, (0, 0, 0, 0, 1, 0), value=-1.0)[:, :, :-1] for t in (k, v))
        return [q, *(torch.cat([old, new], 3) for old, new in zip(before, (k, v), strict=True))]

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat([t.flatten(0, 1)], 0) for t in self.split(x))
        mixed = torch.einsum("bwij,bwjd->bwid", torch.softmax(torch.einsum("bwid,bwjd->bwij", q, k), -1), v)
        return mixed.unflatten(0, (len(x), self.count)).flatten(2, 3).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("batch", "heads", "windows", "size"), [(1, 3, 5, 2), (2, 3, 5, 7), (3, 2, 7, 5)])
def test_a_cat_of_one_tensor_keeps_heads_and_windows(batch: int, heads: int, windows: int, size: int) -> None:
    torch.manual_seed(batch)
    module, x = ready(Windows(heads * 4, heads, size)), torch.randn(batch, windows * size, heads * 4)
    seen, output = watched(module, x)
    q, k, _ = module.split(x)
    weights = softmax(torch.einsum("bhwid,bhwjd->bwhij", q, k))
    assert_seen(seen, "Windows", weights.flatten(0, 1))
    with torch.no_grad(), recording(module), intervening([Intervention("Windows", "zero", heads=heads - 1)]):
        changed = module(x)
    output.unflatten(-1, (heads, -1))[:, :, -1] = 0
    assert torch.equal(changed, output)


@pytest.mark.parametrize(("of_queries", "of_keys"), [(1, 3), (3, 1), (2, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("heads", ["each", "shared keys", "shared queries", "none"])
def test_fused_queries_and_keys_of_one_sentence_serve_all(of_queries: int, of_keys: int, heads: str) -> None:
    torch.manual_seed(of_queries)

    def sized(batch: int, shared: bool, n: int) -> Tensor:
        """Without a batch axis where there is none."""
        shape = (*(batch,) * bool(batch), *(() if heads == "none" else (1 if shared else 5,)), n, 4)
        return torch.randn(shape)

    q, k, v = (
        sized(batch, heads == f"shared {what}", n)
        for batch, what, n in ((of_queries, "queries", 7), (of_keys, "keys", 11), (of_keys, "keys", 11))
    )
    module = Lambda(lambda _, *given: F.scaled_dot_product_attention(*given))
    seen, output = watched(module, q, k, v)
    weights = softmax(torch.einsum("...qd,...kd->...qk", q, k) / 2)
    weights = weights[:, None] if heads == "none" else weights
    assert_seen(seen, "Lambda", weights)
    if heads != "none":
        with recording(module), intervening([Intervention("Lambda", "uniform", heads=3)]):
            changed = module(q, k, v)
        mean = v[..., 0 if heads == "shared keys" else 3, :, :].mean(-2, keepdim=True).expand_as(changed[:, 3])
        output[:, 3] = mean
        assert float((changed - output).abs().max()) < 1e-12


@pytest.mark.parametrize("kind", ["bool", "-inf", "lowest"])
@pytest.mark.parametrize("hides", ["a head", "a row of a head", "a window by head", "a sentence of a head"])
@pytest.mark.parametrize("n", [7, 1031])
def test_what_is_hidden_from_one_head_alone_is_masked_in_it(kind: str, hides: str, n: int) -> None:
    """The truth is fused attention itself, given the identity for values."""
    torch.manual_seed(3)
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, n, 4)
    sees = torch.ones(2, 3, 5, n, dtype=torch.bool)
    if hides == "a window by head":
        sees[:, 1] = sees[:, 1].tril()
        sees[:, 2] = False
    elif hides == "a row of a head":
        sees[:, 1, 2] = False
    else:
        sees[1 if "sentence" in hides else slice(None), 1] = False
    low = torch.finfo(torch.float64).min if kind == "lowest" else -torch.inf
    mask = sees if kind == "bool" else torch.zeros(sees.shape).masked_fill(~sees, low)
    expected = F.scaled_dot_product_attention(q, k, torch.eye(n).expand(2, 3, n, n), attn_mask=mask)
    module = Lambda(lambda _, q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    seen, _ = watched(module, q, k, torch.randn(2, 3, n, 4), mask)
    for _ in range(2):  # the second look knows the rows' sums
        assert_seen(seen, "Lambda", expected)
        part = seen.map("Lambda", batch=1).tile(1, slice(1, 4), slice(2, 5))
        assert abs(part - expected[1, 1, 1:4, 2:5].numpy()).max() < 1e-12
    for head, picture in enumerate(seen.record(batch=1)["Lambda"].pictures()[:3]):
        assert (picture.visible == (expected[1, head] > 0).numpy()).all()
    if kind != "lowest":
        assert any("fewer keys" in note for note in seen.record(batch=1).notes)


def test_heads_of_a_list_that_each_get_their_own_tensors_are_one_site() -> None:
    """Linformer: `to_q.3` makes the queries of `heads.3`."""
    several = (nn.ModuleList(nn.Linear(10, 4) for _ in range(3)) for _ in "qkv")
    heads = nn.ModuleList(Lambda(lambda _, q, k, v: (q @ k.mT / 2).softmax(-1) @ v) for _ in range(3))
    parts = dict(zip(("to_q", "to_k", "to_v", "heads"), (*several, heads), strict=True))

    def attend(m: Any, x: Tensor) -> Tensor:
        makers = zip(m.to_q, m.to_k, m.to_v, strict=True)
        return torch.cat([head(*(one(x) for one in each)) for head, each in zip(m.heads, makers, strict=True)], -1)

    module, x = Lambda(attend, **parts), torch.randn(2, 7, 10)
    seen, output = watched(module, x)
    assert seen.sites == ("heads",)
    q, k = (torch.cat([one(x) for one in getattr(module, name)], -1) for name in ("to_q", "to_k"))
    assert_seen(seen, "heads", truth(q, k, 3))
    with torch.no_grad(), recording(module), intervening([Intervention("heads", "zero", heads=1)]):
        changed = module(x)
    output[..., 4:8] = 0
    assert torch.equal(changed, output)


def test_a_one_by_one_convolution_mixes_heads() -> None:
    """Talking heads as x-transformers writes them."""

    def attend(m: Any, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (3, -1)).transpose(1, 2) for t in m.qkv(x).chunk(3, -1))
        return (m.after(m.before(q @ k.mT).softmax(-1)) @ v).transpose(1, 2).flatten(2)

    convs = {name: nn.Conv2d(3, 3, 1, bias=False) for name in ("before", "after")}
    module, x = Lambda(attend, qkv=nn.Linear(15, 45), **convs), torch.randn(2, 7, 15)
    seen, _ = watched(module, x)
    q, k, _ = (t.unflatten(-1, (3, -1)) for t in module.qkv(x).chunk(3, -1))
    mixed = softmax(torch.einsum("gh,bqhd,bkhd->bgqk", convs["before"].weight[..., 0, 0], q, k))
    assert_seen(seen, "Lambda", torch.einsum("gh,bhqk->bgqk", convs["after"].weight[..., 0, 0], mixed))
    assert any("not to 1" in note for note in seen.map("Lambda").notes)

"""Batch, heads, windows, beams and runs are told apart: small modules in the style of well-known repositories.

What is right is written down in each test by an einsum over named axes, and a head that is switched off is the one
that is shown.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import Lambda, ready, recorded, softmax
from transformer import Intervention, Record, RecordError, intervening, recording

pytestmark = pytest.mark.usefixtures("in_doubles")


def truth(q: Tensor, k: Tensor, heads: int) -> Tensor:
    """Weights (batch, head, query, key) of projections (batch, position, heads * d), from the paper."""
    q, k = (t.reshape(*t.shape[:2], heads, -1) for t in (q, k))
    return softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5)


def mixed_by(weights: Tensor, values: Tensor) -> Tensor:
    """What heads give on, side by side (batch, position, heads * d)."""
    return torch.einsum("bhqk,bkhd->bqhd", weights, values.unflatten(-1, (weights.shape[1], -1))).flatten(2)


def watched(module: nn.Module, *inputs: Any) -> tuple[Any, Tensor]:
    """What was seen of a run, which kept its bits."""
    with torch.no_grad():
        plain = module(*inputs)
        with recording(module) as seen:
            output = module(*inputs)
    assert torch.equal(plain, output)
    return seen, output


def assert_seen(seen: Any, site: str, weights: Tensor) -> None:
    found = recorded(seen, site, seen.source(site).n_sentences)
    assert found.shape == tuple(weights.shape), site
    assert abs(found - weights.detach().numpy()).max() < 1e-12, site


COPIES = {
    "expand": lambda t, b: t[None].expand(b, -1, -1),
    "einops": lambda t, b: torch.broadcast_to(t.unsqueeze(0), (b, *t.shape)).contiguous(),
    "repeat": lambda t, b: t.repeat(b, 1, 1),
    "stack": lambda t, b: torch.stack([t] * b),
}


def apart(t: Tensor, heads: int, form: str) -> Tensor:
    """Heads by themselves, or beside the batch, or before it."""
    if form in {"fused", "axis"}:
        return t.unflatten(-1, (heads, -1)).transpose(1, 2)
    order = (0, 2, 1, 3) if form == "batch first" else (2, 0, 1, 3)
    return t.unflatten(-1, (heads, -1)).permute(order).flatten(0, 1)


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


class Step(nn.Module):
    """A layer of a decoder that keeps what it has read: attention to its past, and to a memory."""

    def __init__(self, d: int, heads: int, fused: bool, keeps: bool) -> None:
        super().__init__()
        self.count, self.fused, self.keeps = heads, fused, keeps
        self.qkv, self.q, self.kv = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.past, self.cross = Lambda(self.attend), Lambda(self.attend)

    def attend(self, _: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = apart(q, self.count, "axis")
        sees = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        sees = sees.tril(k.shape[2] - q.shape[2]) if q.shape[2] > 1 else sees
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=sees).transpose(1, 2).flatten(2)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~sees, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, memory: Tensor, cache: list[Tensor]) -> Tensor:
        q, *kv = self.qkv(x).chunk(3, -1)
        new = [apart(t, self.count, "axis") for t in kv]
        other = cache[2:] or [apart(t, self.count, "axis") for t in self.kv(memory).chunk(2, -1)]
        cache[:] = [torch.cat([*pair], 2) for pair in zip(cache[:2], new, strict=True)] if cache else new
        x = x + self.past(q, *cache[:2])
        cache += other if self.keeps else []
        return x + self.cross(self.q(x)[:, -1:], *other)

    def by_hand(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Both weights of a whole text (batch, head, row, key)."""
        q, k, v = self.qkv(x).chunk(3, -1)
        parts = (t.unflatten(-1, (self.count, -1)) for t in (q, k))
        scores = torch.einsum("bqhd,bkhd->bhqk", *parts) / (x.shape[-1] / self.count) ** 0.5
        own = softmax(scores + torch.full(scores.shape[2:], -torch.inf).triu(1))
        return own, truth(self.q(x + mixed_by(own, v)), self.kv(memory).chunk(2, -1)[0], self.count)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(("batch", "prompt", "n"), [(1, 1, 5), (2, 3, 7), (3, 1, 2)])
def test_the_same_decoding_twice_is_two_runs(fused: bool, keeps: bool, batch: int, prompt: int, n: int) -> None:
    torch.manual_seed(n)
    module, memory, text = ready(Step(12, 2, fused, keeps)), torch.randn(batch, 11, 12), torch.randn(batch, n, 12)

    def decoded() -> list[Tensor]:
        cache: list[Tensor] = []
        parts = (text[:, :prompt], *(text[:, i : i + 1] for i in range(prompt, n)))
        return [module(part, memory, cache)[:, -1] for part in parts]

    own, other = module.by_hand(text, memory)
    with torch.no_grad():
        plain = decoded()
        with recording(module) as seen, intervening([Intervention("cross#2", "zero", heads=1, queries=1)]):
            first, second = decoded(), decoded()
    assert seen.sites == ("past#1", "past#2", "cross#1", "cross#2")
    for number in (1, 2):
        assert_seen(seen, f"past#{number}", own)
        assert_seen(seen, f"cross#{number}", other[:, :, prompt - 1 :])
    assert all(torch.equal(*pair) for pair in zip(plain, first, strict=True))
    assert [i for i, pair in enumerate(zip(plain, second, strict=True)) if not torch.equal(*pair)] == [1]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("select", [lambda t, order: t.index_select(0, order), lambda t, order: t[order]])
def test_rows_of_a_beam_search_are_those_of_the_hypothesis_in_its_place(fused: bool, select: Any) -> None:
    torch.manual_seed(2)
    n_beams, n = 5, 7
    module, memory = ready(Step(12, 3, fused, True)), torch.randn(1, 11, 12).expand(n_beams, -1, -1)
    steps, cache, told = torch.randn(n, n_beams, 1, 12), list[Tensor](), torch.empty(n_beams, 0, 12)
    with torch.no_grad(), recording(module) as seen:
        for step in steps:
            told = torch.cat([told, step], 1)
            module(step, memory, cache)
            last, order = told, torch.randint(n_beams, (n_beams,))
            told, cache = told[order], [select(t, order) for t in cache]
    own, other = module.by_hand(last, memory)
    assert_seen(seen, "past", own)
    assert_seen(seen, "cross", other)
    assert all(any("beam search" in note for note in seen.map(site).notes) for site in seen.sites)


def test_a_window_of_many_and_pieces_of_a_softmax_are_said() -> None:
    """Three pictures of four windows; and the weights of a softmax in two pieces, of which one is scaled."""
    attend = Look(10, 2, "axis")
    windows = Lambda(lambda m, x: m.attend(*(x.unflatten(1, (4, 5)).flatten(0, 1),) * 2), attend=attend)
    seen, _ = watched(windows, torch.randn(3, 20, 10))
    picture = seen.record(batch=7)["attend"].pictures()[1]
    assert picture.title == "attend · head 1 · element 7 of 12"
    assert any("model read 3, so that each has 4 here" in note for note in picture.notes)
    assert seen.map("attend", batch=2).picture(0).title.endswith("element 2 of 12")
    pieces = Lambda(lambda _, x: (w := (x @ x.mT).softmax(-1))[..., :3] @ x[:, :3] - (w * 2)[..., 3:] @ x[:, 3:])
    seen, _ = watched(pieces, x := torch.randn(3, 7, 5))
    weights = softmax(x @ x.mT)[2]
    for site, table in zip(seen.sites, (weights[:, :3], weights[:, 3:] * 2), strict=True):
        sums = table.sum(-1)
        assert any(
            f"sum to {sums.min():.2f} to {sums.max():.2f}, not" in note for note in seen.map(site, batch=2).notes
        )
        assert any("element 2 of 3 in the batch" in note for note in seen.map(site, batch=2).notes)


def test_rows_that_are_nan_are_saved_and_marked_and_nan_queries_are_refused(tmp_path: Any) -> None:
    module, x = nn.MultiheadAttention(6, 3, batch_first=True).eval(), torch.randn(1, 5, 6)
    mask = torch.zeros(3, 5, 5, dtype=torch.bool)
    mask[2, 1] = True
    with torch.no_grad(), recording(module) as seen:
        module(x, x, x, attn_mask=mask, average_attn_weights=False)
    seen.record().save(tmp_path / "run.heedmap")
    again = Record.open(tmp_path / "run.heedmap")[seen.sites[0]]
    assert [(head, row) for head, row in np.argwhere(np.isnan(again.all_weights()).any(-1))] == [(2, 1)]
    assert any("NaN are marked" in note for note in again.picture(2).notes)
    assert len(Record({again.site: again}).html()) > len(Record({again.site: again}).measures()) == 3
    fused = Lambda(lambda _, x: F.scaled_dot_product_attention(x, x, x))
    with recording(fused) as seen:
        fused(x[None] / 0)
    with pytest.raises(RecordError, match="hold NaN or infinity"):
        seen.record().save(tmp_path / "other.heedmap")

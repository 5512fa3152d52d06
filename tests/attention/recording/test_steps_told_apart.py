"""Runs, steps and beams are told apart: what is joined to one map is of one text."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heedmap import Intervention, intervening, recording
from tests.attention.recording.case import Lambda, assert_seen, causal, dots, joined, ready, softmax, split

pytestmark = pytest.mark.usefixtures("in_doubles")


class Step(nn.Module):
    """A layer of a decoder that keeps what it has read: attention to its past, and to a memory."""

    def __init__(self, d: int, heads: int, fused: bool, keeps: bool) -> None:
        super().__init__()
        self.count, self.fused, self.keeps = heads, fused, keeps
        self.qkv, self.q, self.kv = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.past, self.cross = Lambda(self.attend), Lambda(self.attend)

    def by_head(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.count, -1)).transpose(1, 2)

    def attend(self, _: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = self.by_head(q)
        sees = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        sees = sees.tril(k.shape[2] - q.shape[2]) if q.shape[2] > 1 else sees
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=sees).transpose(1, 2).flatten(2)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~sees, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, memory: Tensor, cache: list[Tensor]) -> Tensor:
        q, *kv = self.qkv(x).chunk(3, -1)
        new = [self.by_head(t) for t in kv]
        other = cache[2:] or [self.by_head(t) for t in self.kv(memory).chunk(2, -1)]
        cache[:] = [torch.cat([*pair], 2) for pair in zip(cache[:2], new, strict=True)] if cache else new
        x = x + self.past(q, *cache[:2])
        cache += other if self.keeps else []
        return x + self.cross(self.q(x)[:, -1:], *other)

    def by_hand(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Both weights of a whole text (batch, head, row, key)."""
        q, k, v = (split(t, self.count) for t in self.qkv(x).chunk(3, -1))
        own = softmax(dots(q, k) + causal(x.shape[1]))
        k, _ = (split(t, self.count) for t in self.kv(memory).chunk(2, -1))
        return own, softmax(dots(split(self.q(x + joined(own @ v)), self.count), k))


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

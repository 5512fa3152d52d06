"""Long runs: what they cost is told before, how far they are meanwhile, and a stop is heard within a piece of them."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.classifiers import sequence_checkpoint
from transformer.attention.capture import Recording, recording
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.explain.attribution.deletion import Progress
from transformer.nn import fused
from transformer.runs import pace as paces
from transformer.runs.pace import Pace, pace_of, refuse_large
from transformer.sequences.alphabet import DNA

LETTERS = "ACGTTGCANGTACCAGTTGACGTCATTGA" * 57  # 1,653: two widths make 3,300 windows


def run_of(checkpoint: Checkpoint, length: int = len(LETTERS)) -> tuple[torch.Tensor, Recording]:
    """Logits of the first letters, and what was recorded of them."""
    with torch.inference_mode(), recording() as seen:
        return checkpoint.model(torch.tensor([DNA.ids(LETTERS[:length])])), seen


def kept_bytes(seen: Recording) -> int:
    return sum(seen.source(site).kept_bytes for site in seen.sites)


def pace(checkpoint: Checkpoint) -> Pace:
    return pace_of(checkpoint.model, len(LETTERS) - 5, lambda length: kept_bytes(run_of(checkpoint, length + 5)[1]))


def followed(checkpoint: Checkpoint, heard: Progress) -> tuple[torch.Tensor, Recording]:
    with pace(checkpoint).followed(len(LETTERS), heard):
        return run_of(checkpoint)


@pytest.fixture(scope="module")
def plain() -> tuple[torch.Tensor, Recording]:
    return run_of(sequence_checkpoint())


def test_a_run_that_is_followed_says_the_same_bits_and_how_far_it_is(
    plain: tuple[torch.Tensor, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "CELLS_AT_ONCE", 3_300 * 2_048)
    monkeypatch.setattr(paces, "LISTENING", 0.0)
    told = list[float]()
    logits, seen = followed(sequence_checkpoint(), told.append)
    assert torch.equal(logits, plain[0])
    for site in seen.sites:
        one, other = seen.source(site), plain[1].source(site)
        assert torch.equal(one.q, other.q)  # type: ignore[union-attr]
        if site.kind == "self":
            assert torch.equal(one.known, other.known)  # type: ignore[union-attr, arg-type]
    assert told == sorted(told)
    assert 0 <= told[0] < 0.3 < told[-1] < 1
    assert len(set(told)) > 12  # within an attention, too: 2 layers of 3 heads in 2 groups of rows


def test_a_stop_ends_the_run_within_an_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = sequence_checkpoint()
    pace(checkpoint)
    monkeypatch.setattr(paces, "CELLS_AT_ONCE", 3_300 * 2_048)
    monkeypatch.setattr(paces, "LISTENING", 0.0)
    ran = list[int]()
    original = getattr(torch.ops.aten, fused.OPERATOR)

    def stop(done: float) -> None:
        if len(ran) == 3:
            raise InterruptedError

    pieces = paces._in_pieces

    def counted(func: Any, args: Any, given: Any, begun: Any) -> Any:
        def one(*q: Any, **more: Any) -> Any:
            ran.append(q[0].shape[2])
            return original(*q, **more)

        return pieces(one if func is original else func, args, given, begun)

    monkeypatch.setattr(paces, "_in_pieces", counted)
    with pytest.raises(InterruptedError):
        followed(checkpoint, stop)
    assert ran == [2_048, 3_300 - 2_048, 2_048]
    assert F.relu(torch.ones(1)).item() == 1  # nothing is watched any more


@pytest.mark.kernels
@pytest.mark.parametrize("rest", [7, 771])  # fewer rows than the kernel's largest blocks are for, and more
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_pieces_of_an_attention_are_what_it_is_as_a_whole(
    causal: bool, masked: bool, rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask for all heads, groups of queries that do not end even: each is computed in blocks of the whole's size."""
    monkeypatch.setattr(paces, "CELLS_AT_ONCE", 1)
    monkeypatch.setattr(paces, "ROWS_AT_ONCE", 768)
    torch.manual_seed(3)
    n = 2 * 768 + rest
    q, k, v = (torch.randn(1, n, 3, 11).transpose(1, 2) for _ in range(3))
    mask = (torch.rand(1, 1, n, n) > 0.3) if masked and not causal else None
    followed = Pace(1, (), paces._Growth(0.0, 0.0), paces._Growth(0.0, 0.0)).followed(1, lambda done: None)
    with torch.inference_mode():
        whole = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        with followed:
            parts = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    assert min(len(range(n)[rows]) for rows in paces._groups(n, n)) >= paces.FEWEST_ROWS
    assert torch.equal(whole, parts)
    assert whole.stride() == parts.stride()


def test_what_a_run_takes_grows_as_it_should_and_is_near_the_truth(
    plain: tuple[torch.Tensor, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "ENOUGH", float("inf"))  # however slow this machine is at present
    checkpoint = sequence_checkpoint()
    found = pace(checkpoint)
    assert found is pace(checkpoint)  # measured once
    kept = kept_bytes(plain[1])
    costs = [found.cost(length) for length in (len(LETTERS), 10 * len(LETTERS), 100 * len(LETTERS))]
    assert 0.9 * kept < costs[0].kept_bytes - paces.LABELS * len(LETTERS) < 1.1 * kept
    assert costs[1].kept_bytes == pytest.approx(10 * costs[0].kept_bytes, rel=0.05)
    assert 30 < costs[2].seconds / costs[1].seconds <= 100  # attention grows with the square
    for one in costs:
        assert one.n_bytes > one.kept_bytes
        longest = found.longest(one.n_bytes)
        assert found.cost(longest).n_bytes <= one.n_bytes < found.cost(int(1.2 * longest)).n_bytes
        refuse_large(found, longest, one.n_bytes)
    with pytest.raises(InputError, match=rf"165,300 letters .* at most {found.longest(costs[1].n_bytes):,}"):
        refuse_large(found, 165_300, costs[1].n_bytes)


def test_growth_goes_through_what_was_measured() -> None:
    growth = paces._Growth.through(20, 3 * 10 + 0.7 * 100, 3 * 20 + 0.7 * 400.0)
    assert (growth.linear, growth.square) == pytest.approx((3, 0.7))
    assert growth.at(50) == pytest.approx(150 + 0.7 * 2500)

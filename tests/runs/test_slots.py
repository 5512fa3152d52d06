"""Long runs: each comes to its turn however much others ask for; what it costs is told before, a stop is heard soon."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from threading import Condition, Event
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from heedmap import DecodingOptions, load
from heedmap.attention.capture import Recording, recording
from heedmap.checkpoint.checkpoint import Checkpoint
from heedmap.errors import InputError
from heedmap.explain.attribution.deletion import Progress
from heedmap.nn import fused
from heedmap.nn.search import decode
from heedmap.runs import concurrency
from heedmap.runs import pace as paces
from heedmap.runs.concurrency import LONG, LOOK, Slots, forward_slot, let_others, letting_others
from heedmap.runs.pace import Pace, pace_of, refuse_large
from heedmap.sequences.alphabet import DNA
from tests.classifiers import sequence_checkpoint
from tests.waiting import PATIENCE, until

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def waits(slots: Slots, count: int) -> None:
    """Leave once so many threads wait."""
    until(lambda: sum(map(len, slots._waiting.values())) >= count)


@pytest.mark.parametrize(
    ("asked", "served"),
    [("abcde", "abcde"), ("LabL", "abLL"), ("LLLabcdefghijk", "abcLdefgLhijkL"), ("abcdefLg", "abcLdefg")],
)
def test_slots_are_given_in_order_and_each_fifth_to_long_work(asked: str, served: str) -> None:
    """An L is long work, any other letter somebody who looks; the first of five has the slot while they ask."""
    slots, found = Slots(1), list[str]()

    def ask(name: str) -> None:
        with slots.slot(name == "L"):
            found.append(name)

    with ThreadPoolExecutor(len(asked)) as threads, slots.slot():
        for n, name in enumerate(asked):
            threads.submit(ask, name)
            waits(slots, n + 1)
    assert ("".join(found), slots._free) == (served, 1)


@pytest.mark.parametrize("free", [1, 0])
def test_who_is_interrupted_leaves_the_queue_or_lets_go_of_what_came(free: int, monkeypatch: Any) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    slots = Slots(free)
    monkeypatch.setattr(Event, "wait", interrupted)
    for kind in (LOOK, LONG):
        with pytest.raises(KeyboardInterrupt):
            slots.have(kind)
    assert (slots.mine, slots._free, slots._n_long, list(slots._waiting.values())) == (None, free, 0, [{}, {}])


@pytest.fixture
def one_slot(monkeypatch: pytest.MonkeyPatch) -> Slots:
    slots = Slots(1)
    monkeypatch.setattr(concurrency, "_forward", slots)
    return slots


def between(slots: Slots, work: Callable[[Callable[[], None]], None]) -> list[str]:
    """What happens in which order when somebody asks for the slot after the second of the steps of `work`."""
    order = list[str]()

    def newcomer() -> None:
        with forward_slot():
            order.append("newcomer")

    def step() -> None:
        order.append("step")
        if len(order) == 2:
            threads.submit(newcomer)
            waits(slots, 1)

    with ThreadPoolExecutor(1) as threads, forward_slot():
        work(step)
        assert torch.is_inference_mode_enabled()
    assert slots._free == 1
    return order


def decoding(step: Callable[[], None]) -> None:
    model = load(CHECKPOINTS / "multi30k-en-de").translator()[0]

    def after() -> None:
        step()
        let_others()

    decode(model, torch.tensor([[30, 40, 50, 2]]), DecodingOptions(beam=2), between=after)


def slow_work(step: Callable[[], None]) -> None:
    progress = letting_others((reported := list[float]()).append)
    for done in (0.25, 0.5, 1.0):
        step()
        progress(done)
    assert reported == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("work", [decoding, slow_work])
def test_long_work_lets_others_go_first_between_its_steps_and_whenever_it_tells(work: Any, one_slot: Slots) -> None:
    assert between(one_slot, work)[:4] == ["step", "step", "newcomer", "step"]
    let_others()  # outside of a slot nobody is waited for
    letting_others(None)(0.5)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the processor, and a server's turns, with those that were asked for."""
    now, slots = [0.0], Slots(concurrency.AT_ONCE)
    slots.most_long = 1
    monkeypatch.setattr(concurrency, "turns", slots)
    monkeypatch.setattr("time.thread_time", lambda: now[0])
    return now


@pytest.mark.parametrize("before", [None, LOOK, LONG])
def test_work_is_long_after_its_grace_and_needs_turns_of_long_work(processor: list[float], before: bool | None) -> None:
    turns = concurrency.turns
    with turns.slot(before) if before is not None else nullcontext():
        with forward_slot():
            let_others()
            assert turns.mine is before
            processor[0] += concurrency.GRACE
            let_others()
            assert (turns.mine, turns._free, concurrency._forward.mine) == (LONG, 1, LOOK)
            with forward_slot():  # a pass within a pass needs no slot of its own
                assert concurrency._forward._free == 1
        assert turns.mine is (LONG if before is LONG else None), "what took long gave its turn back"
        assert concurrency._forward._free == 2
    assert turns._free == 2


def test_long_work_stands_back_for_those_who_draw_at_each_pass_and_each_grace(processor: list[float]) -> None:
    turns, served = concurrency.turns, list[str]()

    def draw() -> None:
        with turns.slot():
            served.append("drawn")

    turns._free = 1  # the other one is held
    with ThreadPoolExecutor(2) as threads, turns.slot(LONG):
        for _ in range(2):
            threads.submit(draw)
            waits(turns, 1)
            with forward_slot():
                served.append("pass")
                threads.submit(draw)
                waits(turns, 1)
                let_others()
                served.append("step")
                processor[0] += concurrency.GRACE
                let_others()
                served.append("step")
    assert served == ["drawn", "pass", "step", "drawn", "step"] * 2
    assert (turns._free, concurrency._forward._free) == (1, 2)


def met(threads: int, most: int, work: Callable[[Callable[[], None]], None]) -> int:
    """How many are inside of `work` at once: each stays until one more than may joins it, or could long have joined."""
    changed, inside, found = Condition(), 0, 0

    def meet() -> None:
        nonlocal inside, found
        with changed:
            inside += 1
            found = max(found, inside)
            changed.notify_all()
            changed.wait_for(lambda: found >= most, timeout=PATIENCE)
            changed.wait_for(lambda: found > most, timeout=0.1)
            inside -= 1

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, meet) for _ in range(threads)]:
            done.result(PATIENCE)
    return found


def passes(meet: Callable[[], None]) -> None:
    for _ in range(2):
        with forward_slot():
            meet()
            let_others()


def long_passes(meet: Callable[[], None]) -> None:
    with concurrency.turns.slot(LONG):
        passes(meet)


@pytest.mark.parametrize(("work", "served", "most"), [(long_passes, 1, 1), (long_passes, 2, 2), (passes, 1, 2)])
def test_how_many_passes_go_on_at_once(processor: list[float], work: Any, served: int, most: int) -> None:
    concurrency.turns.most_long = served
    assert met(4, most, work) == most
    assert (concurrency.turns._free, concurrency._forward._free) == (2, 2)


def _fail_after(keeps_gradients: bool) -> None:
    assert not keeps_gradients
    raise ZeroDivisionError


def test_a_failed_pass_gives_its_place_back_and_nothing_keeps_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), forward_slot():
            _fail_after((weight * 2).requires_grad)


LETTERS = "ACGTTGCANGTACCAGTTGACGTCATTGA" * 57  # 1,653: two widths make 3,300 windows


def run_of(checkpoint: Checkpoint, length: int = len(LETTERS)) -> tuple[torch.Tensor, Recording]:
    """Logits of the first letters, and what was recorded of them."""
    with torch.inference_mode(), recording() as seen:
        return checkpoint.model(torch.tensor([DNA.ids(LETTERS[:length])])), seen


def kept_bytes(seen: Recording) -> int:
    return sum(seen.source(site).kept_bytes for site in seen.sites)


def pace(checkpoint: Checkpoint) -> Pace:
    return pace_of(checkpoint.model, len(LETTERS) - 5, lambda length: kept_bytes(run_of(checkpoint, length + 5)[1]))


def reported(checkpoint: Checkpoint, heard: Progress) -> tuple[torch.Tensor, Recording]:
    with pace(checkpoint).reported(len(LETTERS), heard):
        return run_of(checkpoint)


@pytest.fixture(scope="module")
def plain() -> tuple[torch.Tensor, Recording]:
    return run_of(sequence_checkpoint())


def test_a_followed_run_says_the_same(plain: tuple[torch.Tensor, Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paces, "CELLS_AT_ONCE", 3_300 * 2_048)
    monkeypatch.setattr(paces, "LISTENING", 0.0)
    told, slow = list[float](), paces._Growth(1.0, 0.0)  # a second a letter: the run ends long before
    with Pace(slow, slow, slow).reported(1, told.append):
        logits, seen = run_of(sequence_checkpoint())
    assert torch.equal(logits, plain[0])
    for site in seen.sites:
        one, other = seen.source(site), plain[1].source(site)
        assert torch.equal(one.q, other.q)  # type: ignore[union-attr]
        if site.kind == "self":
            assert torch.equal(one.known, other.known)  # type: ignore[union-attr, arg-type]
    assert told == sorted(told)
    assert 0 <= told[0] < told[-1] < 1
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
        reported(checkpoint, stop)
    assert ran == [2_048, 3_300 - 2_048, 2_048]
    assert F.relu(torch.ones(1)).item() == 1  # nothing is watched any more


@pytest.mark.kernels
@pytest.mark.parametrize("rest", [7, 771])  # fewer rows than the kernel's largest blocks are for, and more
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_pieces_of_an_attention_are_what_it_is_as_a_whole(causal: bool, masked: bool, rest: int, monkeypatch) -> None:
    """A mask for all heads, groups of queries that do not end even: each is computed in blocks of the whole's size."""
    monkeypatch.setattr(paces, "CELLS_AT_ONCE", 1)
    monkeypatch.setattr(paces, "ROWS_AT_ONCE", 768)
    torch.manual_seed(3)
    n = 2 * 768 + rest
    q, k, v = (torch.randn(1, n, 3, 11).transpose(1, 2) for _ in range(3))
    mask = (torch.rand(1, 1, n, n) > 0.3) if masked and not causal else None
    reported = Pace(*[paces._Growth(0.0, 0.0)] * 3).reported(1, lambda done: None)
    with torch.inference_mode():
        whole = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        with reported:
            parts = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    assert min(len(range(n)[rows]) for rows in paces._groups(n, n)) >= paces.FEWEST_ROWS
    assert torch.equal(whole, parts)
    assert whole.stride() == parts.stride()


def test_costs_grow_near_the_truth(plain: tuple[torch.Tensor, Recording], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.perf_counter", count(1.0).__next__)  # a second an operation, however slow this machine is
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

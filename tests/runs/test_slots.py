"""Who waits for a forward pass comes to his turn, however much others ask for."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Event, Lock

import pytest
import torch

from transformer import DecodingOptions, load
from transformer.nn.search import decode
from transformer.runs import concurrency
from transformer.runs.concurrency import Slots, forward_slot, let_others, letting_others, long_work

PATIENCE = 30
CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def waits(slots: Slots, count: int) -> None:
    """Leave once so many threads wait."""
    done = Event()
    for _ in range(int(PATIENCE / 0.01)):
        if len(slots._waiting) >= count:
            return
        done.wait(0.01)
    raise TimeoutError(f"{len(slots._waiting)} of {count} wait")


def test_slots_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    slots, order, writing = Slots(2), list[str](), Lock()

    def ask(name: str) -> None:
        with slots.slot(), writing:
            order.append(name)

    with ThreadPoolExecutor(5) as threads:
        slots.take()
        slots.take()
        asked = []
        for n, name in enumerate("abcde"):
            asked.append(threads.submit(ask, name))
            waits(slots, n + 1)
        slots.give_back()
        for one in asked:
            one.result(PATIENCE)
        slots.give_back()
    assert order == list("abcde")
    assert slots._free == 2


def test_work_that_takes_slot_after_slot_lets_a_newcomer_between_two_of_them() -> None:
    slots, order = Slots(1), list[str]()

    def newcomer() -> None:
        with slots.slot():
            order.append("newcomer")

    with ThreadPoolExecutor(1) as threads:
        for turn in range(4):
            with slots.slot():
                order.append(f"file {turn}")
                if turn == 1:
                    asked = threads.submit(newcomer)
                    waits(slots, 1)
        asked.result(PATIENCE)
    assert order == ["file 0", "file 1", "newcomer", "file 2", "file 3"]


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

    with ThreadPoolExecutor(1) as threads:

        def step() -> None:
            order.append("step")
            if len(order) == 2:
                threads.submit(newcomer)
                waits(slots, 1)

        with forward_slot():
            work(step)
            assert torch.is_inference_mode_enabled()
    assert slots._free == 1
    return order


def test_a_long_decoding_lets_others_go_first_between_its_steps(one_slot: Slots) -> None:
    model = load(CHECKPOINTS / "multi30k-en-de").translator()[0]

    def work(step: Callable[[], None]) -> None:
        def after() -> None:
            step()
            let_others()

        decode(model, torch.tensor([[30, 40, 50, 2]]), DecodingOptions(beam=2), between=after)

    order = between(one_slot, work)
    assert order[:4] == ["step", "step", "newcomer", "step"]


def test_so_does_slow_work_whenever_it_tells_how_far_it_is(one_slot: Slots) -> None:
    told = list[float]()

    def work(step: Callable[[], None]) -> None:
        progress = letting_others(told.append)
        for done in (0.25, 0.5, 1.0):
            step()
            progress(done)

    assert between(one_slot, work) == ["step", "step", "newcomer", "step"]
    assert told == [0.25, 0.5, 1.0]


def test_outside_of_a_slot_nobody_is_waited_for(one_slot: Slots) -> None:
    one_slot.take()
    let_others()
    letting_others(None)(0.5)
    one_slot.give_back()


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often it was asked whether somebody looks; somebody does the first three times."""
    asked = list[int]()

    def busy() -> bool:
        asked.append(1)
        return len(asked) <= 3

    monkeypatch.setattr(concurrency, "_busy", [busy])
    monkeypatch.setattr(concurrency._mine, "began", float("-inf"), raising=False)
    monkeypatch.setattr(concurrency, "PATIENCE", 25 * 0.001 * 20)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return asked


def test_long_work_stands_back_for_those_who_look_and_short_work_does_not(
    one_slot: Slots, looking: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with forward_slot():
        let_others()
    assert not looking
    monkeypatch.setattr(concurrency, "GRACE", 0.0)
    with forward_slot():
        let_others()
        assert one_slot._free == 0
    assert len(looking) == 4
    looking.clear()
    with long_work(), forward_slot():
        assert len(looking) == 4
    with forward_slot():
        assert len(looking) == 4


@pytest.mark.parametrize(("looked_at", "most"), [(True, 1), (False, 2)])
def test_long_work_goes_on_one_at_a_time_where_others_look_and_two_at_a_time_where_nobody_does(
    monkeypatch: pytest.MonkeyPatch, looked_at: bool, most: int
) -> None:
    """Whoever is inside stays until another joins it, or until that one could long have done so."""
    monkeypatch.setattr(concurrency, "_busy", [lambda: False] if looked_at else [])
    changed, inside, found = Condition(), 0, 0

    def meet() -> None:
        nonlocal inside, found
        with changed:
            inside += 1
            found = max(found, inside)
            changed.notify_all()
            changed.wait_for(lambda: found > 1, timeout=0.1 if most == 1 else PATIENCE)
            inside -= 1

    def run(_: int) -> None:
        with long_work():
            for _ in range(2):
                with forward_slot():
                    meet()
                    let_others()

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(run, n) for n in range(2)]:
            done.result(PATIENCE)
    assert found == most
    assert (concurrency._long._free, concurrency._forward._free) == (1, concurrency.AT_ONCE)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on where somebody sleeps, and somebody who always looks."""
    now = [0.0]
    monkeypatch.setattr(concurrency, "_busy", [lambda: True])
    monkeypatch.setattr(concurrency._mine, "began", float("-inf"), raising=False)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_long_work_stands_back_in_proportion_to_what_it_did_and_goes_on_however_many_look(
    one_slot: Slots, clock: list[float]
) -> None:
    def stood_back(worked: float) -> float:
        clock[0] += worked
        before = clock[0]
        let_others()
        return clock[0] - before

    with long_work(), forward_slot():
        assert clock[0] == pytest.approx(concurrency.PATIENCE)
        assert stood_back(0.01) == pytest.approx(0.01 * concurrency.SHARE)
        assert stood_back(60.0) == pytest.approx(concurrency.PATIENCE)
    assert (one_slot._free, concurrency._long._free) == (1, 1)


def test_long_work_of_many_small_steps_is_not_made_to_wait_for_another_after_each(
    one_slot: Slots, clock: list[float]
) -> None:
    """Another one waits; it goes on once the first has worked for its time."""
    done, steps = Event(), 0

    def other() -> None:
        with long_work(), forward_slot():
            done.set()

    with ThreadPoolExecutor(1) as threads:
        with long_work(), forward_slot():
            asked = threads.submit(other)
            waits(concurrency._long, 1)
            while not done.is_set() and steps < 100:
                clock[0] += concurrency.TENURE / 10
                steps += 1
                let_others()
        asked.result(PATIENCE)
    assert 10 <= steps <= 12


def test_a_pass_within_a_pass_needs_no_slot_of_its_own(one_slot: Slots, clock: list[float]) -> None:
    with forward_slot(), long_work(), forward_slot():
        assert one_slot._free == 0
    assert (one_slot._free, concurrency._long._free) == (1, 1)

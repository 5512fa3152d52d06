"""What `recording(module)` sees of modules that nobody wrote for it, against attention by brute force."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedmap import recording
from tests.attention.recording.case import (
    MODES,
    Brute,
    Case,
    Lambda,
    assert_close,
    assert_recorded,
    assert_seen,
    built,
    by_brute_force,
    doubles,
    has_fast_path,
    nothing_left,
    run,
    softmax,
    watched,
)
from tests.attention.recording.modules import NAMES
from tests.attention.recording.modules.decoders import NanoGPT
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("in_doubles")


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_gives_what_its_module_gives(name: str) -> None:
    case = built(name)
    output, brute = by_brute_force(case)
    assert_close(case, run(case), output, 1e-12)
    assert brute.weights


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_all_weights_are_seen_and_the_output_keeps_its_bits(name: str, mode: str) -> None:
    case = built(name, seed=list(MODES).index(mode))  # other sizes in each mode
    _, brute = by_brute_force(case)
    with MODES[mode]():
        plain = run(case)
        with nothing_left(case.module), recording(case.module) as seen:
            output = run(case)
        tolerance = 1e-6 if has_fast_path(case) else 0.0
    assert_close(case, output, plain, tolerance)
    assert_recorded(case, seen, brute)


@pytest.mark.parametrize("name", ["nanogpt_fused", "a_module_per_head", "bahdanau_by_bmm", "multihead_attention"])
def test_slopes_are_those_of_a_plain_run(name: str) -> None:
    case = built(name)
    found = []
    for context in (torch.enable_grad(), recording(case.module)):
        case.module.zero_grad()
        with context:
            torch.manual_seed(1)
            output = case.module(*case.inputs)
            (output[0] if isinstance(output, tuple) else output).sum().backward()
        found.append([one.grad for one in case.module.parameters() if one.grad is not None])
    assert found[0]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("name", ["nanogpt_written_out", "encoder_with_a_fast_path", "a_module_per_head"])
def test_nothing_is_left_after_an_exception(name: str) -> None:
    case = built(name)

    def fails(m: Any, *inputs: Tensor) -> Tensor:
        m.inner(*inputs)
        raise ValueError("broken on purpose")

    broken = Lambda(fails, inner=case.module)
    with nothing_left(broken), pytest.raises(ValueError, match="on purpose"), recording(broken) as seen:
        broken(*case.inputs)
    _, brute = by_brute_force(case)
    assert tuple(seen.sites) == tuple(f"inner.{site}" for site in brute.weights)
    with nothing_left(broken), pytest.raises(KeyboardInterrupt), recording(broken):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "bahdanau_by_bmm", "a_module_per_head"])
def test_threads_never_see_each_other(name: str) -> None:
    cases = [built(name, seed) for seed in range(4)]
    expected, start = [by_brute_force(case)[1] for case in cases], threading.Barrier(6)

    def watch(case: Case, brute: Brute) -> None:
        with doubles(), torch.no_grad():
            start.wait(PATIENCE)
            for _ in range(5):
                with recording(case.module) as seen:
                    case.module(*case.inputs)
                assert_recorded(case, seen, brute)

    def only_run() -> None:
        start.wait(PATIENCE)
        with torch.no_grad():
            for _ in range(10):
                cases[0].module(*cases[0].inputs)

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(watch, *each) for each in zip(cases, expected, strict=True)]
        jobs += [pool.submit(only_run) for _ in range(2)]
        for job in jobs:
            job.result(PATIENCE)


def test_one_module_records_for_two_threads_at_once() -> None:
    case, start = built("nanogpt_written_out"), threading.Barrier(2)

    def watch(ids: Tensor, goes_on: bool) -> Any:
        with torch.no_grad(), recording(case.module) as seen:
            start.wait(PATIENCE)
            case.module(ids)
            start.wait(PATIENCE)  # the other's hooks are still there when this thread's go
            if goes_on:
                case.module(ids)
        return seen

    with doubles(), nothing_left(case.module), ThreadPoolExecutor(2) as pool:
        first = pool.submit(watch, case.inputs[0], False)
        pool.submit(watch, torch.flip(case.inputs[0], (0, 1)), True).result(PATIENCE)
        assert_recorded(case, first.result(PATIENCE), by_brute_force(case)[1])


def test_only_the_part_that_is_recorded_is_seen_by_paths_from_itself() -> None:
    case = built("nanogpt_written_out")
    _, brute = by_brute_force(case)
    part = case.module.blocks[1]
    with torch.no_grad(), recording(part) as seen:
        run(built("nanogpt_fused"))
        run(case)
    assert tuple(seen.sites) == ("attn",)
    assert abs(seen.map("attn", batch=1).all_weights() - brute.weights["blocks.1.attn"][1].numpy()).max() < 1e-12


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "pooled_by_product_and_sum"])
def test_compiled_modules_run_eagerly_under_their_own_names(name: str) -> None:
    case = built(name)
    compiled: Any = torch.compile(case.module, backend="eager")
    plain = run(case, compiled)
    with torch.no_grad(), recording(compiled) as seen:
        output = run(case, compiled)
    assert_close(case, output, plain, 1e-12)
    assert_recorded(case, seen, by_brute_force(case)[1])


@pytest.mark.parametrize("flash", [True, False])
def test_dropout_keeps_its_random_numbers(flash: bool) -> None:
    module, x = NanoGPT(24, 3, flash, dropout=0.4).train(), torch.randn(2, 7, 24)
    seen, _ = watched(module, x)
    q, k, _ = (torch.stack(part.chunk(3, -1), 1) for part in module.c_attn(x).chunk(3, -1))
    scores = q @ k.mT / 8**0.5 + torch.full((7, 7), -torch.inf).triu(1)
    weights = seen["NanoGPT"].all_weights() / scores.softmax(-1)[0].detach().clamp(min=1e-300).numpy()
    past = weights[:, *torch.ones(7, 7).tril().nonzero().T.numpy()]
    ones, dropped = abs(past - 1) < 1e-9, (abs(past) < 1e-9) | (abs(past - 1 / 0.6) < 1e-9)
    assert ones.all() or dropped.all()


def test_a_long_run_keeps_no_table() -> None:
    module, x = NanoGPT(24, 3, True).eval(), torch.randn(2, 1500, 24)
    seen, _ = watched(module, x)
    kept = seen.map("NanoGPT").source.kept_bytes
    assert kept < 4 * x.nbytes
    q, k = (part.unflatten(-1, (3, 8))[1, :, 2] for part in module.c_attn(x).detach().chunk(3, -1)[:2])
    row = torch.exp((k[:1201] @ q[1200]) / 8**0.5)
    found = seen.map("NanoGPT", batch=1).tile(2, slice(1200, 1201), slice(0, 1201))[0]
    assert abs(found - (row / row.sum()).numpy()).max() < 1e-12


def test_a_mapped_function_runs_as_ever() -> None:
    module = Lambda(lambda _, x: torch.func.vmap(lambda one: torch.softmax(one @ one.mT, -1) @ one)(x))
    seen, _ = watched(module, torch.randn(3, 7, 5))
    assert seen.sites or seen.notes
    assert all(seen.map(site).all_weights().shape[1:] == (7, 7) for site in seen.sites)


def test_thousands_of_functions_before_a_softmax_do_not_exhaust_the_stack() -> None:
    """Sums of projections, one upon the other, and attention that is written out at their end."""

    def sums(m: Any, x: Tensor) -> Tensor:
        h = m.project(x)
        for _ in range(1_500):
            h = h + m.project(h) * 0.001
        return h

    module, x = Lambda(lambda m, x: (sums(m, x) @ x.mT).softmax(-1) @ x, project=nn.Linear(6, 6)), torch.randn(2, 5, 6)
    seen, _ = watched(module, x)
    assert seen.sites == ("Lambda",)
    assert_seen(seen, "Lambda", (sums(module, x) @ x.mT).softmax(-1)[:, None])


def test_two_sentences_are_no_steps_of_one() -> None:
    """A pooling query looks at each once, and both are equally long: only what is mixed tells them apart."""
    module = Lambda(lambda m, x: (m.score(x).softmax(1) * x).sum(1), score=nn.Linear(5, 1))
    inputs = [torch.randn(2, 7, 5) for _ in range(2)]
    with torch.no_grad(), recording(module) as seen:
        for x in inputs:
            module(x)
    assert tuple(seen.sites) == ("Lambda#1", "Lambda#2")
    for site, x in zip(seen.sites, inputs, strict=True):
        assert_seen(seen, site, softmax(module.score(x).mT)[:, None])


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (torch.rand(2, 7, 5), torch.rand(11, 5), {}),  # values that lack the batch's axis
        (torch.rand(6, 2, 5), torch.rand(6, 11, 5), {"num_heads": 3}),  # a batch that so many heads could be a part of
        (torch.rand(2, 3, 7, 5), torch.rand(2, 3, 11, 5), {}),  # heads that came in from outside
    ],
)
def test_batch_heads_and_queries_are_told_apart(x: Tensor, y: Tensor, says: dict[str, int]) -> None:
    module = Lambda(lambda _, x, y: (x @ y.mT).softmax(-1) @ y, **says)
    seen, _ = watched(module, x, y)
    assert_seen(seen, "Lambda", (x @ y.mT).softmax(-1).view(len(x), -1, x.shape[-2], 11))


def with_sink(x: Tensor, first: bool) -> tuple[Tensor, Tensor]:
    """Weights with the column of a sink, and what the others mix."""
    scores, sink = x @ x.mT, torch.full((*x.shape[:2], 1), 0.7)
    weights = torch.cat([sink, scores] if first else [scores, sink], -1).softmax(-1)
    return weights, (weights[..., 1:] if first else weights[..., :-1]) @ x


def mixed_by(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Weights of one text without a batch axis, and what a product with them gives."""
    return lambda x: ((weights := (x[0] @ x[0].T).softmax(1)), product(weights, x[0]))


def implicit(x: Tensor) -> tuple[Tensor, Tensor]:
    """An einsum without an arrow sums over the letters that stand twice."""
    weights = torch.einsum("bij,bkj->bik", x, x).softmax(-1)
    return weights, torch.einsum("...ij,...jk", weights, x)


def logarithms(x: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of weights are weights once they are exponentiated."""
    weights = torch.log_softmax(x @ x.mT, dim=-1).exp()
    return weights, weights @ x


def instances(x: Tensor) -> tuple[Tensor, Tensor]:
    """Three queries, which a parameter makes, for a bag of instances without a batch axis (Ilse et al. 2018)."""
    weights = torch.softmax((x[0] @ nn.Parameter(torch.eye(5, 3))).T, dim=1)
    return weights, torch.mm(weights, x[0])


@pytest.mark.parametrize(
    ("attend", "sink"),
    [
        (mixed_by(lambda w, x: torch.tensordot(w, x, dims=1)), None),
        (mixed_by(lambda w, x: torch.tensordot(w, x, dims=([1], [0]))), None),  # type: ignore[arg-type]
        (mixed_by(lambda w, x: torch.tensordot(w, x, dims=([-1], [-2]))), None),  # type: ignore[arg-type]
        (instances, None),
        (logarithms, None),
        (implicit, None),
        (partial(with_sink, first=True), 0),
        (partial(with_sink, first=False), 7),
    ],
)
def test_rarer_words_for_attention_are_seen_and_a_sink_is_named_where_it_stands(attend: Any, sink: int | None) -> None:
    module, x = Lambda(lambda _, x: attend(x)[1]), torch.rand(1, 7, 5)
    seen, output = watched(module, x)
    weights, expected = attend(x)
    assert torch.equal(output, expected)
    found = seen["Lambda"]
    assert torch.equal(torch.as_tensor(found.weights(head=0)), weights.view(weights.shape[-2:]))
    names = [str(label) for label in found.keys.labels]
    assert [i for i, name in enumerate(names) if name == "(sink)"] == ([] if sink is None else [sink])

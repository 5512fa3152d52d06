"""What `recording(module)` sees of modules that nobody wrote for it, against attention by brute force."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.attention.recording.case import built, doubles
from tests.attention.recording.modules.decoders import NanoGPT
from tests.attention.recording.running import (
    MODES,
    NAMES,
    assert_close,
    assert_recorded,
    by_brute_force,
    has_fast_path,
    nothing_left,
    run,
)
from transformer import recording


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with doubles():
        yield


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


class Broken(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Tensor) -> Tensor:
        self.inner(*inputs)
        raise ValueError("broken on purpose")


@pytest.mark.parametrize(
    "name", ["nanogpt_written_out", "encoder_norm_last_nested_padded_evaluating", "a_module_per_head"]
)
def test_nothing_is_left_after_an_exception(name: str) -> None:
    case = built(name)
    broken = Broken(case.module)
    with nothing_left(broken), pytest.raises(ValueError, match="on purpose"), recording(broken) as seen:
        broken(*case.inputs)
    _, brute = by_brute_force(case)
    assert tuple(seen.sites) == tuple(f"inner.{site}" for site in brute.weights)
    with nothing_left(broken), pytest.raises(KeyboardInterrupt), recording(broken):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "luong_dot", "a_module_per_head"])
def test_threads_never_see_each_other(name: str) -> None:
    cases = [built(name, seed) for seed in range(4)]
    expected = [by_brute_force(case)[1] for case in cases]
    model = cases[0].module
    errors: list[BaseException] = []
    start = threading.Barrier(6)

    def watch(i: int) -> None:
        try:
            with doubles():
                start.wait(20)
                for _ in range(5):
                    with torch.no_grad(), recording(cases[i].module) as seen:
                        cases[i].module(*cases[i].inputs)
                    assert_recorded(cases[i], seen, expected[i])
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            errors.append(error)

    def only_run() -> None:
        start.wait(20)
        with torch.no_grad():
            for _ in range(10):
                model(*cases[0].inputs)

    threads = [threading.Thread(target=watch, args=(i,)) for i in range(4)]
    threads += [threading.Thread(target=only_run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors[0]


def test_one_module_records_for_two_threads_at_once() -> None:
    case = built("nanogpt_written_out")
    others = torch.flip(case.inputs[0], (0, 1))
    found: dict[int, object] = {}
    start = threading.Barrier(2)

    def watch(i: int, ids: Tensor) -> None:
        with torch.no_grad(), recording(case.module) as seen:
            start.wait(20)
            case.module(ids)
            start.wait(20)  # the other's hooks are still there when this thread's go
            if i:
                case.module(ids)
            found[i] = seen

    with doubles(), nothing_left(case.module):
        threads = [threading.Thread(target=watch, args=(i, ids)) for i, ids in enumerate((case.inputs[0], others))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    _, brute = by_brute_force(case)
    assert_recorded(case, found[0], brute)


def test_only_the_module_that_is_recorded_is_seen() -> None:
    case, other = built("nanogpt_fused"), built("nanogpt_written_out")
    with torch.no_grad(), recording(case.module) as seen:
        run(other)
        run(case)
        run(other)
    assert_recorded(case, seen, by_brute_force(case)[1])


def test_a_part_of_a_module_has_paths_from_itself() -> None:
    case = built("nanogpt_written_out")
    _, brute = by_brute_force(case)
    part = case.module.blocks[1]
    with torch.no_grad(), recording(part) as seen:
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
    torch.manual_seed(3)
    plain = module(x)
    torch.manual_seed(3)
    with recording(module) as seen:
        output = module(x)
    assert torch.equal(plain, output)
    q, k, _ = (torch.stack(part.chunk(3, -1), 1) for part in module.c_attn(x).chunk(3, -1))
    scores = q @ k.mT / 8**0.5 + torch.full((7, 7), -torch.inf).triu(1)
    weights = seen["NanoGPT"].all_weights() / scores.softmax(-1)[0].detach().clamp(min=1e-300).numpy()
    past = weights[:, *torch.ones(7, 7).tril().nonzero().T.numpy()]
    ones, dropped = abs(past - 1) < 1e-9, (abs(past) < 1e-9) | (abs(past - 1 / 0.6) < 1e-9)
    assert ones.all() or dropped.all()


@pytest.mark.parametrize("name", ["nanogpt_fused", "rotary", "grouped_queries_fused", "captions_with_a_transformer"])
def test_fused_attention_is_kept_as_its_inputs(name: str) -> None:
    case = built(name)
    with torch.no_grad(), recording(case.module) as seen:
        run(case)
    for site in seen.sites:
        source = seen.map(site).source
        assert source.kept_bytes <= 40_000


def test_a_long_run_keeps_no_table() -> None:
    module, x = NanoGPT(24, 3, True).eval(), torch.randn(2, 1500, 24)
    with torch.no_grad(), recording(module) as seen:
        module(x)
    kept = seen.map("NanoGPT").source.kept_bytes
    assert kept < 4 * x.nbytes
    q, k = (part.unflatten(-1, (3, 8))[1, :, 2] for part in module.c_attn(x).detach().chunk(3, -1)[:2])
    row = torch.exp((k[:1201] @ q[1200]) / 8**0.5)
    found = seen.map("NanoGPT", batch=1).tile(2, slice(1200, 1201), slice(0, 1201))[0]
    assert abs(found - (row / row.sum()).numpy()).max() < 1e-12


def test_a_mapped_function_runs_as_ever() -> None:
    class Mapped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.func.vmap(lambda one: torch.softmax(one @ one.mT, -1) @ one)(x)

    module, x = Mapped(), torch.randn(3, 7, 5)
    plain = module(x)
    with nothing_left(module), recording(module) as seen:
        output = module(x)
    assert torch.equal(plain, output)
    assert seen.sites or seen.notes
    assert all(seen.map(site).all_weights().shape[1:] == (7, 7) for site in seen.sites)


class Deep(nn.Module):
    """Sums of projections, one upon the other, and attention that is written out at their end."""

    def __init__(self, n_sums: int) -> None:
        super().__init__()
        self.project, self.n_sums = nn.Linear(6, 6), n_sums

    def forward(self, x: Tensor) -> Tensor:
        """Attend by what the sums make."""
        h = self.project(x)
        for _ in range(self.n_sums):
            h = h + self.project(h) * 0.001
        mixed: Tensor = (h @ x.mT).softmax(-1) @ x
        return mixed


def test_thousands_of_functions_before_a_softmax_do_not_exhaust_the_stack() -> None:
    module, x = Deep(1_500), torch.randn(2, 5, 6)
    plain = module(x)
    with recording(module) as seen:
        assert torch.equal(module(x), plain)
    assert seen.sites == ("Deep",)
    expected = (module_sums(module, x) @ x.mT).softmax(-1)
    assert torch.allclose(torch.from_numpy(seen.map("Deep", batch=1).all_weights())[0], expected[1], atol=1e-6)


def module_sums(module: Deep, x: Tensor) -> Tensor:
    """What its projections add up to."""
    h = module.project(x)
    for _ in range(module.n_sums):
        h = h + module.project(h) * 0.001
    return h.detach()


def test_two_sentences_are_no_steps_of_one() -> None:
    """A pooling query looks at each once, and both are equally long: only what is mixed tells them apart."""

    class Pooling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(5, 1)

        def forward(self, x: Tensor) -> Tensor:
            return (self.score(x).softmax(1) * x).sum(1)

    module, inputs = Pooling(), [torch.randn(2, 7, 5) for _ in range(2)]
    with torch.no_grad(), recording(module) as seen:
        for x in inputs:
            module(x)
    assert tuple(seen.sites) == ("Pooling#1", "Pooling#2")
    for site, x in zip(seen.sites, inputs, strict=True):
        scores = x @ module.score.weight[0] + module.score.bias
        expected = scores.exp() / scores.exp().sum(1, keepdim=True)
        assert torch.allclose(torch.tensor(seen.map(site, batch=1).weights(0)[0]), expected[1], atol=1e-12)


@pytest.mark.parametrize("dims", [1, ([1], [0]), ([-1], [-2])])
def test_values_are_mixed_by_a_tensordot_over_any_axes(dims: Any) -> None:
    class OneText(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.weights = (x @ x.T).softmax(1)
            return torch.tensordot(self.weights, x, dims=dims)

    module, x = OneText(), torch.rand(7, 5)
    with recording(module) as seen:
        output = module(x)
    assert torch.equal(output, torch.tensordot(module.weights, x, dims=dims))
    assert torch.equal(torch.as_tensor(seen["OneText"].weights(head=0)), module.weights)

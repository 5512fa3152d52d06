"""Softmaxes that are no attention, and attention that cannot be seen: no site, and a note that names the module."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.attention.recording.case import Sizes, built, doubles
from tests.attention.recording.modules.traps import TRAPS, UNSEEN, experts
from tests.attention.recording.running import nothing_left
from transformer import recording


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with doubles():
        yield


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", TRAPS)
def test_a_softmax_that_is_no_attention(name: str, seed: int) -> None:
    module, inputs = TRAPS[name](Sizes(seed))
    torch.manual_seed(1)
    plain = module(*inputs)
    torch.manual_seed(1)
    with nothing_left(module), recording(module) as seen:
        output = module(*inputs)
    assert torch.equal(plain, output)
    assert tuple(seen.sites) == ()
    assert seen.notes


@pytest.mark.parametrize("name", UNSEEN)
def test_attention_that_cannot_be_seen_is_named(name: str) -> None:
    module, inputs = UNSEEN[name](Sizes(5))
    with recording(module) as seen:
        module(*inputs)
    assert tuple(seen.sites) == ()
    assert any("attn" in str(note) or "Lambda" in str(note) for note in seen.notes)
    alone: Any = module.attn
    with recording(alone) as seen:
        alone(*inputs)
    assert tuple(seen.sites) == ()
    assert any(type(alone).__name__ in str(note) for note in seen.notes)


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ x.transpose(1, 2)).softmax(-1) @ x


@pytest.mark.parametrize("made", [torch.jit.script, lambda one: torch.jit.trace(one, torch.ones(2, 7, 5))])
def test_torchscript_is_named_and_what_stands_around_it_is_seen(made: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = made(Scripted())
    around = torch.nn.Sequential(torch.nn.TransformerEncoderLayer(5, 5, 3, batch_first=True), inner).eval()
    x = torch.rand(2, 7, 5)
    for module, sites, name in ((inner, (), type(inner).__name__), (around, ("0.self_attn",), "1")):
        with recording(module) as seen:
            module(x)
        assert tuple(seen.sites) == sites
        assert any(f"in {name}: TorchScript" in str(note) for note in seen.notes)


def test_experts_beside_attention_leave_the_attention_alone() -> None:
    case, sizes = built("nanogpt_written_out"), Sizes(3)

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.mixture = case.module, torch.nn.ModuleDict(experts(sizes))
            self.enter = torch.nn.Linear(case.module.lm_head.out_features, sizes.d)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.enter(self.attention(ids))
            several: Any = self.mixture["experts"]
            outputs = torch.stack([expert(x) for expert in several], dim=-2)
            return (self.mixture["gate"](x).softmax(-1).unsqueeze(-1) * outputs).sum(-2)

    module = Both().eval()
    with recording(module) as seen:
        module(*case.inputs)
    assert tuple(seen.sites) == ("attention.blocks.0.attn", "attention.blocks.1.attn")

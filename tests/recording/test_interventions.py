"""Interventions inside `recording(module)`, on modules that the project does not own, against brute force."""

from collections.abc import Iterator

import pytest
import torch

from tests.recording.case import Brute, Case, built, doubles
from tests.recording.running import (
    NAMES,
    assert_close,
    assert_recorded,
    by_brute_force,
    changed_by,
    nothing_left,
    run,
)
from transformer import InputError, Intervention, intervening, recording

CHANGED = tuple(name for name in NAMES if built(name).changeable)
ACTIONS = ("zero", "knock_out", "cut", "uniform", "temperature", "force", "mean")
PAIRS = [(name, ACTIONS[(i * 3 + j) % len(ACTIONS)]) for i, name in enumerate(CHANGED) for j in range(2)]
"""Two actions for each module, so that each action meets a fourth of them."""


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with doubles():
        yield


def intervention(case: Case, brute: Brute, action: str) -> Intervention:
    """One that fits the last site of a case: one head and one row, or all where there is but one."""
    site = list(brute.weights)[-1]
    weights, scores, values = brute.weights[site], brute.scores[site], brute.values[site]
    heads = 1 if weights.shape[1] > 1 and not case.flat else None
    row = 1 if weights.shape[2] > 1 else 0
    given: dict[str, object] = {"heads": heads}
    seen = (scores[:, :, min(row, scores.shape[2] - 1)] > -torch.inf).all(0).all(0).nonzero().flatten().tolist()
    if action == "mean":
        given["value"] = tuple(range(1, values.shape[-1] + 1))
    elif action == "temperature":
        given["value"] = 1.7
    elif action == "knock_out":
        given["keys"] = (0, 2)
    elif action == "cut":
        given |= {"keys": seen[0], "queries": row}
    elif action == "uniform":
        given["queries"] = row
    elif action == "force":
        given |= {"queries": row, "keys": tuple(seen[:2]), "value": (0.3, 0.7) if len(seen) > 1 else (1.0,)}
    return Intervention(site, action, **given)


@pytest.mark.parametrize(("name", "action"), PAIRS)
def test_a_changed_run_is_that_of_brute_force(name: str, action: str) -> None:
    case = built(name)
    plain, before = by_brute_force(case)
    change = intervention(case, before, action)
    expected, brute = by_brute_force(case, changed_by(change))
    with torch.no_grad(), nothing_left(case.module), recording(case.module) as seen, intervening([change]):
        output = run(case)[:1]  # weights that a module gives away besides are its own affair
    assert_close(case, output, expected[:1], 1e-11)
    assert_recorded(case, seen, brute)
    assert seen.map(change.site).interventions == (change,)
    moved = [*zip(plain, expected, strict=True), (before.weights[change.site], brute.weights[change.site])]
    assert any(not torch.equal(a, b) for a, b in moved)
    with torch.no_grad():
        assert_close(case, run(case), plain, 1e-12)


def test_two_interventions_at_two_sites_of_one_run() -> None:
    case = built("a_module_per_head")
    changes = (
        Intervention("blocks.0.attn.heads", "zero", heads=0),
        Intervention("blocks.1.attn.heads", "knock_out", keys=1),
    )
    expected, brute = by_brute_force(case, changed_by(*changes))
    with torch.no_grad(), recording(case.module) as seen, intervening(changes):
        output = run(case)
    assert_close(case, output, expected, 1e-11)
    assert_recorded(case, seen, brute)


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out"])
def test_a_site_that_is_not_there_is_refused(name: str) -> None:
    case = built(name)
    with (
        pytest.raises(InputError),
        torch.no_grad(),
        recording(case.module),
        intervening([Intervention("nowhere", "zero")]),
    ):
        run(case)


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "a_module_per_head"])
def test_a_head_that_is_not_there_is_refused(name: str) -> None:
    case = built(name)
    _, brute = by_brute_force(case)
    change = Intervention(next(iter(brute.weights)), "zero", heads=9)
    with pytest.raises(InputError), torch.no_grad(), recording(case.module), intervening([change]):
        run(case)


def test_slopes_pass_a_changed_attention() -> None:
    case = built("nanogpt_written_out")
    change = Intervention("blocks.1.attn", "zero")
    with recording(case.module), intervening([change]):
        case.module(*case.inputs).sum().backward()
    weight = case.module.blocks[1].attn.c_attn.weight
    assert weight.grad is None or float(weight.grad.abs().max()) == 0.0
    assert float(case.module.wte.weight.grad.abs().max()) > 0

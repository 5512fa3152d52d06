"""Interventions inside `recording(module)`, on modules that the project does not own, against brute force."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from heedmap import InputError, Intervention, Site, intervening, recording
from tests.attention.recording.case import Brute, Case, assert_close, built, by_brute_force, changed_run, recorded, run
from tests.attention.recording.modules import NAMES

pytestmark = pytest.mark.usefixtures("in_doubles")

CHANGED = tuple(name for name in NAMES if built(name).changeable)
ACTIONS = ("zero", "knock_out", "cut", "uniform", "temperature", "force", "mean")
PAIRS = [(name, ACTIONS[(i * 3 + j) % len(ACTIONS)]) for i, name in enumerate(CHANGED) for j in range(2)]
"""Two actions for each module, so that each action meets a fourth of them."""
PAIRS += [("bahdanau_by_bmm", "cut"), ("weights_from_the_state_alone", "uniform")]  # of a row that a loop writes later


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
    expected, brute = changed_run(case, change)
    moved = [*zip(plain, expected, strict=True), (before.weights[change.site], brute.weights[change.site])]
    assert any(not torch.equal(a, b) for a, b in moved)
    with torch.no_grad():
        assert_close(case, run(case), plain, 1e-12)


def test_two_interventions_at_two_sites_of_one_run() -> None:
    case = built("a_module_per_head")
    zero, knock_out = (f"blocks.{i}.attn.heads" for i in range(2))
    changed_run(case, Intervention(zero, "zero", heads=0), Intervention(knock_out, "knock_out", keys=1))


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "a_module_per_head"])
def test_a_site_or_a_head_that_is_not_there_is_refused(name: str) -> None:
    case = built(name)
    site = next(iter(by_brute_force(case)[1].weights))
    for change in (Intervention("nowhere", "zero"), Intervention(site, "zero", heads=9)):
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


@pytest.mark.parametrize("name", ["nanogpt_fused", "nanogpt_written_out", "a_module_per_head", "multihead_attention"])
def test_heads_of_another_run_are_put_in(name: str) -> None:
    case = built(name)
    other = replace(case, inputs=tuple(_turned(one) for one in case.inputs))
    site = list(by_brute_force(case)[1].weights)[-1]
    with torch.no_grad(), recording(case.module, outputs=True) as seen:
        run(other)
    donor = seen.donor("other")
    with torch.no_grad(), recording(case.module) as lent:
        run(other)
    given = torch.from_numpy(recorded(lent, site, len(case.inputs[0])))
    mean = tuple(donor.outputs[Site(site)][:, 1].mean((0, 1)).tolist())

    def weights_of_donor(at: str, _: Tensor, weights: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        weights = weights.clone()
        if at == site:
            weights[:, 1] = given[:, 1]
        return weights, weights @ values

    patched = Intervention(site, "patch_weights", heads=1, value=donor)
    averaged = Intervention(site, "mean", heads=1, value=mean)
    changed_run(case, patched, edit=weights_of_donor)
    changed_run(case, averaged)


def _turned(one: object) -> object:
    """The same sizes, other numbers: positions in the other order."""
    return one.flip(1) if isinstance(one, Tensor) else one

"""Running a case plainly, recorded and by brute force."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.attention.recording.case import CASES, Brute, Case, Edit, softmax
from tests.attention.recording.modules import (
    decoders,
    encoders,
    forms,
    loops,
    pooling,
    recurrent,
    scores,
    torch_layers,
    vision,
)
from transformer import Intervention

MODULES = (decoders, encoders, forms, loops, pooling, recurrent, scores, torch_layers, vision)
NAMES = tuple(CASES)
MODES = {"gradients": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


def run(case: Case, module: nn.Module | None = None) -> list[Tensor]:
    """What the module gives on, as a list of tensors; random numbers are the same each time."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        warnings.filterwarnings("ignore", "Support for mismatched")
        return tensors((case.module if module is None else module)(*case.inputs))


def by_brute_force(case: Case, edit: Edit | None = None) -> tuple[list[Tensor], Brute]:
    """What the reference gives on, and what it mixed."""
    brute = Brute(edit)
    torch.manual_seed(1)
    with torch.no_grad():
        return tensors(case.reference(brute)), brute


def tensors(output: Any) -> list[Tensor]:
    """The tensors of an output, one after the other."""
    parts = output if isinstance(output, tuple | list) else (output,)
    return [part.detach() for part in parts if part is not None]


def assert_close(case: Case, found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Equal but for rounding and for rows of padding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        real: Any = ... if case.padded is None else ~case.padded
        assert one.shape == other.shape
        if one.numel():
            assert float((one[real] - other[real]).abs().max()) <= tolerance


def has_fast_path(case: Case) -> bool:
    """Whether PyTorch may run its fused layers here, which hide everything: outputs are then equal but for rounding."""
    slopes = torch.is_grad_enabled() and any(one.requires_grad for one in case.module.parameters())
    theirs = nn.MultiheadAttention | nn.TransformerEncoderLayer
    return not case.module.training and not slopes and any(isinstance(one, theirs) for one in case.module.modules())


def recorded(seen: Any, site: str, count: int) -> np.ndarray:
    """The weights of all batch elements (batch, head, query, key)."""
    return np.stack([seen.map(site, batch=i).all_weights() for i in range(count)])


def assert_recorded(case: Case, seen: Any, brute: Brute, tolerance: float | None = None) -> None:
    """Every site, in order, with every weight."""
    assert tuple(seen.sites) == tuple(brute.weights)
    for site, weights in brute.weights.items():
        expected = weights.numpy()
        if case.flat and len(seen.map(site).all_weights()) == 1:  # heads are batch elements
            many = expected.swapaxes(0, 1) if case.flat == "heads" else expected
            expected = many.reshape(-1, 1, *many.shape[2:])
        found = recorded(seen, site, len(expected))
        assert found.shape == expected.shape, site
        assert np.abs(found - expected).max() <= (tolerance or case.tolerance), site


def hooks_left(module: nn.Module) -> list[str]:
    """Names of submodules that have a hook."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [name for name, one in module.named_modules() if any(getattr(one, kind) for kind in kinds)]


@contextmanager
def nothing_left(module: nn.Module) -> Iterator[None]:
    """Functions, hooks, attributes and modes are afterwards what they were before."""
    parts = tuple(module.named_modules())

    def state() -> tuple[Any, ...]:
        functions = (F.softmax, torch.softmax, Tensor.softmax, F.scaled_dot_product_attention, torch.bmm, torch.matmul)
        fields = {name: [key for key in one.__dict__ if key[0] == "_" or key == "forward"] for name, one in parts}
        fast = torch.backends.mha.get_fastpath_enabled()
        return functions, fields, fast, torch._C._len_torch_function_stack(), module.training

    before = state()
    try:
        yield
    finally:
        assert hooks_left(module) == []
        assert state() == before


def changed_by(*interventions: Intervention) -> Edit:
    """What interventions make of one attention, cell by cell, from their definitions."""

    def edit(site: str, scores: Tensor, weights: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        here = [one for one in interventions if one.site == site]
        weights, scores = weights.clone(), scores.clone()
        for one in here:
            heads = range(scores.shape[1]) if one.heads is None else one.heads
            rows = [t for t in range(scores.shape[2]) if one.queries is None or first + t in one.queries]
            for h in heads:
                for t in rows:
                    _change_row(one, scores[:, h, t], weights[:, h, t])
        mixed = weights @ values
        for one in here:
            heads = range(scores.shape[1]) if one.heads is None else one.heads
            rows = [t for t in range(scores.shape[2]) if one.queries is None or first + t in one.queries]
            if one.action in {"zero", "mean"}:
                new = torch.tensor(one.value) if one.action == "mean" else torch.zeros(values.shape[-1])
                for h in heads:
                    mixed[:, h, rows] = new
        return weights, mixed

    return edit


def _change_row(one: Intervention, scores: Tensor, weights: Tensor) -> None:
    """Change one row of every batch element in place."""
    keys = [k for k in range(scores.shape[1]) if one.keys is None or k in one.keys]
    if one.action == "temperature":
        weights[:] = softmax(scores / one.value)
    elif one.action == "knock_out":
        scores[:, keys] = -torch.inf
        weights[:] = softmax(scores).nan_to_num(0.0)
    elif one.action == "cut":
        weights[:, keys] = 0.0
    elif one.action == "uniform":
        allowed = torch.zeros_like(weights)
        allowed[:, keys] = (scores[:, keys] > -torch.inf).double()
        weights[:] = allowed / allowed.sum(1, keepdim=True).clamp(min=1)
    elif one.action == "force":
        weights[:] = 0.0
        weights[:, keys] = torch.tensor(one.value)

"""Looking into files without running them: the numbers of each tensor, and which are one matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heedmap.checkpoint import inspect as module
from heedmap.checkpoint.inspect import inspect, inspect_contents, summary
from heedmap.safe.contents import Contents
from tests.checkpoint.references import LAYOUTS, REFERENCE, reference_file


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_reference_can_be_looked_into(name):
    found = inspect(REFERENCE / name)
    files = [*(REFERENCE / name).glob("model.*"), *(REFERENCE / name).glob("*coder.pt")]
    assert found.file_bytes == sum(file.stat().st_size for file in files)
    lines = found.text.splitlines()
    assert len(lines) == 1 + len(found.tied) + len(found.tensors)
    assert lines[-1].startswith(f"{found.tensors[-1].name}  ")


def test_ties_are_found_and_counted_once():
    found = inspect(reference_file("jadore-emb"))
    shared = {"encoder.src_word_emb.weight", "decoder.trg_word_emb.weight", "trg_word_prj.weight"}
    tables = {"encoder.position_enc.pos_table", "decoder.position_enc.pos_table"}
    assert all(names in [set(group) for group in found.tied] for names in (shared, tables))
    assert found.n_parameters == sum(t.numel for t in found.tensors) - 2 * 35 * 18 - 200 * 18
    base = torch.arange(77.0)
    tensors = {
        "a": base.view(7, 11), "zeros": torch.zeros(9), "b": base.clone().view(7, 11), "zeros again": torch.zeros(9),
        "turned": base.view(11, 7).T.contiguous(), "c": base.view(7, 11), "other": base.view(7, 11) + 1,
        "double": base.double().view(7, 11), "turned again": base.view(11, 7).T, "one": base[:1], "one more": base[:1],
    }  # fmt: skip
    assert inspect_contents(Contents("x", tensors), 7).tied == (("a", "b", "c"), ("turned", "turned again"))


@given(st.integers(0, 99), st.integers(1, 97))
def test_statistics_are_numpy_s(seed, size):
    numbers = np.random.default_rng(seed).normal(3, 5, size)
    found = summary("x", torch.from_numpy(numbers))
    assert found.norm == pytest.approx(np.linalg.norm(numbers))
    assert found.mean == pytest.approx(numbers.mean())
    assert found.deviation == pytest.approx(numbers.std())
    assert (found.smallest, found.largest) == (numbers.min(), numbers.max())


@pytest.mark.parametrize(
    ("numbers", "flags"),
    [
        ([1.0, 2.0, 4.0], ()),
        ([0.0, 0.0, 0.0], ("all numbers alike",)),
        ([1.0, float("nan"), float("inf")], ("2 NaN or infinite",)),
        ([float("nan")] * 3, ("3 NaN or infinite",)),
        ([7.0], ()),
        ([], ()),
        ([-1e308, 1e308], ()),
    ],
)
def test_dead_and_broken_tensors_are_flagged(numbers, flags):
    found = summary("x", torch.tensor(numbers, dtype=torch.float64))
    assert found.flags == flags
    assert np.isfinite(found.norm) or numbers == [-1e308, 1e308]


def _views() -> dict[str, torch.Tensor]:
    """Tensors in every kind of memory, larger than the slices that the test below cuts."""
    base = torch.from_numpy(np.random.default_rng(3).normal(3, 5, (13, 29, 17)))
    base[3, 5, 7], base[11, 2, 3] = float("nan"), float("inf")
    return {
        "whole": base,
        "turned": base.permute(2, 0, 1),
        "steps": base[1::3, :, ::2],
        "repeated": base[:1].expand(5, 29, 17),
        "whole numbers": torch.arange(997),
        "alike": torch.ones(997),
        "alike, but for the last": torch.cat([torch.ones(996), torch.zeros(1)]),
        "nothing": torch.zeros(0, 7),
    }


@pytest.mark.parametrize("name", _views())
@pytest.mark.parametrize("size", [1, 7, 500])
def test_slices_make_the_statistics_of_the_whole(name, size, monkeypatch):
    tensor = _views()[name]
    whole = summary(name, tensor)
    monkeypatch.setattr(module, "SLICE", size)
    pieces = list(module.slices(tensor))
    assert all(piece.dim() == 1 and 0 < len(piece) <= size for piece in pieces)
    assert torch.equal(torch.cat([*pieces, tensor.new_empty(0)]).nan_to_num(), tensor.flatten().nan_to_num())
    found = summary(name, tensor)
    for number in ("norm", "mean", "deviation", "smallest", "largest"):
        assert getattr(found, number) == pytest.approx(getattr(whole, number)), number
    assert (found.n_not_finite, found.dead, found.digest) == (whole.n_not_finite, whole.dead, whole.digest)


def test_a_large_view_is_not_copied_as_a_whole(monkeypatch):
    """10 GB as they are counted, one block of 4 MB in truth."""
    monkeypatch.setattr(module, "SLICE", 2**20)
    view = torch.ones(2**20).expand(2500, 2**20)
    assert next(iter(module.slices(view))).data_ptr() == view.data_ptr()


class _EnoughError(Exception):
    """What a reader who leaves raises."""


@pytest.mark.parametrize("calls", [1, 2, 40, 60])
def test_the_work_tells_how_far_it_is_and_ends_between_two_slices(calls, monkeypatch):
    monkeypatch.setattr(module, "SLICE", 50)
    shares = list[float]()

    def leave(share: float) -> None:
        shares.append(share)
        if len(shares) == calls:
            raise _EnoughError

    contents = Contents("x", {name: torch.arange(997.0) for name in "abc"})
    with pytest.raises(_EnoughError):
        inspect_contents(contents, 7, leave)
    assert shares == sorted(shares)
    inspect_contents(contents, 7, shares.append)
    assert shares[-1] == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool"])
def test_every_kind_of_number_has_a_summary(dtype):
    found = summary("x", torch.tensor([0, 1, 1]).to(getattr(torch, dtype)))
    assert found.dtype == dtype
    assert found.mean == pytest.approx(2 / 3, rel=1e-2)

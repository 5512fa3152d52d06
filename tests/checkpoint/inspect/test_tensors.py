"""Looking into files without running them: the tree, the numbers and ties."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoint.references import LAYOUTS, REFERENCE, reference_file
from transformer.checkpoint.inspect import statistics
from transformer.checkpoint.inspect.tensors import inspect, inspect_contents, summary
from transformer.checkpoint.inspect.ties import tied_groups
from transformer.safe.contents import Contents


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_reference_can_be_looked_into(name):
    found = inspect(REFERENCE / name)
    files = [*(REFERENCE / name).glob("model.*"), *(REFERENCE / name).glob("*coder.pt")]
    assert found.file_bytes == sum(file.stat().st_size for file in files)
    assert len(found.text.splitlines()) > len(found.tensors)


def test_ties_are_found_and_counted_once():
    found = inspect(reference_file("jadore-emb"))
    shared = {"encoder.src_word_emb.weight", "decoder.trg_word_emb.weight", "trg_word_prj.weight"}
    assert shared in [set(group) for group in found.tied]
    tables = {"encoder.position_enc.pos_table", "decoder.position_enc.pos_table"}
    assert tables in [set(group) for group in found.tied]
    assert found.n_parameters == sum(t.numel for t in found.tensors) - 2 * 35 * 18 - 200 * 18


@given(st.integers(0, 99), st.integers(1, 97))
def test_statistics_are_numpy_s(seed, size):
    numbers = np.random.default_rng(seed).normal(3, 5, size)
    found = summary("x", torch.from_numpy(numbers))
    assert found.norm == pytest.approx(np.linalg.norm(numbers))
    assert found.mean == pytest.approx(numbers.mean())
    assert found.deviation == pytest.approx(numbers.std())
    assert (found.smallest, found.largest) == (numbers.min(), numbers.max())
    counts, edges = np.histogram(numbers, bins=len(found.counts))
    assert (found.counts == counts).all()
    np.testing.assert_allclose(found.edges, edges)


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


@pytest.mark.parametrize("numbers", [[1.0, 1.0 + 2**-52], [5e-324, 1e-323], [1e300, 1e300 * (1 + 2**-50)]])
def test_numbers_too_close_for_a_histogram_have_none(numbers):
    found = summary("x", torch.tensor(numbers, dtype=torch.float64))
    assert not found.counts.any()
    assert (found.smallest, found.largest) == tuple(numbers)


def _views() -> dict[str, torch.Tensor]:
    """Tensors in every kind of memory, larger than the slices that the tests below cut."""
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
    monkeypatch.setattr(statistics, "SLICE", size)
    pieces = list(statistics.slices(tensor))
    assert all(piece.dim() == 1 and 0 < len(piece) <= size for piece in pieces)
    assert torch.equal(torch.cat([*pieces, tensor.new_empty(0)]).nan_to_num(), tensor.flatten().nan_to_num())
    found = summary(name, tensor)
    for number in ("norm", "mean", "deviation", "smallest", "largest"):
        assert getattr(found, number) == pytest.approx(getattr(whole, number)), number
    assert (found.n_not_finite, found.dead) == (whole.n_not_finite, whole.dead)
    assert (found.counts == whole.counts).all()
    finite = tensor.double()[tensor.double().isfinite()].numpy()
    assert (found.counts == np.histogram(finite, bins=len(found.counts))[0]).all()


def test_a_large_view_is_not_copied_as_a_whole(monkeypatch):
    """10 GB as they are counted, one block of 4 MB in truth."""
    monkeypatch.setattr(statistics, "SLICE", 2**20)
    view = torch.ones(2**20).expand(2500, 2**20)
    first = next(iter(statistics.slices(view)))
    assert first.data_ptr() == view.data_ptr()


class _EnoughError(Exception):
    """What a reader who leaves raises."""


@pytest.mark.parametrize("calls", [1, 2, 5, 40, 60])
def test_the_work_ends_between_two_slices(calls, monkeypatch):
    monkeypatch.setattr(statistics, "SLICE", 50)
    left = iter(range(calls - 1))

    def leave() -> None:
        if next(left, None) is None:
            raise _EnoughError

    made = {name: torch.arange(997.0) + (1 if name == "c" else 0) for name in "abc"}
    with pytest.raises(_EnoughError):
        inspect_contents(Contents("x", made), 7, leave)


@pytest.mark.parametrize("name", [".".join("a" * 500), "." * 500, "", "a..b", ".a"])
def test_no_name_is_nested_too_deep_for_the_tree(name):
    lines = inspect_contents(Contents("x", {name: torch.ones(3)}), 7).text.splitlines()[1:]
    parts = name.split(".")
    assert lines[:-1] == ["(checkpoint)  3", *(f"{'  ' * (i + 1)}{part}  3" for i, part in enumerate(parts[:-1]))]
    assert lines[-1].startswith(f"{'  ' * len(parts)}{parts[-1]}  3  float32")


def test_the_tree_is_that_of_the_names_in_their_order():
    names = ["b.x.w", "a.w", "b.w", "b.x.v", "w", "a.x.y.w", "b.y.w"]
    sizes = {name: size for size, name in enumerate(names, 2)}
    found = inspect_contents(Contents("x", {name: torch.ones(size) for name, size in sizes.items()}), 7)
    expected = [
        "(checkpoint)  35", "  w  6", "  b  19", "    w  4", "    x  7", "      w  2", "      v  5", "    y  8",
        "      w  8", "  a  10", "    w  3", "    x  7", "      y  7", "        w  7",
    ]  # fmt: skip
    assert [line.partition("  float32")[0] for line in found.lines()] == expected


def test_one_memory_is_tied_without_a_look_at_its_numbers(monkeypatch):
    monkeypatch.setattr(hashlib, "sha256", None)
    base = torch.arange(77.0)
    tensors = {"a": base, "part": base[3:], "b": base.view(77), "turned": base.view(7, 11), "part again": base[3:]}
    assert tied_groups(tensors) == (("a", "b"), ("part", "part again"))


def test_one_content_in_two_memories_is_tied():
    base = torch.arange(77.0)
    tensors = {
        "a": base.view(7, 11), "zeros": torch.zeros(9), "b": base.clone().view(7, 11), "zeros again": torch.zeros(9),
        "turned": base.view(11, 7).T.contiguous(), "c": base.view(7, 11), "other": base.view(7, 11) + 1,
        "double": base.double().view(7, 11), "turned again": base.view(11, 7).T, "one": base[:1], "one more": base[:1],
    }  # fmt: skip
    assert tied_groups(tensors) == (("a", "b", "c"), ("turned", "turned again"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_every_kind_of_number_has_a_summary(dtype):
    found = summary("x", torch.tensor([0, 1, 1]).to(dtype))
    assert found.mean == pytest.approx(2 / 3, rel=1e-2)
    assert found.dtype == str(dtype).removeprefix("torch.")

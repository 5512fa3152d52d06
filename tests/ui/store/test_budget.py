"""Kept results are measured, and bounded by bytes: what was used longest ago goes first, whoever it belongs to."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transformer.errors import CheckpointError
from ui.store import cache, machine, settings, shipped, store
from ui.store.budget import EACH, MODELS, RESULTS, Budget
from ui.store.cache import Store, cached_result
from ui.store.file_versions import one_look, stamp_of_folder
from ui.store.refs import CheckpointRef
from ui.store.sizes import size_of
from ui.store.upload_quota import UploadLimits

BLOCK = 64 * 1024
AROUND = 8192
"""What Python's own objects around a block, and its last page, take at most."""


def block(n: int = 1) -> torch.Tensor:
    return torch.zeros(n * BLOCK, dtype=torch.uint8)


def test_a_value_is_measured_by_its_buffers_each_once() -> None:
    tensor, array = block(3), np.zeros((7, BLOCK), dtype=np.uint8)
    value: dict[str, Any] = {"whole": tensor, "view": [tensor[5:9], tensor.view(3, BLOCK)[1]], "array": array[2:3].T}
    value["itself"] = value
    value["objects"] = SimpleNamespace(text="x" * BLOCK, rows=np.array([b"y" * BLOCK, None], dtype=object))
    value["work"] = lambda: tensor
    assert 0 <= size_of(value).n_bytes - (3 + 7 + 1 + 1) * BLOCK < AROUND
    assert 0 <= size_of(iter([block(2)])).n_bytes - 2 * BLOCK < AROUND
    assert size_of(size_of).n_bytes + size_of(torch).n_bytes + size_of(Store).n_bytes < AROUND  # the program's own


def budget_of(blocks: float, **kwargs: Any) -> Budget:
    return Budget(lambda: int(blocks * BLOCK), **kwargs)


def test_what_was_used_longest_ago_goes_first_whichever_store_holds_it() -> None:
    budget = budget_of(5.5)
    first, second = Store(budget=budget), Store(budget=budget)
    first.get("a", lambda: block(2))
    second.get("b", lambda: block(2))
    first.get("a", lambda: pytest.fail("it is kept"))
    first.get("c", lambda: block(1))
    assert ("a" in first, "b" in second, "c" in first) == (True, True, True)
    second.get("d", lambda: block(1))
    assert ("a" in first, "b" in second, "c" in first, "d" in second) == (True, False, True, True)
    assert 0 < budget.held - 4 * BLOCK < 3 * (EACH + AROUND)
    first.get("many", lambda: [block(1) for _ in range(5)])
    assert (len(first), len(second)) == (1, 0)


def test_what_alone_is_larger_than_the_budget_is_not_kept_and_pushes_nothing_out() -> None:
    budget = budget_of(3.5)
    kept = Store(budget=budget)
    kept.get("small", lambda: block(3))
    assert kept.get("large", lambda: block(4)).numel() == 4 * BLOCK
    assert ("small" in kept, "large" in kept) == (True, False)
    assert budget.held < 3 * BLOCK + AROUND


def test_a_model_in_use_stays_whatever_its_size() -> None:
    models = Store(budget=budget_of(3.5, newest_stays=True))
    models.get("small", lambda: block(2))
    models.get("large", lambda: block(9))
    assert ("small" in models, "large" in models) == (False, True)
    models.get("next", lambda: block(1))
    assert ("large" in models, "next" in models) == (False, True)


def test_what_two_results_share_counts_once_until_the_last_of_them_goes() -> None:
    budget, shared = budget_of(100), block(7)
    kept = Store(budget=budget)
    kept.get("a", lambda: (shared, block(1)))
    kept.get("b", lambda: [shared[4:]])
    assert 0 < budget.held - 8 * BLOCK < 3 * AROUND
    kept.drop("a")
    assert 0 < budget.held - 7 * BLOCK < 3 * AROUND
    kept.clear()
    assert budget.held == 0


def test_work_on_its_way_counts_but_is_not_pushed_out() -> None:
    budget = budget_of(4.5)
    working, kept = Store(1, budget, pinned=True), Store(budget=budget)
    working.get("job", lambda: block(3))
    kept.get("a", lambda: block(1))
    kept.get("b", lambda: block(1))
    assert ("job" in working, "a" in kept, "b" in kept) == (True, False, True)
    working.get("another job", lambda: block(1))  # one at a time
    assert "job" not in working


def test_with_a_session_go_the_bytes_of_its_results() -> None:
    budget = budget_of(100)
    mine, all_of_us = Store(budget=budget), Store(budget=budget)
    mine.get("mine", lambda: block(5))
    all_of_us.get("ours", lambda: block(1))
    del mine
    gc.collect()
    assert 0 < budget.held - BLOCK < AROUND


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cache.clear()
    monkeypatch.setenv("HEEDMAP_CACHE_MB", "1")
    yield
    cache.clear()


@pytest.mark.usefixtures("small")
def test_all_results_together_stay_below_the_bound_that_is_set() -> None:
    for i in range(40):
        cached_result(f"kind {i % 3}", i, lambda: block(1))
        assert RESULTS.held <= 2**20
    kept = sum(len(store) for store in cache.shared().values())
    assert 12 <= kept <= 16
    assert cached_result("kind 0", 39, lambda: None) is not None


def test_a_bound_is_a_number_of_megabytes() -> None:
    assert settings.n_bytes({}, "HEEDMAP_CACHE_MB") == 1024 * 2**20
    assert settings.n_bytes({"HEEDMAP_MODELS_MB": "7"}, "HEEDMAP_MODELS_MB") == 7 * 2**20
    assert UploadLimits.of({}) == UploadLimits(200 * 2**20, 400 * 2**20, 2048 * 2**20)
    for wrong in ("", "0", "-1", "1.5", "many", "٣", "1000000"):
        with pytest.raises(CheckpointError, match="no number of megabytes"):
            settings.n_bytes({"HEEDMAP_CACHE_MB": wrong}, "HEEDMAP_CACHE_MB")


def test_whatever_changes_beside_the_weights_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "name"
    folder.mkdir()
    for name in ("model.safetensors", "config.json", "tokenizer.model"):
        (folder / name).write_bytes(name.encode())
    monkeypatch.setattr(shipped, "CHECKPOINTS", tmp_path)
    seen = [store.revision("name")]
    for name in ("config.json", "tokenizer.model", "familiarity.json"):
        (folder / name).write_bytes(b"another")
        seen.append(store.revision("name"))
    config = (folder / "config.json").stat()
    (tmp_path / "copied").write_bytes(b"ANOTHER")
    os.utime(tmp_path / "copied", ns=(config.st_atime_ns, config.st_mtime_ns))
    (tmp_path / "copied").replace(folder / "config.json")  # of the same time and the same size
    seen.append(store.revision("name"))
    assert len(set(seen)) == len(seen)
    assert store.revision("name") == seen[-1]
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError):
        store.revision("name")


def test_one_run_sees_one_state_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"one")
    with one_look():
        first = stamp_of_folder(tmp_path)
        (tmp_path / "config.json").write_bytes(b"another")
        assert stamp_of_folder(tmp_path) == first
    assert stamp_of_folder(tmp_path) != first


def test_models_and_results_have_a_budget_each() -> None:
    name = str(CheckpointRef.parse("splice-junctions"))
    cache.clear()
    before = MODELS.held
    model = store.checkpoint(name)
    weights = sum(one.numel() * one.element_size() for one in model.model.parameters())
    assert MODELS.held - before >= weights
    assert RESULTS.held < weights


def test_results_go_where_the_whole_process_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed, excess, now = list[None](), [0], [100.0]
    monkeypatch.setattr("ui.store.budget.trim", lambda: trimmed.append(None))
    monkeypatch.setattr("ui.store.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    budget = budget_of(8.5, excess=lambda: excess[0])
    kept = Store(budget=budget)

    def keep(*names: str) -> list[str]:
        for name in names:
            kept.get(name, lambda: block(1))
        return [name for name in "abcdefghi" if name in kept]

    assert keep(*"abcdef") == list("abcdef")
    excess[0] = 3 * BLOCK
    assert keep("g") == list("abcdefg"), "it has just looked"
    now[0] += 6
    assert keep("h") == list("defgh"), "eight, less three"
    assert len(trimmed) == 1
    now[0] += 6
    excess[0] = 10**9
    assert keep("i") == list("hi"), "a quarter stays"
    now[0] += 6
    excess[0] = -(10**9)
    assert keep("a") == list("ahi")
    assert len(trimmed) == 2


def test_the_process_is_measured() -> None:
    before = machine.resident()
    grown = np.ones(50_000_000, dtype=np.uint8)
    assert 40_000_000 < machine.resident() - before < 80_000_000
    assert grown[0]

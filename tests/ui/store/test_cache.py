"""What is kept, for whom, how often it is computed, and how much of it: what was used longest ago goes first."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from heedmap.checkpoint.ours.folder import save_folder
from tests.checkpoint.references import REFERENCE
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import brought, opened, pressed, ran
from tests.pages.tiny import save_tiny
from tests.waiting import PATIENCE
from ui.lessons.masks import Example
from ui.store import cache, session_resources, store, uploads
from ui.store.cache import EACH, MODELS, RESULTS, ByteBudget, Store, cached_result, is_private
from ui.store.refs import CheckpointRef, Revision
from ui.store.sizes import size_of

UPLOAD, SHIPPED = CheckpointRef.parse("upload/secret"), CheckpointRef.parse("shipped")
LETTERS = "ACGTTGCAAGTGTCAGTTGACGTACC"
KEYS: list[Any] = [
    (Revision(UPLOAD, 7), "text"),
    (Revision(SHIPPED, 1), UPLOAD, 7),
    ((Revision(SHIPPED, 1),), (Revision(UPLOAD, 2),)),
    ("shipped", frozenset({Revision(UPLOAD, 7)})),
    ("shipped", ("target", ((UPLOAD,),))),
    (Example(("a",), ("b",), Revision(UPLOAD, 3)), "right"),
]
"""Keys in which an upload is named at one place or another."""

FOR_ALL = ("upload/typed", 1, "uploads are not meant")
"""A key that names no upload."""

BLOCK = 64 * 1024
AROUND = 8192
"""What Python's own objects around a block, and its last page, take at most."""


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def session(script: Callable[..., None], **kwargs: Any) -> AppTest:
    """Another session each time, after its first run."""
    page = AppTest.from_function(script, default_timeout=60, kwargs=kwargs).run()
    assert not page.exception
    return page


def shared_keys(part: str = "") -> list[Any]:
    """Keys of what all sessions share that hold a text or an upload."""
    keys = [key for store in cache.SHARED.values() for key in store.values]
    return [key for key in keys if (part and part in str(key)) or is_private(key)]


@pytest.mark.parametrize("key", [*KEYS, FOR_ALL])
def test_what_holds_an_upload_is_of_its_session_alone_and_all_else_of_all(key: tuple[Any, ...]) -> None:
    def script(key: object, mark: str) -> None:
        import streamlit as st

        from ui.store.cache import cached_result

        st.text(cached_result("test", key, lambda: mark))

    mine = session(script, key=key, mark="mine")
    assert session(script, key=key, mark="theirs").text[0].value == ("mine" if key is FOR_ALL else "theirs")
    assert mine.run().text[0].value == "mine"
    assert not shared_keys()
    if key is not FOR_ALL:
        shared = Store(4, shared=True)
        with pytest.raises(ValueError, match="belong to its session"):
            shared.get(key, lambda: "anything")
        assert not shared.values


@pytest.mark.parametrize(("asked", "kept"), [({}, 32), ({"entries": 3}, 3)])
def test_a_session_keeps_the_last_few_results_of_a_kind(asked: dict[str, int], kept: int) -> None:
    def script(asked: dict[str, int]) -> None:
        import streamlit as st

        from ui.store.cache import in_session, session_store

        for number in range(40):
            in_session("few", number, lambda: "found", **asked)
        st.text([number for number in range(40) if session_store("few").find(number)])

    assert session(script, asked=asked).text[0].value == str(list(range(40 - kept, 40)))


def test_no_upload_can_be_reached_while_a_shared_result_is_computed() -> None:
    for reach in (uploads.uploads, lambda: cache.in_session("own", 1, lambda: 2)):
        with pytest.raises(RuntimeError, match="its key must hold the upload"):
            cached_result("test", ("shipped",), reach)
    session_resources.mine()  # afterwards it can


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """`pages(page, **files)` is the session of a user who brought files and went to a page."""
    save_tiny(tmp_path / "checkpoints")
    monkeypatch.setattr("ui.store.store.CHECKPOINTS", tmp_path / "checkpoints")

    def go(page: str, **files: bytes) -> AppTest:
        at = brought(opened("your_model"), **files).switch_page(f"pages/{page}.py").run()
        assert not at.exception
        return at

    return go


def test_no_run_of_an_upload_stands_in_any_cache_of_all(pages: Callable[..., AppTest]) -> None:
    checkpoint = (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()
    mine = ran(pages("translate", **{"model.chkpt": checkpoint}), text="5 6 7")
    assert mine.session_state[session_resources.STATE].results["ui.store.runs.translation"].values
    assert not shared_keys("5 6 7")


def test_no_letters_put_to_an_upload_stand_in_any_cache_of_all(pages: Callable[..., AppTest], tmp_path: Path) -> None:
    small = sequence_checkpoint()
    save_folder(tmp_path / "brought", "kmer", small.model, task=small.task, examples=(LETTERS,))
    files = {name: (tmp_path / "brought" / name).read_bytes() for name in ("model.safetensors", "config.json")}
    page = pages("sequences", **files)
    assert page.selectbox(key="model").value == "upload/kmer"
    page = ran(page, sequence=LETTERS[3:])
    held = page.session_state[session_resources.STATE]
    assert {"effects", "ui.sequences.source.classification"} <= set(held.results)
    assert not shared_keys(LETTERS[3:])
    page.switch_page("pages/your_model.py").run()
    pressed(page, "remove")
    assert not held.uploads
    assert "effects" not in held.results


@pytest.mark.parametrize("fails_first", [False, True])
def test_two_threads_that_ask_at_once_compute_once(fails_first: bool) -> None:
    store, together, computed, found = Store(4), Barrier(5), list[int](), list[str]()

    def compute() -> str:
        computed.append(1)
        for _ in range(1000):
            if found:
                break
        if fails_first and len(computed) == 1:
            raise ValueError("the first one fails")
        return "result"

    def ask() -> None:
        together.wait()
        try:
            found.append(store.get("key", compute))
        except ValueError as error:
            found.append(str(error))

    threads = [Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(computed) == 1 + fails_first
    assert sorted(found) == ["result"] * (5 - fails_first) + ["the first one fails"] * fails_first
    assert not store._working


def test_a_store_keeps_the_last_few_and_none_too() -> None:
    store, computed = Store(2), list[str]()
    for key in "abacab":
        assert store.get(key, lambda key=key: computed.append(key)) is None  # type: ignore[misc]
    assert computed == ["a", "b", "c", "b"]
    assert [key in store for key in "abc"] == [True, True, False]


def test_streamlits_clear_cache_leaves_ours_and_no_module_uses_one_that_any_client_can_empty() -> None:
    assert cached_result("test", "key", lambda: 1) == 1
    st.cache_data.clear()
    st.cache_resource.clear()
    assert cached_result("test", "key", lambda: 2) == 1
    root = Path(cache.__file__).parents[2]
    files = [*(root / "ui").rglob("*.py"), *(root / "pages").rglob("*.py"), root / "app.py"]
    assert len(files) > 20
    assert [file.name for file in files if "st.cache_" in file.read_text("utf-8")] == []


def block(n: int = 1) -> torch.Tensor:
    return torch.zeros(n * BLOCK, dtype=torch.uint8)


def budget_of(blocks: float, **kwargs: Any) -> ByteBudget:
    return ByteBudget(lambda: int(blocks * BLOCK), **kwargs)


def put(kept: Store, **blocks: int) -> None:
    """Compute values of so many blocks."""
    for name, count in blocks.items():
        kept.get(name, lambda count=count: block(count))  # type: ignore[misc]


def test_a_value_is_measured_by_its_buffers_each_once() -> None:
    tensor, array = block(3), np.zeros((7, BLOCK), dtype=np.uint8)
    value: dict[str, Any] = {"whole": tensor, "view": [tensor[5:9], tensor.view(3, BLOCK)[1]], "array": array[2:3].T}
    value["itself"] = value
    value["objects"] = SimpleNamespace(text="x" * BLOCK, rows=np.array([b"y" * BLOCK, None], dtype=object))
    value["work"] = lambda: tensor
    assert 0 <= size_of(value).n_bytes - (3 + 7 + 1 + 1) * BLOCK < AROUND
    assert 0 <= size_of(iter([block(2)])).n_bytes - 2 * BLOCK < AROUND
    assert size_of(size_of).n_bytes + size_of(torch).n_bytes + size_of(Store).n_bytes < AROUND  # the program's own


def test_what_was_used_longest_ago_goes_first_whichever_store_holds_it() -> None:
    budget = budget_of(5.5)
    first, second = Store(budget=budget), Store(budget=budget)
    put(first, a=2)
    put(second, b=2)
    first.get("a", lambda: pytest.fail("it is kept"))
    put(first, c=1)
    assert ("a" in first, "b" in second, "c" in first) == (True, True, True)
    put(second, d=1)
    assert ("a" in first, "b" in second, "c" in first, "d" in second) == (True, False, True, True)
    assert 0 < budget.n_bytes - 4 * BLOCK < 3 * (EACH + AROUND)
    first.get("many", lambda: [block(1) for _ in range(5)])
    assert (len(first.values), len(second.values)) == (1, 0)


def test_what_alone_is_larger_than_the_budget_is_not_kept_but_a_model_in_use_stays() -> None:
    budget, models = budget_of(3.5), Store(budget=budget_of(3.5, newest_stays=True))
    kept = Store(budget=budget)
    put(kept, small=3, large=4)
    assert ("small" in kept, "large" in kept, budget.n_bytes < 3 * BLOCK + AROUND) == (True, False, True)
    put(models, small=2, large=9)
    assert ("small" in models, "large" in models) == (False, True)
    put(models, next=1)
    assert ("large" in models, "next" in models) == (False, True)


def test_what_two_results_share_counts_once_until_the_last_of_them_goes() -> None:
    budget, shared = budget_of(100), block(7)
    kept = Store(budget=budget)
    kept.get("a", lambda: (shared, block(1)))
    kept.get("b", lambda: [shared[4:]])
    for name, blocks in (("a", 8), ("b", 7)):
        assert 0 < budget.n_bytes - blocks * BLOCK < 3 * AROUND
        kept.drop(name)
    assert budget.n_bytes == 0


def test_work_on_its_way_counts_but_is_not_pushed_out() -> None:
    budget = budget_of(4.5)
    working, kept = Store(1, budget, pinned=True), Store(budget=budget)
    put(working, job=3)
    put(kept, a=1, b=1)
    assert ("job" in working, "a" in kept, "b" in kept) == (True, False, True)
    put(working, another=1)  # one at a time
    assert "job" not in working


def test_with_a_session_go_the_bytes_of_its_results() -> None:
    budget = budget_of(100)
    mine, all_of_us = Store(budget=budget), Store(budget=budget)
    put(mine, mine=5)
    put(all_of_us, ours=1)
    del mine
    gc.collect()
    assert 0 < budget.n_bytes - BLOCK < AROUND


def test_all_results_together_stay_below_the_bound_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDMAP_CACHE_MB", "1")
    for i in range(40):
        cached_result(f"kind {i % 3}", i, lambda: block(1))
        assert RESULTS.n_bytes <= 2**20
    assert 12 <= sum(len(store.values) for store in cache.SHARED.values()) <= 16
    assert cached_result("kind 0", 39, lambda: None) is not None


def test_models_and_results_have_a_budget_each() -> None:
    before = MODELS.n_bytes
    model = store.checkpoint("splice-junctions")
    weights = sum(one.numel() * one.element_size() for one in model.model.parameters())
    assert MODELS.n_bytes - before >= weights
    assert RESULTS.n_bytes < weights


def test_results_go_where_the_whole_process_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at now and then; a quarter of the results stays, whatever it takes."""
    trimmed, excess, now = list[None](), [0], [100.0]
    monkeypatch.setattr("ui.store.cache.trim", lambda: trimmed.append(None))
    monkeypatch.setattr("ui.store.cache.time", SimpleNamespace(monotonic=lambda: now[0]))
    kept = Store(budget=budget_of(8.5, excess=lambda: excess[0]))
    put(kept, **dict.fromkeys("abcdef", 1))
    for name, seconds, too_large, left in (
        ("g", 0, 3 * BLOCK, "abcdefg"), ("h", 6, 3 * BLOCK, "defgh"), ("i", 6, 10**9, "hi"), ("a", 6, -(10**9), "ahi"),
    ):  # fmt: skip
        now[0] += seconds
        excess[0] = too_large
        put(kept, **{name: 1})
        assert [one for one in "abcdefghi" if one in kept] == list(left)
    assert len(trimmed) == 2

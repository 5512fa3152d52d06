"""What is kept, for whom, and how often it is computed."""

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.checkpoint.references import REFERENCE
from tests.classifiers import sequence_checkpoint
from tests.pages.tiny import save_tiny
from transformer.checkpoint.ours.folder import save_folder
from ui.store import cache, session_resources, uploads
from ui.store.cache import Store, cached, cached_result, is_private
from ui.store.refs import CheckpointRef, Revision

UPLOAD = CheckpointRef.parse("upload/secret")
SHIPPED = CheckpointRef.parse("shipped")
LETTERS = "ACGTTGCAAGTGTCAGTTGACGTACC"
KEYS: list[Any] = [
    (Revision(UPLOAD, 7), "text"),
    (Revision(SHIPPED, 1), UPLOAD, 7),
    ((Revision(SHIPPED, 1),), (Revision(UPLOAD, 2),)),
    ("shipped", frozenset({Revision(UPLOAD, 7)})),
    ("shipped", ("target", ((UPLOAD,),))),
]
"""Keys in which an upload is named at one place or another."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    cache.clear()


def session(script: Callable[..., None], **kwargs: Any) -> AppTest:
    """Another session each time, after its first run."""
    page = AppTest.from_function(script, default_timeout=60, kwargs=kwargs).run()
    assert not page.exception
    return page


@pytest.mark.parametrize("key", KEYS)
def test_what_holds_an_upload_is_of_its_session_alone(key: tuple[Any, ...]) -> None:
    def script(key: object, mark: str) -> None:
        import streamlit as st

        from ui.store.cache import cached_result

        st.text(cached_result("test", key, lambda: mark))

    mine = session(script, key=key, mark="mine")
    assert session(script, key=key, mark="theirs").text[0].value == "theirs"
    assert mine.run().text[0].value == "mine"
    assert all(not is_private(one) for store in cache.shared().values() for one in store._values)


@pytest.mark.parametrize(("asked", "kept"), [({}, 32), ({"entries": 3}, 3)])
def test_a_session_keeps_the_last_few_results_of_a_kind(asked: dict[str, int], kept: int) -> None:
    def script(asked: dict[str, int]) -> None:
        import streamlit as st

        from ui.store.cache import in_session, session_store

        for number in range(40):
            in_session("few", number, lambda: "found", **asked)
        st.text([number for number in range(40) if session_store("few").find(number)])

    assert session(script, asked=asked).text[0].value == str(list(range(40 - kept, 40)))


def test_what_holds_none_is_computed_once_for_all_sessions() -> None:
    def script(mark: str) -> None:
        import streamlit as st

        from ui.store.cache import cached_result

        st.text(cached_result("test", ("upload/typed", 1, "uploads are not meant"), lambda: mark))

    assert session(script, mark="first").text[0].value == "first"
    assert session(script, mark="second").text[0].value == "first"


@pytest.mark.parametrize("key", KEYS)
def test_a_shared_cache_refuses_the_key_of_an_upload(key: tuple[Any, ...]) -> None:
    shared = cache.SharedStore(4)
    with pytest.raises(ValueError, match="belong to its session"):
        shared.get(key, lambda: "anything")
    assert len(shared) == 0


def test_no_upload_can_be_reached_while_a_shared_result_is_computed() -> None:
    with pytest.raises(RuntimeError, match="its key must hold the upload"):
        cached_result("test", ("shipped",), lambda: list(uploads.uploads()))
    with pytest.raises(RuntimeError, match="its key must hold the upload"):
        cached_result("test", ("shipped",), lambda: cache.in_session("own", 1, lambda: 2))
    session_resources.mine()  # afterwards it can


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """`pages(page, **files)` is the session of a user who brought files and went to a page."""
    save_tiny(tmp_path / "checkpoints")
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path / "checkpoints")

    def go(page: str, **files: bytes) -> AppTest:
        opened = AppTest.from_file(str(Path(cache.__file__).parents[2] / "app.py"), default_timeout=120)
        opened.switch_page("pages/your_model.py").run()
        opened.file_uploader[0].set_value([(name, data, "") for name, data in files.items()])
        opened.run()
        opened.switch_page(f"pages/{page}.py").run()
        assert not opened.exception
        return opened

    return go


def run(page: AppTest, text: str, field: str = "text") -> AppTest:
    page.text_area(key=field).set_value(text)
    next(button for button in page.button if button.label == "Run").click()
    page.run()
    assert not page.exception
    return page


def test_no_run_of_an_upload_stands_in_any_cache_of_all(pages: Callable[..., AppTest]) -> None:
    checkpoint = (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()
    mine = run(pages("translate", **{"model.chkpt": checkpoint}), "5 6 7")
    assert mine.session_state[session_resources.STATE].results["ui.store.runs.translation"]
    assert not _shared_keys("5 6 7")


def test_no_letters_put_to_an_upload_stand_in_any_cache_of_all(pages: Callable[..., AppTest], tmp_path: Path) -> None:
    small = sequence_checkpoint()
    save_folder(tmp_path / "brought", "kmer", small.model, task=small.task, examples=(LETTERS,))
    files = {name: (tmp_path / "brought" / name).read_bytes() for name in ("model.safetensors", "config.json")}
    page = pages("sequences", **files)
    assert page.selectbox(key="model").value == "upload/model"
    page = run(page, LETTERS[3:], "sequence")
    held = page.session_state[session_resources.STATE]
    assert {"effects", "sequence_run"} <= set(held.results)
    assert not _shared_keys(LETTERS[3:])
    page.switch_page("pages/your_model.py").run()
    page.button(key="remove").click()
    page.run()
    assert not held.uploads
    assert "effects" not in held.results


def _shared_keys(part: str) -> list[Any]:
    """Keys of all caches of all sessions, ours and Streamlit's, that hold a text or an upload."""
    keys = [key for store in cache.shared().values() for key in store._values]
    return [key for key in keys if part in str(key) or is_private(key)]


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
        thread.join(30)
    assert len(computed) == 1 + fails_first
    assert sorted(found) == ["result"] * (5 - fails_first) + ["the first one fails"] * fails_first
    assert store._working == {}


def test_a_store_keeps_the_last_few_and_none_too() -> None:
    store, computed = Store(2), list[str]()

    def get(key: str) -> None:
        assert store.get(key, lambda: computed.append(key)) is None

    for key in "abacab":
        get(key)
    assert computed == ["a", "b", "c", "b"]
    assert len(store) == 2
    assert "a" in store
    assert "c" not in store


def test_arguments_that_are_no_part_of_the_key() -> None:
    seen = list[object]()

    @cached()
    def function(name: str, size: int, _run: object) -> str:
        seen.append(_run)
        return f"{name} {size}"

    unhashable: list[int] = []
    assert [function("a", 1, unhashable), function("a", 1, {}), function("a", 2, {})] == ["a 1", "a 1", "a 2"]
    assert seen == [unhashable, {}]


def test_streamlits_clear_cache_leaves_ours() -> None:
    assert cached_result("test", "key", lambda: 1) == 1
    st.cache_data.clear()
    st.cache_resource.clear()
    assert cached_result("test", "key", lambda: 2) == 1


def test_no_module_uses_a_cache_that_any_client_can_empty() -> None:
    root = Path(cache.__file__).parents[2]
    files = [*(root / "ui").rglob("*.py"), *(root / "pages").rglob("*.py"), root / "app.py"]
    assert len(files) > 20
    assert [file.name for file in files if "st.cache_" in file.read_text("utf-8")] == []

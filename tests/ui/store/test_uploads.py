"""How much uploads may hold, and that it is let go: when they are removed, and when their reader has left."""

import asyncio
import gc
import io
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.checkpoint.references import REFERENCE
from tests.classifiers import sequence_checkpoint
from transformer.errors import CheckpointError
from ui.patches import session
from ui.store import session_resources, upload_guard, upload_quota, uploads
from ui.store.refs import CheckpointRef, Revision
from ui.store.session_resources import Housekeeper, SessionResources
from ui.store.upload_guard import FORM_BYTES, MAX_FILES, NO_LENGTH, NO_ROOM, TOO_LARGE, Arrivals, UploadGuard
from ui.store.upload_quota import Counted, Ledger, UploadLimits

WEIGHTS = (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()


class Brought(io.BytesIO):
    """A file as the framework gives it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name, self.size = name, len(data)


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> SessionResources:
    """What the reader's session holds; nothing at first."""
    held = SessionResources("session")
    monkeypatch.setattr(session_resources, "mine", lambda: held)
    return held


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that no other test's garbage is struck off from."""
    monkeypatch.setattr(upload_quota, "LEDGER", Ledger())


def words(count: int) -> bytes:
    return "\n".join(f"w{i}" for i in range(count)).encode()


def ledger_held() -> int:
    return upload_quota.LEDGER.held


def take(chosen: CheckpointRef | None = None, limits: UploadLimits | None = None, **files: bytes) -> CheckpointRef:
    return uploads.take([Brought(name, data) for name, data in files.items()], chosen, limits or UploadLimits())


@pytest.mark.usefixtures("mine")
def test_a_session_keeps_three_models_of_its_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer to a question about a file makes another model of it."""
    monkeypatch.setattr(uploads.Upload, "load", lambda *_: sequence_checkpoint())
    name = take(**{"model.chkpt": WEIGHTS})
    revision = Revision(name, uploads.Uploads().stamp(name))
    first, *made = [uploads.Uploads().load(revision, (("n_heads", heads),)) for heads in (1, 2, 4, 8)]
    again = [uploads.Uploads().load(revision, (("n_heads", heads),)) for heads in (2, 4, 8, 1)]
    assert all(one is other for one, other in zip(made, again[:3], strict=True))
    assert again[3] is not first


def test_vocabularies_of_an_upload_are_counted_and_what_fits_takes_the_place_of_what_did(
    mine: SessionResources,
) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    token, size = mine.uploads[name].token, mine.uploads[name].bundle.checkpoint({}).model.config.source_vocab
    first, later = words(size), b"x\n" + words(size - 1)
    assert take(name, **{"src.txt": first}) == take(name, **{"src.txt": later}) == name
    assert mine.uploads[name].bundle.checkpoint({}).tokenizer.labels([0]) == ["x"]
    assert mine.uploads[name].token != token
    assert mine.uploads[name].n_bytes == len(WEIGHTS) + len(first) + len(later) == upload_quota.LEDGER.held
    with pytest.raises(CheckpointError, match="has 5 tokens, the checkpoint's embeddings have"):
        take(name, **{"wrong.txt": words(5)})
    assert mine.uploads[name].n_bytes == upload_quota.LEDGER.held
    mine.let_go()
    gc.collect()
    assert upload_quota.LEDGER.held == 0


@pytest.mark.parametrize("limit", ["session_bytes", "server_bytes"])
@pytest.mark.parametrize("part", [1, 3])
def test_vocabularies_have_the_limits_of_all_files(mine: SessionResources, limit: str, part: int) -> None:
    held = len(WEIGHTS)
    vocabulary = words(2000)
    limits = UploadLimits(**{limit: held + len(vocabulary) - 1})
    name = take(limits=limits, **{"model.chkpt": WEIGHTS})
    token = mine.uploads[name].token
    files = {
        f"words{i}.txt": vocabulary[i * len(vocabulary) // part : (i + 1) * len(vocabulary) // part]
        for i in range(part)
    }
    with pytest.raises(CheckpointError, match=r"remove a checkpoint first|server holds"):
        take(name, limits, **files)
    assert (mine.uploads[name].token, upload_quota.LEDGER.held) == (token, len(WEIGHTS))


@pytest.mark.parametrize("files", [{"model.chkpt": b"no weights"}, {"words.txt": b"\xff\xfe\x00"}, {"notes.md": b"?"}])
def test_what_is_refused_is_counted_no_more_and_closed(files: dict[str, bytes]) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    counted = upload_quota.LEDGER.held
    brought = [Brought(one, data) for one, data in files.items()]
    with pytest.raises(CheckpointError):
        uploads.take(brought, name, UploadLimits())
    assert counted == upload_quota.LEDGER.held == len(WEIGHTS)
    assert all(file.closed for file in brought)


def test_a_removed_upload_leaves_the_ledger_at_once_with_all_that_came_of_it(mine: SessionResources) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    mine.results["any"] = mine.uploads[name].bundle.checkpoint({})
    uploads.forget(name)
    assert upload_quota.LEDGER.held == 0
    assert (mine.uploads, mine.results) == ({}, {})


class Endpoint:
    """Streamlit's endpoint for uploads behind the guard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[tuple[str, str], int] = {}
        self.arrivals, self.status = Arrivals(), 204
        monkeypatch.setattr(upload_guard, "ARRIVALS", self.arrivals)
        monkeypatch.setattr(session, "drop_files", self._drop)

    def send(self, session_id: str, file_id: str, size: int | None, method: str = "PUT") -> int:
        sent: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if method == "DELETE":
                self.files.pop((session_id, file_id), None)
            elif self.status < 300:
                self.files[session_id, file_id] = size or 0
            await send({"type": "http.response.start", "status": self.status, "headers": []})

        async def hear(message: Any) -> None:
            sent.append(message)

        told = [] if size is None else [(b"content-length", str(size).encode())]
        path = f"/base/_stcore/upload_file/{session_id}/{file_id}"
        scope = {"type": "http", "method": method, "path": path, "headers": told}
        with ThreadPoolExecutor(1) as pool:  # in this thread a browser's loop may be running
            pool.submit(asyncio.run, UploadGuard(app)(scope, None, hear)).result()  # type: ignore[arg-type]
        status: int = sent[0]["status"]
        return status

    @property
    def held(self) -> int:
        return sum(self.files.values())

    def _drop(self, session_id: str, *file_ids: str) -> None:
        for key in list(self.files):
            if key[0] == session_id and (not file_ids or key[1] in file_ids):
                del self.files[key]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    return Endpoint(monkeypatch)


def test_a_page_takes_what_its_uploader_is_for_and_counts_it_until_it_goes(endpoint: Endpoint) -> None:
    send = endpoint.send
    assert send("a", "0", 0) == TOO_LARGE  # no uploader
    endpoint.arrivals.expect("a", 5 * FORM_BYTES)
    assert send("a", "0", None) == NO_LENGTH
    size = 3 * FORM_BYTES
    assert [send("a", str(i), size) for i in range(4)] == [204, 204, TOO_LARGE, TOO_LARGE]
    assert endpoint.held == ledger_held() == 2 * size
    assert send("a", "1", size + 5) == 204  # sent anew, in the place of the first
    assert endpoint.held == ledger_held() == 2 * size + 5
    for _ in range(2):
        assert send("a", "0", 0, "DELETE") == 204
    assert endpoint.held == ledger_held() == size + 5
    assert endpoint.arrivals.leave("a")
    assert (endpoint.held, ledger_held(), endpoint.arrivals.leave("a")) == (0, 0, False)
    assert send("a", "late", 1) == TOO_LARGE


def test_what_streamlit_refuses_is_not_counted_and_empty_files_are_not_endless(endpoint: Endpoint) -> None:
    endpoint.arrivals.expect("a", 5000)
    endpoint.status = 403
    assert (endpoint.send("a", "x", 100), ledger_held()) == (403, 0)
    endpoint.status = 204
    answers = [endpoint.send("a", str(i), 0) for i in range(MAX_FILES + 3)]
    assert answers == [204] * MAX_FILES + [TOO_LARGE] * 3


def test_all_sessions_together_have_a_limit(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = UploadLimits(server_bytes=5000)
    monkeypatch.setattr(UploadLimits, "of", classmethod(lambda cls, environment: limits))
    for session_id in ("a", "b"):
        endpoint.arrivals.expect(session_id, 4000)
    assert [endpoint.send(session_id, "x", 3000) for session_id in ("a", "b")] == [204, NO_ROOM]
    assert endpoint.send("b", "y", 2000) == 204
    assert ledger_held() == 5000


def test_another_page_lets_go_of_what_came_for_the_one_before(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "session_id", lambda: "a")
    monkeypatch.setattr(upload_guard, "st", SimpleNamespace(session_state={}))
    upload_guard.page_begins("your_model")
    endpoint.arrivals.expect("a", 5000)
    assert endpoint.send("a", "x", 2000) == 204
    upload_guard.page_begins("your_model")
    assert endpoint.held == 2000
    upload_guard.page_begins("translate")
    assert (endpoint.held, ledger_held()) == (0, 0)
    assert endpoint.send("a", "y", 1) == TOO_LARGE


def test_the_framework_s_copy_goes_when_a_file_is_read() -> None:
    def script() -> None:
        import streamlit as st
        from streamlit.runtime.scriptrunner import get_script_run_ctx

        from ui.store import upload_guard

        context = get_script_run_ctx()
        assert context is not None
        files = st.file_uploader("files", accept_multiple_files=True)
        with upload_guard.reading(files):
            st.text(str(len(vars(context.uploaded_file_mgr)["file_storage"].get(context.session_id, {}))))
            st.text(str([file.read() for file in files]))
        assert all(file.closed for file in files)

    page = AppTest.from_function(script, default_timeout=60).run()
    page.file_uploader[0].set_value([("a.bin", b"one", ""), ("b.bin", b"two", "")])
    page.run()
    assert not page.exception
    assert [text.value for text in page.text] == ["0", "[b'one', b'two']"]


def test_what_a_reader_held_goes_when_he_has_been_away_long_enough() -> None:
    keeper, gone, here = Housekeeper(), list[str](), {"stays", "leaves"}
    everyone = {name: SessionResources(name) for name in here}

    def leave(name: str) -> bool:
        gone.append(name)
        return True

    for name, one in everyone.items():
        one.uploads["upload/x"] = Counted(1000, 10_000)
        one.on_leaving = partial(leave, name)
        keeper._held.add(one)
    start = everyone["leaves"].seen
    for now, present, let_go in [
        (0, here, 0),
        (9, {"stays"}, 0),
        (10, here, 0),
        (19, {"stays"}, 0),
        (21, {"stays"}, 1),
    ]:
        assert keeper.look(present.__contains__, 10, start + now) == let_go
    assert gone == ["leaves"]
    assert upload_quota.LEDGER.held == 1000
    assert keeper.look(set[str]().__contains__, 10, start + 99) == 1
    assert upload_quota.LEDGER.held == 0


def test_sessions_that_held_nothing_are_collected_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, collections = list[int](), list[int]()
    monkeypatch.setattr(session_resources, "give_back", lambda: collections.append(len(seen)))
    keeper = Housekeeper()
    everyone = [SessionResources(name) for name in "abcd"]
    start = everyone[0].seen
    for later, one in enumerate(everyone):
        keeper._held.add(one)
        one.seen = start + 20 * later
    everyone[3].results["kind"] = "something"
    for now in (11, 31, 51, 75, 100, 200):
        seen.append(keeper.look(set[str]().__contains__, 10, start + now))
    assert seen == [1, 1, 1, 1, 0, 0]
    assert collections == [0, 3]  # the first, then those of a minute, with the one that held something


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "10000000"])
def test_limits_that_are_no_numbers_are_refused(value: str) -> None:
    environment: dict[str, Any] = dict(os.environ) | {"HEEDMAP_SESSION_MB": value}
    with pytest.raises(CheckpointError, match="no number of megabytes"):
        UploadLimits.of(environment)


def test_what_may_arrive_is_what_a_file_the_server_and_its_disk_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [10_000]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free[0]))
    assert uploads.may_arrive(UploadLimits(file_bytes=500)) == 500
    assert uploads.may_arrive(UploadLimits(file_bytes=50_000)) == 10_000
    counted = Counted(700, 1000)
    assert uploads.may_arrive(UploadLimits(file_bytes=500, server_bytes=1000)) == 300
    counted.strike()
    assert uploads.folder_may_hold(UploadLimits(session_bytes=20_000)) == 10_000
    assert uploads.folder_may_hold(UploadLimits(session_bytes=900)) == 900
    free[0] = 0
    assert uploads.may_arrive(UploadLimits(file_bytes=500)) == 0

    def nowhere() -> str:
        raise FileNotFoundError("no usable temporary directory")  # as `tempfile` says where all of them are full

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    monkeypatch.setattr("transformer.safe.unpacked.MEMORY", Path("/nowhere"))
    assert uploads.may_arrive(UploadLimits()) == uploads.folder_may_hold(UploadLimits()) == 0

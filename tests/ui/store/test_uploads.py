"""How much uploads may hold, and that it is let go: when they are removed, and when their reader has left."""

import gc
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from heedmap.checkpoint.foreign.bundle import Bundle
from heedmap.checkpoint.worker.isolated import Trial
from heedmap.errors import CheckpointError
from heedmap.safe.zips import PrivateFolder
from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.references import REFERENCE
from tests.classifiers import sequence_checkpoint
from tests.loops import answered
from tests.test_hostile_uploads import zipped
from tests.ui.store.test_session_resources import stop
from ui.patches import session
from ui.store import limits, session_resources, store, upload_guard, uploads
from ui.store.refs import CheckpointRef, Revision
from ui.store.session_resources import Housekeeper, SessionResources
from ui.store.upload_guard import CountedBytes, Ledger, UploadGuard

WEIGHTS = (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()


class Brought(io.BytesIO):
    """A file as the framework gives it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name, self.size, self.file_id = name, len(data), ""


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> SessionResources:
    """What the reader's session holds, nothing at first; and a ledger that no other test strikes off from."""
    held = SessionResources("session")
    for module in (session_resources, upload_guard):
        monkeypatch.setattr(module, "mine", lambda: held)
    monkeypatch.setattr(upload_guard, "LEDGER", Ledger())
    return held


def words(count: int) -> bytes:
    return "\n".join(f"w{i}" for i in range(count)).encode()


def ledger_held() -> int:
    return upload_guard.LEDGER.n_bytes


def take(chosen: CheckpointRef | None = None, **files: bytes) -> CheckpointRef:
    return uploads.take([Brought(name, data) for name, data in files.items()], chosen)


Bound = Callable[..., None]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Bound:
    """Sets bounds in bytes by their names, and how many uploads are taken (`MOST`)."""
    usual = limits.n_bytes

    def set_bounds(**known: int) -> None:
        monkeypatch.setattr(uploads, "MOST", known.pop("MOST", 8))
        monkeypatch.setattr(limits, "n_bytes", lambda name: known.get(name.split("_")[1]) or usual(name))

    return set_bounds


def test_a_session_keeps_three_models_of_its_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer to a question about a file makes another model of it."""
    monkeypatch.setattr(Bundle, "checkpoint", lambda *_: sequence_checkpoint())
    name = take(**{"model.chkpt": WEIGHTS})
    first, *made, two, four, eight, one = [
        store.load(Revision(name, 7, (("n_heads", heads),))) for heads in (1, 2, 4, 8, 2, 4, 8, 1)
    ]
    assert all(found is other for found, other in zip(made, (two, four, eight), strict=True))
    assert one is not first


def test_vocabularies_of_an_upload_are_counted_and_what_fits_takes_the_place_of_what_did(
    mine: SessionResources,
) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    token, size = mine.uploads[name].token, mine.uploads[name].brought.checkpoint({}).model.config.source_vocab
    first, later = words(size), b"x\n" + words(size - 1)
    assert take(name, **{"src.txt": first}) == take(name, **{"src.txt": later}) == name
    assert mine.uploads[name].brought.checkpoint({}).tokenizer.labels([0]) == ["x"]
    assert mine.uploads[name].token != token
    assert mine.uploads[name].n_bytes == len(WEIGHTS) + len(first) + len(later) == ledger_held()
    with pytest.raises(CheckpointError, match="has 5 tokens, the checkpoint's embeddings have"):
        take(name, **{"wrong.txt": words(5)})
    assert mine.uploads[name].n_bytes == ledger_held()
    mine.let_go()
    gc.collect()
    assert ledger_held() == 0


MANY_WORDS = words(2000)
PARTS = {f"words{i}.txt": MANY_WORDS[i * 3_630 : (i + 1) * 3_630] for i in range(3)}
TOGETHER = len(WEIGHTS) + len(MANY_WORDS) - 1


@pytest.mark.parametrize(
    ("limit", "files", "message"),
    [
        ({"UPLOAD": 1000}, {"other.chkpt": WEIGHTS}, "at most 0.0 MB are taken here"),
        ({"SESSION": 1000}, {"other.chkpt": WEIGHTS}, "remove a checkpoint first"),
        ({"SERVER": 1000}, {"other.chkpt": WEIGHTS}, "server holds"),
        ({"MOST": 1}, {"other.chkpt": WEIGHTS}, "which is all it may"),
        ({"SESSION": TOGETHER}, PARTS, "remove a checkpoint first"),
        ({"SERVER": TOGETHER}, PARTS, "server holds"),
        ({"SESSION": TOGETHER}, {"unread.heedmap": MANY_WORDS}, "remove a checkpoint first"),
        ({}, {"model.chkpt": b"no weights"}, None),
        ({}, {"words.txt": b"\xff\xfe\x00"}, None),
        ({}, {"notes.md": b"?"}, None),
    ],
)
def test_what_is_refused_is_closed_counted_no_more_and_leaves_what_was_there(
    mine: SessionResources, limit: dict[str, int], files: dict[str, bytes], message: str | None, bound: Bound
) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    before = mine.uploads[name]
    brought = [Brought(one, data) for one, data in files.items()]
    bound(**limit)
    with pytest.raises(CheckpointError, match=message):
        uploads.take(brought, name)
    assert (mine.uploads, ledger_held()) == ({name: before}, len(WEIGHTS))
    assert all(file.closed for file in brought)


def test_a_removed_upload_leaves_the_ledger_at_once_with_all_that_came_of_it(mine: SessionResources) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    mine.results["any"] = mine.uploads[name].brought.checkpoint({})
    uploads.forget(name)
    assert ledger_held() == 0
    assert (mine.uploads, mine.results) == ({}, {})


class Endpoint:
    """Streamlit's endpoint for uploads behind the guard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files, self.status = dict[tuple[str, str], int](), 204
        self.sessions = {name: SessionResources(name) for name in "ab"}
        monkeypatch.setattr(upload_guard, "HOUSEKEEPER", self)
        monkeypatch.setattr(session, "drop_files", self._drop)

    def send(self, session_id: str, file_id: str, size: int | None, method: str = "PUT") -> int:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if method == "DELETE":
                self.files.pop((session_id, file_id), None)
            elif self.status < 300:
                self.files[session_id, file_id] = size or 0
            await send({"type": "http.response.start", "status": self.status, "headers": []})

        told = {} if size is None else {"content_length": str(size)}
        return answered(UploadGuard(app), f"/base/_stcore/upload_file/{session_id}/{file_id}", method, **told).status

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
    assert send("a", "0", 0) == upload_guard.TOO_LARGE  # no uploader
    endpoint.sessions["a"].expected = 5 * upload_guard.FORM_BYTES
    assert send("a", "0", None) == upload_guard.NO_LENGTH
    size = 3 * upload_guard.FORM_BYTES
    assert [send("a", str(i), size) for i in range(4)] == [204, 204, upload_guard.TOO_LARGE, upload_guard.TOO_LARGE]
    assert endpoint.held == ledger_held() == 2 * size
    assert send("a", "1", size + 5) == 204  # sent anew, in the place of the first
    assert endpoint.held == ledger_held() == 2 * size + 5
    for _ in range(2):
        assert send("a", "0", 0, "DELETE") == 204
    assert endpoint.held == ledger_held() == size + 5
    assert endpoint.sessions["a"].let_go()
    assert (endpoint.held, ledger_held(), endpoint.sessions["a"].let_go()) == (0, 0, False)
    assert send("a", "late", 1) == upload_guard.TOO_LARGE


def test_what_streamlit_refuses_is_not_counted_and_empty_files_are_not_endless(endpoint: Endpoint) -> None:
    endpoint.sessions["a"].expected = 5000
    endpoint.status = 403
    assert (endpoint.send("a", "x", 100), ledger_held()) == (403, 0)
    endpoint.status = 204
    answers = [endpoint.send("a", str(i), 0) for i in range(upload_guard.MAX_FILES + 3)]
    assert answers == [204] * upload_guard.MAX_FILES + [upload_guard.TOO_LARGE] * 3


def test_all_sessions_together_have_a_limit(endpoint: Endpoint, bound: Bound) -> None:
    bound(SERVER=5000)
    for session_id in ("a", "b"):
        endpoint.sessions[session_id].expected = 4000
    assert [endpoint.send(session_id, "x", 3000) for session_id in ("a", "b")] == [204, upload_guard.NO_ROOM]
    assert endpoint.send("b", "y", 2000) == 204
    assert ledger_held() == 5000


def test_another_page_lets_go_of_what_came_for_the_one_before(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_guard, "mine", lambda: endpoint.sessions["a"])
    upload_guard.page_begins("your_model")
    upload_guard.expect(5000)
    assert endpoint.send("a", "x", 2000) == 204
    upload_guard.page_begins("your_model")
    assert endpoint.held == 2000
    upload_guard.page_begins("translate")
    assert (endpoint.held, ledger_held()) == (0, 0)
    assert endpoint.send("a", "y", 1) == upload_guard.TOO_LARGE


def test_the_framework_s_copy_goes_when_a_file_is_read() -> None:
    def script() -> None:
        import streamlit as st
        from streamlit.runtime.scriptrunner import get_script_run_ctx

        from ui.store import session_resources, upload_guard

        context = get_script_run_ctx()
        assert context is not None
        session_resources.mine().session_id = context.session_id
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


def test_what_a_reader_held_goes_when_he_has_been_away_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = list[int]()
    monkeypatch.setattr(session_resources, "give_back", lambda: collected.append(ledger_held()))
    keeper, here = Housekeeper(), {"stays", "leaves"}
    everyone = {name: SessionResources(name) for name in here}
    for name, one in everyone.items():
        one.arrived["file"] = CountedBytes(1000)
        keeper.sessions[name] = one
    start = everyone["leaves"].seen
    for now, is_left, let_go in ((0, False, 0), (9, True, 0), (10, False, 0), (19, True, 0), (21, True, 1)):
        present = here - {"leaves"} if is_left else here
        assert keeper.look(present.__contains__, 10, start + now) == let_go
    assert ledger_held() == 1000
    assert keeper.look(set[str]().__contains__, 10, start + 99) == 1
    nothing = keeper.sessions["nothing"] = SessionResources("nothing")
    assert [keeper.look(set[str]().__contains__, 10, start + 100 + now) for now in (0, 30, 60)] == [1, 0, 0]
    assert not nothing.let_go()
    assert collected == [1000, 0, 0], "what held nothing is collected once a minute"


def test_what_may_arrive_is_what_a_file_the_server_and_its_disk_allow(
    bound: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = CountedBytes(700)
    for free, file_bytes, may in ((10_000, 200, 200), (10_000, 500, 300), (250, 500, 250), (0, 500, 0)):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        bound(UPLOAD=file_bytes, SERVER=1000)
        assert uploads.may_arrive() == may
    counted.strike()
    monkeypatch.setattr("tempfile.gettempdir", Mock(side_effect=FileNotFoundError))  # all places are full
    assert uploads.may_arrive() == 0


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "gpt2", "gpt2")


@pytest.fixture(params=[False, True])
def folder(gpt2: Path, request: pytest.FixtureRequest) -> dict[str, bytes]:
    """A model's folder as a ZIP, or its files side by side."""
    return {"gpt2.zip": zipped(gpt2)} if request.param else {file.name: file.read_bytes() for file in gpt2.iterdir()}


def test_a_folder_counts_what_its_files_or_its_model_take_and_leaves_nothing_where_that_is_too_much(
    mine: SessionResources, gpt2: Path, folder: dict[str, bytes], bound: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, original = list[Path](), PrivateFolder.__init__

    def noted(self: PrivateFolder, name: str) -> None:
        original(self, name)
        made.append(self.path)

    def asks_for(memory_bytes: int) -> None:
        found = Trial("hugging-face-decoder", 1.0, 0.1, memory_bytes)
        monkeypatch.setattr("heedmap.checkpoint.worker.isolated.tried_folder", lambda _: found)

    monkeypatch.setattr(PrivateFolder, "__init__", noted)
    together = sum(file.stat().st_size for file in gpt2.iterdir())
    for memory_bytes, counted in ((together + 10_007, together + 10_007), (10_007, together)):
        asks_for(memory_bytes)
        bound(SESSION=together + 10_007)
        name = take(**folder)
        assert mine.uploads[name].n_bytes == ledger_held() == counted
        uploads.forget(name)
        assert ledger_held() == 0
    asks_for(5_000_000)
    for limit, reason in (
        ("SESSION", r"gpt2 takes 4\.8 MB .* \(its files have 0\.1 MB\), and 2\.9 MB are left"),
        ("SERVER", r"the server holds 0\.\d MB .* no room for 4\.8 MB more"),
    ):
        bound(**{limit: 3_000_000})
        with pytest.raises(CheckpointError, match=reason):
            take(**folder)
        assert (mine.uploads, ledger_held()) == ({}, 0)
    assert [path.exists() for path in made] == [False] * 4


def test_a_folder_is_built_once_for_lists_and_its_run_ends_when_its_reader_has_left(
    mine: SessionResources, gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights came as a pickle in a ZIP, as older models have them."""
    torch.save(safetensors.torch.load_file(gpt2 / "model.safetensors"), gpt2 / "pytorch_model.bin")
    (gpt2 / "model.safetensors").unlink()
    name, here = take(**{"gpt2.zip": zipped(gpt2)}), {mine.session_id}
    with monkeypatch.context() as patch:
        patch.setattr("heedmap.checkpoint.worker.isolated.load_folder", None)
        assert store.architecture(str(name)) == "hugging-face-decoder"
    model: Any = store.load(Revision(name, 1)).model
    monkeypatch.setattr(session_resources, "LOOKING", 0.0)
    monkeypatch.setattr(session_resources, "PATIENCE", -1.0)
    monkeypatch.setattr("ui.patches.session.is_connected", here.__contains__)
    monkeypatch.setattr("streamlit.stop", stop)
    assert model(torch.tensor([[3, 5, 7]])).shape[:2] == (1, 3)
    here.clear()
    with pytest.raises(StopException):
        model(torch.tensor([[3, 5, 7]]))

"""How much uploads may hold, and that it is let go: when they are removed, and when their reader has left."""

import asyncio
import gc
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starlette.exceptions import HTTPException
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest
from torch import nn

from tests.checkpoint.originals.rnn import EncoderRNN, LocationDecoder
from tests.checkpoint.references import REFERENCE
from tests.classifiers import sequence_checkpoint
from transformer.errors import CheckpointError
from ui.store import arrivals, holdings, ledger, uploads
from ui.store.arrivals import MAX_FILES, NO_ROOM, TOO_LARGE, Arrivals
from ui.store.holdings import Holdings, Housekeeper
from ui.store.ledger import Counted, Ledger, UploadLimits
from ui.store.refs import CheckpointRef, Revision

WEIGHTS = (REFERENCE / "jadore-separate" / "model.chkpt").read_bytes()


class Brought(io.BytesIO):
    """A file as the framework gives it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name, self.size = name, len(data)


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> Holdings:
    """What the reader's session holds; nothing at first."""
    held = Holdings("session")
    monkeypatch.setattr(holdings, "mine", lambda: held)
    return held


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that no other test's garbage is struck off from."""
    monkeypatch.setattr(ledger, "LEDGER", Ledger())


def _saved(module: nn.Module) -> bytes:
    stream = io.BytesIO()
    torch.save(module.state_dict(), stream)
    return stream.getvalue()


def words(count: int) -> bytes:
    return "\n".join(f"w{i}" for i in range(count)).encode()


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


def test_vocabularies_of_an_upload_are_counted_and_the_next_ones_take_their_place(mine: Holdings) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    for count in (700, 500, 900):
        vocabulary = words(count)
        assert take(name, **{"words.txt": vocabulary}) == name
        assert mine.uploads[name].n_bytes == len(WEIGHTS) + len(vocabulary) == ledger.LEDGER.held
    mine.let_go()
    assert ledger.LEDGER.held == 0


def test_a_vocabulary_is_removed_alone_whenever_it_came(mine: Holdings) -> None:
    first, later = words(700), words(500)
    name = take(**{"model.chkpt": WEIGHTS, "first.txt": first})
    assert take(name, **{"later.txt": later}) == name
    upload = mine.uploads[name]
    assert upload.added == {"first.txt": len(first), "later.txt": len(later)}
    tokens = [upload.token]
    mine.results["any"] = object()
    for file, rest in (("model.chkpt", {*upload.added}), ("first.txt", {"later.txt"}), ("later.txt", set())):
        uploads.forget_file(name, file)
        tokens.append(upload.token)
        assert upload.added.keys() == rest
        assert upload.n_bytes == ledger.LEDGER.held == len(WEIGHTS) + sum(upload.added.values())
    assert (tokens[0] == tokens[1], len(set(tokens)), mine.results) == (True, 3, {})
    del upload
    mine.let_go()
    assert ledger.LEDGER.held == 0


@pytest.mark.parametrize(("name", "both"), [("two.pt", "upload/one-two"), ("one.pt", "upload/one-one")])
def test_the_other_half_of_a_recurrent_pair_joins_the_one_that_is_shown(mine: Holdings, name: str, both: str) -> None:
    halves = [_saved(module) for module in (EncoderRNN(31, 13), LocationDecoder(37, 13, 9))]
    first = take(**{"one.pt": halves[0]})
    other = take(first, **{"else.pt": _saved(nn.Linear(3, 5))})
    whole = take(first, **{name: halves[1]})
    assert (list(mine.uploads), str(whole)) == ([other, whole], both)
    assert mine.uploads[whole].n_bytes == sum(map(len, halves))
    assert uploads.Uploads().architecture(whole, ()) == "recurrent"
    uploads.forget(other)
    mine.let_go()
    gc.collect()
    assert ledger.LEDGER.held == 0


@pytest.mark.parametrize("limit", ["session_bytes", "server_bytes"])
@pytest.mark.parametrize("part", [1, 3])
def test_vocabularies_have_the_limits_of_all_files(mine: Holdings, limit: str, part: int) -> None:
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
    assert (mine.uploads[name].token, ledger.LEDGER.held) == (token, len(WEIGHTS))


@pytest.mark.parametrize("files", [{"model.chkpt": b"no weights"}, {"words.txt": b"\xff\xfe\x00"}, {"notes.md": b"?"}])
def test_what_is_refused_is_counted_no_more_and_closed(files: dict[str, bytes]) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    counted = ledger.LEDGER.held
    brought = [Brought(one, data) for one, data in files.items()]
    with pytest.raises(CheckpointError):
        uploads.take(brought, name, UploadLimits())
    assert counted == ledger.LEDGER.held == len(WEIGHTS)
    assert all(file.closed for file in brought)


def test_a_removed_upload_leaves_the_ledger_at_once_with_all_that_came_of_it(mine: Holdings) -> None:
    name = take(**{"model.chkpt": WEIGHTS})
    mine.results["any"] = mine.uploads[name].bundle.checkpoint({})
    uploads.forget(name)
    assert ledger.LEDGER.held == 0
    assert (mine.uploads, mine.results) == ({}, {})


@pytest.fixture
def manager() -> Iterator[MemoryUploadedFileManager]:
    """Streamlit's upload manager, guarded."""
    made = MemoryUploadedFileManager("/upload")
    arrivals.before(made)
    yield made
    for session in ("a", "b"):
        made.remove_session_files(session)


def guard(manager: MemoryUploadedFileManager) -> Arrivals:
    standing = arrivals.before(manager)
    assert standing is not None
    return standing


def send(manager: MemoryUploadedFileManager, session: str, file_id: str, size: int) -> int:
    """What the endpoint for uploads answers."""
    try:
        manager.add_file(session, UploadedFileRec(file_id, "name", "type", bytes(size)))
    except HTTPException as error:
        return error.status_code
    return 204


def held(manager: MemoryUploadedFileManager) -> int:
    return sum(len(file.data) for files in manager.file_storage.values() for file in files.values())


def test_a_page_without_an_uploader_takes_nothing(manager: MemoryUploadedFileManager) -> None:
    assert [send(manager, "a", str(i), 1000) for i in range(10)] == [TOO_LARGE] * 10
    guard(manager).expect("b", "checkpoints", 5000)
    assert send(manager, "a", "x", 1) == TOO_LARGE
    assert (held(manager), ledger.LEDGER.held) == (0, 0)


def test_an_uploader_takes_what_it_is_for_and_all_of_it_is_counted(manager: MemoryUploadedFileManager) -> None:
    guard(manager).expect("a", "checkpoints", 5000)
    assert [send(manager, "a", str(i), 2000) for i in range(4)] == [204, 204, TOO_LARGE, TOO_LARGE]
    assert held(manager) == ledger.LEDGER.held == 4000
    assert send(manager, "a", "1", 3000) == 204  # sent anew, in the place of the first
    assert held(manager) == ledger.LEDGER.held == 5000
    manager.remove_file("a", "0")
    manager.remove_file("a", "0")
    assert held(manager) == ledger.LEDGER.held == 3000
    manager.remove_session_files("a")
    assert held(manager) == ledger.LEDGER.held == 0
    assert send(manager, "a", "late", 1) == TOO_LARGE


def test_empty_files_are_not_endless(manager: MemoryUploadedFileManager) -> None:
    guard(manager).expect("a", "checkpoints", 5000)
    answers = [send(manager, "a", str(i), 0) for i in range(MAX_FILES + 3)]
    assert answers == [204] * MAX_FILES + [TOO_LARGE] * 3


def test_all_sessions_together_have_a_limit(
    manager: MemoryUploadedFileManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = UploadLimits(server_bytes=5000)
    monkeypatch.setattr(UploadLimits, "of", classmethod(lambda cls, environment: limits))
    for session in ("a", "b"):
        guard(manager).expect(session, "checkpoints", 4000)
    assert [send(manager, session, "x", 3000) for session in ("a", "b")] == [204, NO_ROOM]
    assert send(manager, "b", "y", 2000) == 204
    assert ledger.LEDGER.held == 5000


def test_another_page_lets_go_of_what_came_for_the_one_before(manager: MemoryUploadedFileManager) -> None:
    guard(manager).expect("a", "checkpoints", 5000)
    assert send(manager, "a", "x", 2000) == 204
    guard(manager).page("a", "checkpoints")
    assert held(manager) == 2000
    guard(manager).page("a", "translate")
    assert (held(manager), ledger.LEDGER.held) == (0, 0)
    assert send(manager, "a", "y", 1) == TOO_LARGE


def test_the_framework_s_copy_goes_when_a_file_is_read() -> None:
    def script() -> None:
        import streamlit as st
        from streamlit.runtime.scriptrunner import get_script_run_ctx

        from ui.store import arrivals

        context = get_script_run_ctx()
        assert context is not None
        files = st.file_uploader("files", accept_multiple_files=True)
        arrivals.let_go(files)
        st.text(str(len(vars(context.uploaded_file_mgr)["file_storage"].get(context.session_id, {}))))
        st.text(str([file.read() for file in files]))

    page = AppTest.from_function(script, default_timeout=60).run()
    page.file_uploader[0].set_value([("a.bin", b"one", ""), ("b.bin", b"two", "")])
    page.run()
    assert not page.exception
    assert [text.value for text in page.text] == ["0", "[b'one', b'two']"]


def test_what_a_reader_held_goes_when_he_has_been_away_long_enough() -> None:
    keeper, gone, here = Housekeeper(), list[str](), {"stays", "leaves"}
    everyone = {name: Holdings(name) for name in here}

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
    assert ledger.LEDGER.held == 1000
    assert keeper.look(set[str]().__contains__, 10, start + 99) == 1
    assert ledger.LEDGER.held == 0


def test_sessions_that_held_nothing_are_closed_too_and_collected_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed, collections = list[str](), list[int]()
    monkeypatch.setattr("ui.store.holdings.give_back", lambda: collections.append(len(closed)))
    monkeypatch.setattr("streamlit.runtime.get_instance", lambda: SimpleNamespace(close_session=closed.append))
    keeper, loop = Housekeeper(), asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as served:
        served.submit(loop.run_forever)
        keeper.serve(loop)
        everyone = [Holdings(name) for name in "abcd"]
        start = everyone[0].seen
        for later, one in enumerate(everyone):
            keeper._held.add(one)
            one.seen = start + 20 * later
        everyone[3].results["kind"] = "something"
        for now in (11, 31, 51, 75, 100, 200):
            keeper.look(set[str]().__contains__, 10, start + now)
        loop.call_soon_threadsafe(loop.stop)
    loop.close()
    assert closed == ["a", "b", "c", "d"]
    assert collections == [1, 4]  # the first, then those of a minute, with the one that held something


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
    monkeypatch.setattr("transformer.checkpoint.safe.unpacked.MEMORY", Path("/nowhere"))
    assert uploads.may_arrive(UploadLimits()) == uploads.folder_may_hold(UploadLimits()) == 0

"""A model's folder among uploads: it counts what its model takes, is built once, and runs for its reader alone."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from streamlit.runtime.scriptrunner import StopException

from tests.checkpoint.huggingface.families import write_folder
from tests.ui.store.test_session_resources import stop
from tests.ui.store.test_uploads import Brought
from transformer.checkpoint.worker.trial import Trial
from transformer.errors import CheckpointError
from transformer.safe.unpacked import PrivateFolder
from ui.store import session_resources, upload_quota, uploads
from ui.store.refs import CheckpointRef, Revision
from ui.store.session_resources import SessionResources
from ui.store.upload_quota import Ledger, UploadLimits


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> SessionResources:
    """What the reader's session holds, nothing at first; and a ledger of its own."""
    held = SessionResources("session")
    monkeypatch.setattr(session_resources, "mine", lambda: held)
    monkeypatch.setattr(upload_quota, "LEDGER", Ledger())
    return held


def take(limits: UploadLimits | None = None, **files: bytes) -> CheckpointRef:
    return uploads.take([Brought(name, data) for name, data in files.items()], None, limits or UploadLimits())


def gpt2_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in write_folder(folder / "gpt2", "gpt2").iterdir()}


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"gpt2/{name}", data)
    return stream.getvalue()


def asks_for(held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker measures of every folder."""
    found = Trial("hugging-face-decoder", 1.0, 0.1, held_bytes)
    monkeypatch.setattr("transformer.checkpoint.worker.isolated.tried_folder", lambda _: found)


@pytest.mark.parametrize("as_zip", [False, True])
def test_a_folder_counts_what_its_files_or_its_model_take(
    mine: SessionResources, as_zip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = gpt2_files(tmp_path)
    together = sum(map(len, files.values()))
    brought = {"gpt2.zip": zipped(files)} if as_zip else files
    for held_bytes, counted in ((together + 10_007, together + 10_007), (10_007, together)):
        asks_for(held_bytes, monkeypatch)
        name = take(UploadLimits(session_bytes=together + 10_007), **brought)
        assert mine.uploads[name].n_bytes == upload_quota.LEDGER.held == counted
        uploads.forget(name)
        assert upload_quota.LEDGER.held == 0


@pytest.mark.parametrize("as_zip", [False, True])
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"session_bytes": 3_000_000}, r"gpt2 takes 4\.8 MB .* \(its files have 0\.1 MB\), and 2\.9 MB are left"),
        ({"server_bytes": 3_000_000}, r"the server holds 0\.\d MB .* no room for 4\.8 MB more"),
    ],
)  # fmt: skip
def test_a_model_that_takes_more_than_may_be_held_is_refused_and_leaves_nothing(
    as_zip: bool,
    limits: dict[str, int],
    reason: str,
    mine: SessionResources,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = gpt2_files(tmp_path)
    asks_for(5_000_000, monkeypatch)
    made = list[Path]()
    original = PrivateFolder.__init__

    def noted(self: PrivateFolder, name: str) -> None:
        original(self, name)
        made.append(self.path)

    monkeypatch.setattr(PrivateFolder, "__init__", noted)
    with pytest.raises(CheckpointError, match=reason):
        take(UploadLimits(**limits), **({"gpt2.zip": zipped(files)} if as_zip else files))
    assert (mine.uploads, upload_quota.LEDGER.held, [path.exists() for path in made]) == ({}, 0, [False])


def test_a_list_of_uploads_builds_no_folder_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = take(**gpt2_files(tmp_path))
    monkeypatch.setattr("transformer.checkpoint.worker.isolated.load_folder", None)
    assert uploads.Uploads().architecture(name, ()) == "hugging-face-decoder"


def test_a_run_of_an_upload_ends_when_its_reader_has_left(
    mine: SessionResources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights came as a pickle in a ZIP, as older models have them."""
    files, weights = gpt2_files(tmp_path), io.BytesIO()
    torch.save(safetensors.torch.load(files.pop("model.safetensors")), weights)
    brought = {"gpt2.zip": zipped({**files, "pytorch_model.bin": weights.getvalue()})}
    name, here = take(**brought), {mine.session_id}
    found = uploads.Uploads().load(Revision(name, 1), ())
    monkeypatch.setattr(session_resources, "LOOKING", 0.0)
    monkeypatch.setattr(session_resources, "PATIENCE", -1.0)
    monkeypatch.setattr("ui.patches.session.is_connected", here.__contains__)
    monkeypatch.setattr("streamlit.stop", stop)
    model: Any = found.model
    assert model(torch.tensor([[3, 5, 7]])).shape[:2] == (1, 3)
    here.clear()
    with pytest.raises(StopException):
        model(torch.tensor([[3, 5, 7]]))

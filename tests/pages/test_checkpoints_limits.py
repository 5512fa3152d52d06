"""The page Your model: limits and folders that the environment names, and a server that is nearly full."""

import io
import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save

from tests.checkpoint.references import reference_file
from tests.pages.opening import brought
from tests.pages.test_checkpoints import opened
from tests.pages.tiny import save_tiny
from transformer.errors import CheckpointError
from transformer.safe import unpacked
from transformer.safe.limits import MEGABYTE
from ui.store import user_folder
from ui.store.upload_quota import UploadLimits

ANNOTATED = reference_file("annotated").read_bytes()


pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def test_limits_come_from_the_environment():
    limits = UploadLimits.of({"HEEDMAP_UPLOAD_MB": "7", "HEEDMAP_SERVER_MB": "9"})
    assert (limits.file_bytes, limits.server_bytes) == (7 * MEGABYTE, 9 * MEGABYTE)
    with pytest.raises(CheckpointError, match="no number of megabytes"):
        UploadLimits.of({"HEEDMAP_SESSION_MB": "much"})


@pytest.mark.parametrize("argv", [["--checkpoints", "there"], ["--other", "x", "--checkpoints=there"]])
def test_the_folder_is_named_by_an_argument_or_a_variable(argv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    user_folder.own_folder.cache_clear()
    monkeypatch.setattr("sys.argv", ["app.py", *argv])
    monkeypatch.setenv(user_folder.VARIABLE, str(tmp_path / "other"))
    assert user_folder.own_folder() == tmp_path / "there"
    user_folder.own_folder.cache_clear()
    monkeypatch.setattr("sys.argv", ["app.py"])
    assert user_folder.own_folder() == tmp_path / "other"
    user_folder.own_folder.cache_clear()
    monkeypatch.delenv(user_folder.VARIABLE)
    assert user_folder.own_folder() is None


@pytest.mark.parametrize(("lang", "said"), [("en", "at most 3 MB can arrive"), ("zh", "最多只能接收 3 MB")])
def test_a_server_that_is_nearly_full_says_so_before_a_file_is_sent(
    monkeypatch: pytest.MonkeyPatch, lang: str, said: str
):
    assert not opened().warning
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3 * MEGABYTE + 5))
    assert said in opened(lang=lang).warning[0].value


@pytest.mark.parametrize(("lang", "said"), [("en", "may have at most 2 MB together"), ("zh", "总共最多 2 MB")])
def test_memory_that_holds_few_folders_says_so_before_a_zip_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lang: str, said: str
):
    """What arrives has room; what is unpacked of it has less."""
    monkeypatch.setattr(unpacked, "MEMORY", tmp_path)
    real = shutil.disk_usage
    small = SimpleNamespace(free=2 * MEGABYTE + 5)
    monkeypatch.setattr("shutil.disk_usage", lambda place: small if place == tmp_path else real(place))
    (warning,) = opened(lang=lang).warning
    assert said in warning.value


def test_a_folder_of_ones_own_stands_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "mine"
    (folder / "paper").mkdir(parents=True)
    (folder / "paper" / "model.pt").write_bytes(ANNOTATED)
    (folder / "broken.pt").write_bytes(b"nothing")
    save_tiny(folder)
    outside = tmp_path / "outside.pt"
    outside.write_bytes(ANNOTATED)
    (folder / "link.pt").symlink_to(outside)
    monkeypatch.setattr(user_folder, "own_folder", lambda: folder)
    page = opened(model="mine/paper")
    assert page.selectbox(key="model").options == ["mine/broken.pt", "mine/paper", "mine/tiny", "tiny"]
    assert page.selectbox(key="model").value == "mine/paper"
    assert "link that leads out" in page.warning[0].value
    assert "The Annotated Transformer" in page.warning[1].value
    page.selectbox(key="model").set_value("mine/broken.pt")
    page.run()
    assert any("neither safetensors nor" in warning.value for warning in page.warning)
    page.switch_page("pages/translate.py").run()
    assert page.selectbox(key="model").options == ["tiny", "mine/paper", "mine/tiny"]


def test_a_folder_of_images_is_refused_with_the_lines_that_record_it(tmp_path: Path):
    config = {"model_type": "vit", "image_size": 12, "patch_size": 4}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("seer/config.json", json.dumps(config))
        made.writestr("seer/model.safetensors", save({"weight": torch.ones(2, 3)}))
    page = brought(opened(), **{"seer.zip": archive.getvalue()})
    assert "vit is no model of text" in page.warning[0].value
    first, second, third = next(code.value for code in page.code if "grid" in code.value).splitlines()
    assert (first, second) == ("from transformer import recording", "with recording(model) as seen: model(**inputs)")
    assert third == "seen.record(model='seer', grid=(3, 3)).save(\"run.heedmap\")"

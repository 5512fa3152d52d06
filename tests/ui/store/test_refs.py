"""The names of checkpoints in lists and addresses are read in one place."""

import ast
from pathlib import Path

import pytest

from ui.store.refs import CheckpointRef, Origin

ROOT = Path(__file__).parents[3]
NAMES = {
    "multi30k-en-de": CheckpointRef(Origin.SHIPPED, "multi30k-en-de"),
    "multi30k-en-de@000400": CheckpointRef(Origin.SHIPPED, "multi30k-en-de", "000400"),
    "mine/model@3.pt": CheckpointRef(Origin.USER_FOLDER, "model@3.pt"),
    "upload/a-2": CheckpointRef(Origin.UPLOAD, "a-2"),
    "upload/mine": CheckpointRef(Origin.UPLOAD, "mine"),
    "uploads": CheckpointRef(Origin.SHIPPED, "uploads"),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_read_and_written_as_it_was(text: str) -> None:
    assert CheckpointRef.parse(text) == NAMES[text]
    assert str(NAMES[text]) == text


def test_only_uploads_belong_to_one_session() -> None:
    assert [text for text, ref in NAMES.items() if ref.private] == ["upload/a-2", "upload/mine"]


def test_a_snapshot_is_one_of_its_base() -> None:
    ref = NAMES["multi30k-en-de"].at("000400")
    assert (str(ref), str(ref.base), ref.base.base) == ("multi30k-en-de@000400", "multi30k-en-de", ref.base)


def test_nothing_else_knows_how_names_are_made() -> None:
    prefixes = {origin.value for origin in Origin if origin.value} | {"@"}
    files = [path for folder in ("ui", "pages") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 40
    found = {
        path.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in prefixes
    }
    assert found == {"refs.py"}

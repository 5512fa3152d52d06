"""From page to page by the menu: what was chosen on one page is not taken for a choice on the next."""

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.tiny import save_tiny
from transformer.checkpoint.ours.folder import save_folder

APP = str(Path(__file__).parents[2] / "app.py")
PAGES = ("translate", "align", "sequences", "checkpoints", "attention_steps", "masks", "positions")
ODD: dict[str, dict[str, Any]] = {
    "translate": {
        "head": "0",
        "layer": "0",
        "kind": "encoder.self",
        "view": "head_view",
        "text": "two dogs",
        "beam": "2",
    },
    "align": {"screen": "changes", "target": "second", "text": "two dogs"},
    "sequences": {"head": "1", "layer": "0", "view": "heads", "lang": "en"},
    "checkpoints": {
        "model": "tiny",
        "show": "attention",
        "head": "1",
        "kind": "encoder.self",
        "input": "two",
        "map": "downloads",
    },
    "attention_steps": {"made": "shipped", "screen": "board", "at_head": "1", "source": "two dogs"},
    "masks": {"made": "shipped", "screen": "break", "how": "no_padding", "at_head": "1"},
    "positions": {"screen": "rotation", "d_table": "12"},
}
"""An address of each page that is full of what its controls are not at first."""


@pytest.fixture(autouse=True)
def _shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    small = sequence_checkpoint()
    save_folder(tmp_path / "letters", "kmer", small.model, task=small.task, examples=("ACGTTGCAAGTGTCAGTTGACGTACC",))


def at(page: str, **address: str) -> AppTest:
    """A session that starts on a page with an address."""
    return go(AppTest.from_file(APP, default_timeout=120), page, **address)


def go(session: AppTest, page: str, **address: str) -> AppTest:
    """To a page by the menu, which leaves the old address behind; or with an address."""
    session.query_params.clear()
    session.query_params.update(address)
    session.switch_page(f"pages/{page}.py").run()
    assert not session.exception
    return session


def controls(session: AppTest) -> dict[str, Any]:
    """The values of a page's controls by key."""
    kinds = ("button_group", "selectbox", "slider", "number_input", "toggle", "text_input", "text_area")
    return {
        f"{kind} {one.key}": one.value
        for kind in kinds
        for one in session.get(kind)
        if one.key not in {"model", "lang"}
    }


def address(session: AppTest) -> str:
    found = {key: value for key, value in dict(session.query_params).items() if key not in {"model", "lang"}}
    return json.dumps(found, sort_keys=True)


@pytest.mark.parametrize("first", PAGES)
def test_every_page_starts_as_it_does_alone_whatever_was_chosen_before(first: str) -> None:
    session = at(first, **ODD[first])
    for second in PAGES:
        if second == first:
            continue
        alone = at(second)
        went = go(session, second)
        assert (second, address(went), controls(went)) == (second, address(alone), controls(alone))
        session = go(session, first, **ODD[first])

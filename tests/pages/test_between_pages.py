"""From page to page by the menu: what was chosen on one page is not taken for a choice on the next."""

import json
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import PATIENCE, ROOT, options, ran
from tests.pages.tiny import save_tiny
from tests.pages.walks import PAGES
from transformer.checkpoint.ours.folder import save_folder

ODD: dict[str, dict[str, Any]] = {
    "map": {"part": "output", "temperature": "2.0", "model": "tiny", "text": "two dogs"},
    "translate": {
        "head": "0",
        "layer": "0",
        "kind": "encoder.self",
        "view": "head_view",
        "text": "two dogs",
        "beam": "2",
    },
    "align": {"screen": "changes", "target": "second", "text": "two dogs"},
    "sequences": {"head": "1", "layer": "0", "view": "windows", "lang": "en"},
    "your_model": {
        "model": "tiny",
        "show": "attention",
        "head": "1",
        "kind": "encoder.self",
        "input": "two",
        "map": "downloads",
    },
    "attention_steps": {"made": "shipped", "screen": "board", "at_head": "1", "source": "two dogs"},
    "inside_layer": {"made": "shipped", "stage": "output", "text": "two dogs", "position": "1"},
    "masks": {"made": "shipped", "screen": "break", "how": "no_padding", "at_head": "1"},
    "positions": {"screen": "rotation", "d_table": "12"},
}
"""An address of each page that is full of what its controls are not at first."""

SUBJECT = {"model", "text", "sequence", "word", "lang"}
"""What goes along from page to page."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator and a classifier in the place of the shipped ones."""
    made = tmp_path_factory.mktemp("checkpoints")
    save_tiny(made)
    small = sequence_checkpoint()
    save_folder(made / "letters", "kmer", small.model, task=small.task, examples=("ACGTTGCAAGTGTCAGTTGACGTACC",))
    return made


@pytest.fixture(autouse=True)
def _shipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", folder)


def at(page: str, **address: str) -> AppTest:
    """A session that starts on a page with an address."""
    return go(AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE), page, **address)


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
    return {f"{kind} {one.key}": one.value for kind in kinds for one in session.get(kind) if one.key not in SUBJECT}


def address(session: AppTest) -> str:
    found = {key: value for key, value in dict(session.query_params).items() if key not in SUBJECT}
    return json.dumps(found, sort_keys=True)


@cache
def alone(page: str, model: str | None) -> tuple[str, dict[str, Any]]:
    """The address and the controls of a page that a session starts with; its checkpoint may be another's choice."""
    session = at(page, **({} if model is None else {"model": model}))
    return address(session), controls(session)


def test_every_page_starts_as_it_does_alone_whatever_was_chosen_before() -> None:
    """One session sets all controls of all pages before it goes from page to page, and sets them on each again."""
    session = at(PAGES[0], **ODD[PAGES[0]])
    for page in PAGES:
        assert address(go(session, page, **ODD[page])) != "{}"
    for page in PAGES:
        go(session, page)
        models = [one.value for one in session.selectbox if one.key == "model"]
        assert (page, address(session), controls(session)) == (page, *alone(page, *(models or [None])))
        go(session, page, **ODD[page])


def test_what_is_moved_on_a_page_stays_there() -> None:
    """Both pages ask for a seed and begin without a query, so no query tells that another page is open."""
    session = at("attention_steps")
    session.number_input(key="seed").set_value(7).run()
    assert address(session) == '{"seed": "7"}'
    session = go(session, "inside_layer")
    assert (address(session), controls(session)) == alone("inside_layer", None)


def test_the_language_goes_along() -> None:
    session = at("translate", lang="zh")
    title = session.title[0].value
    session = go(session, "masks")
    assert session.title[0].value != go(at("masks"), "masks").title[0].value
    assert go(session, "translate").title[0].value == title


def test_what_a_page_is_left_with_comes_back_with_its_address_alone() -> None:
    def shown(session: AppTest) -> tuple[dict[str, Any], Any]:
        return controls(session), options(session, "sequence-head-choice")["drawn"]

    session = at("sequences", head="1", layer="0", view="windows")
    kept = shown(session)
    assert kept[1] == ["encoder.self", 0, 1]
    go(session, "translate")
    assert all(now != before for now, before in zip(shown(go(session, "sequences")), kept, strict=True))
    assert shown(go(at("translate"), "sequences", head="1", layer="0", view="windows")) == kept


def test_the_menu_leads_to_the_same_sentence_word_and_model_where_a_page_can_show_them() -> None:
    """What was just typed is in its links already, for whoever opens one apart; a DNA classifier gets no sentence."""

    def link(session: AppTest, page: str) -> dict[str, str]:
        found = next(one.proto for one in session.get("page_link") if one.proto.page == page)
        return dict(parse_qsl(found.query_string))

    session = at("map", model="tiny")
    ran(session, text="two dogs")
    assert link(session, "translate") == {"model": "tiny", "text": "two dogs"}
    assert link(session, "what_if") == link(session, "translate")
    assert link(session, "align") == {"model": "tiny", "text": "two dogs"}
    assert link(session, "sequences") == {}
    go(session, "sequences")
    assert "sequence" not in session.query_params
    assert link(session, "what_if") == {"model": "tiny", "text": "two dogs"}
    go(session, "translate", **link(session, "translate"), view="sources")
    words = session.selectbox(key="word").options
    session.selectbox(key="word").set_value(words[1]).run()
    go(session, "what_if", **link(session, "what_if"))
    assert session.text_area(key="text").value == "two dogs"
    assert session.query_params["word"] == words[1]
    assert session.slider(key="step").value > 0
    ran(session, text="a red dog")
    go(session, "translate", **link(session, "translate"))
    assert (session.query_params["text"], "word" in session.query_params) == ("a red dog", False)

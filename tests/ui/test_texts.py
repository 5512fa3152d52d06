"""The catalogue is whole: every text in every language, with the same blanks, and every key that the code asks for."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from transformer.errors import CheckpointError, InputError
from transformer.messages import Message, catalogue, say
from ui import texts
from ui.shared.controls import sentence
from ui.store import store
from ui.texts import KEY, begins_with_a_word, in_this_language, one_language, plain, said, t

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {"t": 0, "plain": 0, "in_language": 1}
"""What asks for a text, and the place of the key among its arguments."""


def keys(tree: ast.AST) -> Iterator[str]:
    """Regular expressions for the keys that a module asks for; what is computed may be anything."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        asked = [keyword.value for keyword in node.keywords if keyword.arg == "spinner"]
        if name in FUNCTIONS and len(node.args) > FUNCTIONS[name]:
            asked.append(node.args[FUNCTIONS[name]])
        for argument in asked:
            yield from patterns(argument)


def patterns(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant):
        return [re.escape(str(node.value))]
    if isinstance(node, ast.JoinedStr):
        return ["".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values)]
    if isinstance(node, ast.IfExp):
        return [*patterns(node.body), *patterns(node.orelse)]
    return []


def asked_for() -> dict[str, str]:
    """Every key that the code asks for, and a file that does."""
    files = [file for folder in ("pages", "ui") for file in (ROOT / folder).rglob("*.py")]
    return {key: file.name for file in [ROOT / "app.py", *files] for key in keys(ast.parse(file.read_text("utf-8")))}


def test_every_key_that_the_code_asks_for_is_there() -> None:
    known = [code for code in catalogue("en") if "." in code]
    asked = asked_for()
    assert len(asked) > 400
    assert {key: file for key, file in asked.items() if not any(re.fullmatch(key, one) for one in known)} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("""t("a.b")""", ["a.b"]),
        ("""st.text(f"{t('a.b')} {plain(f'a.{x}_c')}")""", ["a.b", "a..+_c"]),
        ("""t("a.b" if x else "a.c", y=plain("d.e"))""", ["a.b", "a.c", "d.e"]),
        ("""in_language("zh", "a.b")""", ["a.b"]),
        ("""cached(max_entries=3, spinner="store.loading")""", ["store.loading"]),
        ("""other("a.b")""", []),
    ],
)
def test_keys_are_found_wherever_they_stand(source: str, found: list[str]) -> None:
    assert sorted(key.replace("\\", "") for key in keys(ast.parse(source))) == sorted(found)


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "zh")


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("checkpoint_not_here", {"name": "nothing"}),
        ("upload_too_large", {"name": "a.pt", "found": "9.0 MB", "most": "2.0 MB"}),
        ("sequence_too_much", {"count": 12_345, "longest": 999}),
    ],
)
def test_errors_are_told_in_the_language_of_the_user_with_all_their_fields(code: str, fields: dict[str, Any]) -> None:
    told = said(InputError(code, **fields).message)
    assert re.search("[\u4e00-\u9fff]", told)
    assert not re.search(r"[{}]|\b(is|has|choose|paste)\b", told)
    assert all(str(value) in told.replace(",", "") for value in fields.values())


@pytest.mark.usefixtures("chinese")
def test_what_a_page_shows_of_an_error_is_a_chinese_sentence() -> None:
    with pytest.raises(CheckpointError) as raised:
        store.revision("nothing")
    told = raised.value.message
    assert isinstance(told, Message)
    assert sentence(told) == f"{told.in_language('zh')}\u3002"


@pytest.mark.usefixtures("chinese")
def test_any_other_text_stays_as_it_is() -> None:
    assert said("something else {x}: do that") == "something else {x}: do that"


def test_what_a_download_makes_is_in_the_language_of_the_run_that_offered_it(monkeypatch: pytest.MonkeyPatch) -> None:
    message = InputError("checkpoint_not_here", name="x").message
    monkeypatch.setattr(texts, "language", lambda: "zh")
    made = in_this_language(lambda: say(message))
    monkeypatch.setattr(texts, "language", lambda: "en")
    assert isinstance(message, Message)
    assert made() == message.in_language("zh")
    assert say(message) == message


def test_only_words_of_ours_get_a_capital() -> None:
    assert begins_with_a_word(InputError("no_sequence").message)
    assert not begins_with_a_word(InputError("upload_not_here", name="words.txt").message)


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("text", [t, plain])
def test_what_the_library_says_inside_a_text_is_in_the_language_of_the_text(text: Callable[..., str]) -> None:
    message = InputError("no_sequence").message
    assert isinstance(message, Message)
    told = text("atlas.own_skipped", count=1, line=2, reason=message)
    assert message.in_language("zh") in told
    assert message not in told


def test_a_run_asks_once_for_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {KEY: "zh"}
    monkeypatch.setattr("streamlit.session_state", state)
    with one_language():
        state[KEY] = "en"  # of the next run
        assert texts.language() == "zh"
    assert texts.language() == "en"

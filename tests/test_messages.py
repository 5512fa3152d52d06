"""Every sentence has a code, and a text with the same fields in every language."""

import ast
import copy
import pickle
import threading
from collections.abc import Iterator
from string import Formatter

import pytest

from tests.imports import name_of, relative, sources
from transformer import errors
from transformer.errors import HeedmapError, InputError
from transformer.messages import LANGUAGES, Message, catalogue, say, speaking, words

ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, HeedmapError)}
SOURCES = sources("transformer", "ui", "pages", "app.py")
MAKERS = (
    "transformer/messages/",
    "transformer/errors.py",
    "transformer/checkpoint/safe/refusal.py",
    "transformer/checkpoint/worker/told.py",
)
"""Modules that make messages of codes that they are given."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of this test's own."""
    texts = {
        "en": {"noun": "source", "count": "the {what} has {n:,} of {items}", "plain": "nothing"},
        "zh": {"noun": "源句", "count": "{what}有 {n:,} 个[{items}]", "plain": "没有"},
    }
    monkeypatch.setattr("transformer.messages.catalogue", texts.__getitem__)


def fields_of(text: str) -> set[str]:
    """The names that a text puts in."""
    return {name.partition(".")[0].partition("[")[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_language_says_everything_with_the_same_fields() -> None:
    first = catalogue(LANGUAGES[0])
    for language in LANGUAGES[1:]:
        other = catalogue(language)
        assert first.keys() == other.keys()
        wrong = [code for code, text in first.items() if fields_of(text) != fields_of(other[code])]
        assert not wrong


def test_a_message_is_its_english_text_and_is_said_in_any_language(small: None) -> None:
    message = Message("count", what=Message("noun"), n=12_345, items=("a", Message("noun")))
    assert message == "the source has 12,345 of a, source"
    assert message.in_language("zh") == "源句有 12,345 个[a、源句]"
    assert say(message) == message
    with speaking("zh"):
        assert say(message) == message.in_language("zh")
        assert (say("as it is"), words("plain")) == ("as it is", "没有")
    assert words("plain") == "nothing"


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_can_still_be_translated(small: None, copied: object) -> None:
    message = copied(Message("count", what=Message("noun"), n=2, items=()))
    assert message.in_language("zh").startswith("源句")
    error = copied(InputError("count", what=Message("noun"), n=3, items=("x",)))
    assert (type(error), error.code, error.fields["n"]) == (InputError, "count", 3)
    assert error.message.in_language("zh") == "源句有 3 个[x]"


def test_threads_do_not_mix_their_languages(small: None) -> None:
    found: dict[str, str] = {}
    entered = threading.Barrier(2)

    def speak(language: str) -> None:
        with speaking(language):
            entered.wait(timeout=30)
            found[language] = words("plain")

    threads = [threading.Thread(target=speak, args=(language,)) for language in LANGUAGES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"en": "nothing", "zh": "没有"}


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a function of one of these names, with its place."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in names:
                    yield f"{relative(path)}:{node.lineno}", node


def test_every_message_has_a_code_of_the_catalogue_and_its_fields() -> None:
    known, wrong = catalogue(LANGUAGES[0]), []
    for place, call in calls("Message", "words", "refused", *ERRORS):
        if place.startswith(MAKERS):
            continue
        code = call.args[0] if call.args else None
        if isinstance(code, ast.JoinedStr) and isinstance(code.values[0], ast.Constant):
            prefix = str(code.values[0].value)  # a family of codes: one for each of several values
            if not any(one.startswith(prefix) for one in known):
                wrong.append(f"{place}: no code starts with {prefix!r}")
        elif isinstance(code, ast.Constant) and isinstance(code.value, str):
            if code.value not in known:
                wrong.append(f"{place}: {code.value!r} is in no catalogue")
            elif all(word.arg for word in call.keywords):
                given, asked = {str(word.arg) for word in call.keywords}, fields_of(known[code.value])
                if given != asked:
                    wrong.append(f"{place}: {code.value} asks for {sorted(asked)}, is given {sorted(given)}")
        else:
            wrong.append(f"{place}: the first argument is no code")
    assert not wrong, "\n".join(wrong)


def test_every_text_is_used() -> None:
    whole = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    families = {
        str(call.args[0].values[0].value)
        for _, call in calls("Message", "words", *ERRORS)
        if call.args and isinstance(call.args[0], ast.JoinedStr) and isinstance(call.args[0].values[0], ast.Constant)
    }
    unused = [
        code
        for code in catalogue(LANGUAGES[0])
        if f'"{code}"' not in whole and not any(family and code.startswith(family) for family in families)
    ]
    assert not unused


def test_modules_of_the_library_are_all_read() -> None:
    assert {"transformer.runs.translate", "transformer.checkpoint.load"} <= {name_of(path) for path in SOURCES}

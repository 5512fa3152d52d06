"""What is raised and noted: each code stands in the catalogue, with the very fields that its sentence names."""

import ast
import string
import tomllib
from pathlib import Path

import pytest

from transformer.messages import LANGUAGES, catalogue

LIBRARY = Path(__file__).resolve().parent.parent / "transformer"
ROOMS = ("layers", "models", "decoding", "attention", "sequences", "runs", "tokens", "pictures")
NAMED = {"Message", "ConfigError", "InputError", "CheckpointError", "RecordError", "TrainingError"}


def said() -> list[tuple[str, ast.expr, frozenset[str]]]:
    """Every message and error that is made: where, the first argument, and the names of the fields."""
    found = []
    for room in ROOMS:
        for path in sorted((LIBRARY / room).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMED:
                    where = f"{room}/{path.name}:{node.lineno}"
                    found.append((where, node.args[0], frozenset(word.arg or "**" for word in node.keywords)))
    return found


def codes(argument: ast.expr) -> list[str]:
    """The codes that an argument may be: a literal, or one of two."""
    if isinstance(argument, ast.IfExp):
        return codes(argument.body) + codes(argument.orelse)
    assert isinstance(argument, ast.Constant), ast.unparse(argument)
    return [argument.value]


def blanks(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name)


def test_every_code_is_known_and_gets_the_fields_that_its_sentence_names() -> None:
    english = catalogue("en")
    wrong = [
        f"{where}: {code} with {', '.join(sorted(fields))}"
        for where, argument, fields in said()
        for code in codes(argument)
        if code not in english or blanks(english[code]) != fields
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_everything_in_every_language(room: str) -> None:
    files = [LIBRARY / "messages" / language / f"{room}.toml" for language in LANGUAGES]
    known = [list(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]
    assert known[0]
    assert all(codes == known[0] for codes in known)
    for code in known[0]:
        assert len({blanks(catalogue(language)[code]) for language in LANGUAGES}) == 1, code

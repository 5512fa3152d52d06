"""The catalogue is whole: every text in every language, with the same blanks, and every key that the code asks for."""

import re
from pathlib import Path
from string import Formatter

import pytest

from ui.texts import LANGUAGES, catalogue

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [(page, name) for page, texts in catalogue().items() for name in texts]
CALL = re.compile(r'\bt\(\s*f?"([a-z_]+\.[^"]+)"')


def blanks(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(("page", "name"), TEXTS)
def test_every_text_stands_in_every_language_with_the_same_blanks(page: str, name: str):
    texts = catalogue()[page][name]
    assert set(texts) == set(LANGUAGES)
    assert all(text.strip() for text in texts.values())
    assert len({frozenset(blanks(text)) for text in texts.values()}) == 1


def calls() -> list[str]:
    files = [file for folder in ("pages", "ui") for file in (ROOT / folder).rglob("*.py")]
    return sorted({key for file in files for key in CALL.findall(file.read_text("utf-8"))})


@pytest.mark.parametrize("key", calls())
def test_every_key_that_the_code_asks_for_is_there(key: str):
    """A key with a blank (an f-string) must match at least one text."""
    page, name = key.split(".", 1)
    pattern = re.compile(re.sub(r"\\\{.*?\\\}", ".+", re.escape(name)))
    assert any(pattern.fullmatch(text) for text in catalogue().get(page, {})), key

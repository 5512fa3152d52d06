"""Words as people count them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.explain.attribution.gold import words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("A man, alone.", ["A", "man", ",", "alone", "."]),
        ("her dad's T-Shirt", ["her", "dad's", "T-Shirt"]),
        ("ein blau-rot-weißes", ["ein", "blau-rot-weißes"]),
        ("Garten- und Arbeit", ["Garten", "-", "und", "Arbeit"]),
        ("a--b -c d' 'e", ["a", "-", "-", "b", "-", "c", "d", "'", "'", "e"]),
        ("3.5 m\t(wide)\n", ["3", ".", "5", "m", "(", "wide", ")"]),
        ("l\u2019été 🎉!", ["l\u2019été", "🎉", "!"]),
    ],
)
def test_the_words_of_a_sentence(text: str, words: list[str]) -> None:
    assert words_of(text) == tuple(words)


@given(st.text())
def test_words_are_the_text_without_its_spaces(text: str) -> None:
    assert "".join(words_of(text)) == "".join(text.split())

"""Names of downloaded files: they say what is in the file, and are safe on every system."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.plots.file_names import file_name


@pytest.mark.parametrize(
    ("text", "parts", "name"),
    [
        (
            "A man in a blue shirt is riding a bicycle.",
            ("multi30k-en-de", "decoder.2.cross", "head 1"),
            "A-man-in-a-blue_multi30k-en-de_decoder.2.cross_head-1",
        ),
        ("", ("huggingface/bert@0001", "mean of 4 heads"), "huggingface-bert-0001_mean-of-4-heads"),
        ("../../etc/passwd", ("..", "x"), "etc-passwd_x"),
        ("--rf .hidden", (), "rf-hidden"),
        ("=cmd|' /C calc'!A0", ('a\\b:c*d?<e>"|\0\n',), "cmd-C-calc-A0_a-b-c-d-e"),
        ("一个男人在街上", ("模型",), "一个男人在街上_模型"),
        ("Cafe\u0301 \u202egnp.exe", (), "Café-gnp-exe"),
        ("NUL", (), "_NUL"),
        ("con", ("",), "_con"),
        ("\ud800", ("...",), "heedmap"),
    ],
)
def test_a_name_says_what_is_in_the_file(text: str, parts: tuple[str, ...], name: str) -> None:
    assert file_name(*parts, text=text) == name


@given(st.text(), st.lists(st.text(), max_size=4))
def test_no_text_makes_a_name_that_is_unsafe_or_long(text: str, parts: list[str]) -> None:
    name = file_name(*parts, text=text)
    assert name
    assert len(name.encode()) <= 181
    assert name[0] not in "-.", name
    assert name[-1] not in "-. "
    assert ".." not in name
    assert {unicodedata.category(letter)[0] for letter in re.sub(r"[-_.]", "", name)} <= set("LMN")
    assert Path(name).name == name


def test_long_words_and_parts_are_cut_between_characters(tmp_path: Path) -> None:
    name = file_name("界" * 300, text="é" * 300)
    assert name.startswith("é" * 24 + "_界")
    (tmp_path / f"{name}.csv").touch()
    assert file_name(f"{'a' * 179}.b") == "a" * 179, "no dot at the end"

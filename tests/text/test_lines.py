"""Only a line feed ends a line, so line i of a translation is line i of its source."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.text.lines import read_lines, split_lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n\na", ["", "", "a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
    ],
)
def test_lines_of_a_file(content: bytes, lines: list[str]) -> None:
    assert split_lines(content, "the input") == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))))
def test_what_was_joined_is_split_again(lines: list[str]) -> None:
    assert split_lines("".join(line + "\n" for line in lines).encode(), "the input") == lines


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(InputError, match=r"line 3 of the input is not UTF-8 \(byte 0xfc\): convert it"):
        split_lines("gut\n\nGrüße\n".encode("latin-1"), "the input")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_bytes(b"a\nb\n")
    assert read_lines(tmp_path / "a.en") == ["a", "b"]
    with pytest.raises(InputError, match=r"b\.en cannot be read \(No such file or directory\)"):
        read_lines(tmp_path / "b.en")

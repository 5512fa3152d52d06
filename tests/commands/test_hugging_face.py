"""Hugging Face folders on the command line: inspected, translated with, and not converted."""

import io
import sys
from pathlib import Path

import pytest

from tests.checkpoint.huggingface.families import write_folder
from transformer import DecodingOptions, load, translate
from transformer import __main__ as command_line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("mine") / "marian", "marian")


def test_inspect_names_the_family_and_lists_the_tensors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["inspect", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "marian is a Hugging Face folder: marian, encoder-decoder (100% of the names and shapes match)" in out
    assert "decoder_attention" not in out
    assert "q_proj" in out


def test_translate_writes_what_the_library_of_the_house_does(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["the dog runs.", "", "the cat eats."]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    assert command_line.main(["translate", str(folder), "--quiet", "--max-length", "6", "--beam", "2"]) == 0
    written = capfdbinary.readouterr().out.decode().split("\n")
    options = DecodingOptions(beam=2, max_length=6)
    expected = [translate(load(folder), line, options).text if line else "" for line in lines]
    assert written == [*expected, ""]


def test_convert_says_that_there_is_nothing_to_convert(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["convert", str(folder), str(tmp_path / "out")]) == 2
    assert "marian is a Hugging Face folder, which is read as it is" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

"""Streams that are closed, disks that are full, paths that cannot be written: a sentence and a status, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.references import reference_file
from transformer import __main__ as command_line

ROOT = Path(__file__).parents[2]
ANNOTATED = reference_file("annotated")


def shell(line: str, **values: object) -> subprocess.CompletedProcess[str]:
    """A line of shell, in which `heedmap` is the command line."""
    command = line.replace("heedmap", f"{sys.executable} -m transformer").format(file=ANNOTATED, **values)
    return subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("heedmap translate {file} --quiet <&-", "error: the output: read"),
        ("heedmap inspect {file} >&-", "error: the output: not writable"),
        ("heedmap inspect {file} > /dev/full", "error: the output: No space left on device"),
    ],
)
def test_what_cannot_be_read_or_written_is_a_sentence(line: str, said: str, tmp_path: Path):
    found = shell(line, out=tmp_path)
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert "Exception ignored" not in found.stderr
    assert found.returncode == 2


def test_a_closed_stderr_changes_no_status(tmp_path: Path):
    assert shell("heedmap convert {file} {out}/there --answer n_heads=3 2>&-", out=tmp_path).returncode == 0
    assert (tmp_path / "there" / "model.safetensors").stat().st_size > 0


@pytest.mark.parametrize("out", ["/proc/x", "/dev/null/x"])
def test_a_folder_that_cannot_be_made_is_a_sentence(out, capsys):
    assert command_line.main(["convert", str(ANNOTATED), out, "--answer", "n_heads=3"]) == 2
    assert f"error: {out.removesuffix('/x') if 'null' in out else out}" in capsys.readouterr().err


@pytest.mark.parametrize("path", [".", "./", "sub/.."])
def test_a_folder_without_a_name_of_its_own_is_named(path, tmp_path, monkeypatch, capsys):
    (tmp_path / "holder" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "holder")
    assert command_line.main(["inspect", path]) == 2
    assert capsys.readouterr().err.startswith("error: holder holds no single file of weights")


def test_the_root_has_no_name(capsys):
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["inspect", "/"])
    assert "'/' has no name: give a file or a folder below it" in capsys.readouterr().err

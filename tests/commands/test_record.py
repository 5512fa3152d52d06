"""`python -m transformer record`: a record file in numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.record_files.samples import Samples
from transformer.__main__ import main


def test_every_head_of_a_record_file_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = replace(Samples(2, torch.float64).record(), text="a \x1b[2Jb")
    path = tmp_path / "run.heedmap"
    record.save(path)
    assert main(["record", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["model: a model 猫", "text: a \\x1b[2Jb"]
    assert sum(line.split()[:1] == ["encoder.1.self"] for line in lines) == 6
    assert main(["record", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    table = record.measures()
    assert [(row["site"], row["head"]) for row in rows] == list(zip(table["site"], table["head"], strict=True))
    assert rows[3]["entropy"] == pytest.approx(table["entropy"][3], abs=1e-9)


def test_a_file_that_is_no_record_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.heedmap"
    path.write_bytes(b"nothing")
    assert main(["record", str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: x.heedmap is refused: it is no file that record.save wrote")

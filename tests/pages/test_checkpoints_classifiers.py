"""The page Your model on the files of a sequence classifier: its attention, and the probabilities of every page."""

from pathlib import Path

import pytest

from tests.pages.opening import brought, ran, table
from tests.pages.test_checkpoints import opened
from transformer import load
from transformer.runs.sequences.classify import classify
from transformer.sequences.task import SequenceTask

pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""
SHIPPED = Path(__file__).parents[2] / "checkpoints"


@pytest.mark.parametrize("name", ["splice-junctions", "core-promoters"])
def test_a_shipped_classifiers_own_files_run_and_are_calibrated_as_everywhere(name: str):
    checkpoint = load(SHIPPED / name)
    assert isinstance(checkpoint.task, SequenceTask)
    letters = ("ACGTTGCA" * 40)[: checkpoint.task.length]
    expected = classify(checkpoint, letters)
    files = {file: (SHIPPED / name / file).read_bytes() for file in ("model.safetensors", "config.json")}
    page = brought(opened(), **files)
    ran(page, input=" ".join(map(str, expected.letters.ids)))
    shown = table(page, *expected.classes)
    assert shown.iloc[0].to_list() == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert any(f"{checkpoint.task.temperature:g}" in mark.value for mark in page.markdown)

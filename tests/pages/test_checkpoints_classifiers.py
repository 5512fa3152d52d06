"""The page Your model on the files of a sequence classifier: its attention, and the probabilities of every page."""

from pathlib import Path

import pytest

from tests.pages.test_checkpoints import brought, fine, opened
from transformer import load
from transformer.runs.sequences.classify import classify
from transformer.sequences.task import SequenceTask

SHIPPED = Path(__file__).parents[2] / "checkpoints"


@pytest.mark.parametrize("name", ["splice-junctions", "core-promoters"])
def test_a_shipped_classifiers_own_files_run_and_are_calibrated_as_everywhere(name: str):
    checkpoint = load(SHIPPED / name)
    assert isinstance(checkpoint.task, SequenceTask)
    letters = ("ACGTTGCA" * 40)[: checkpoint.task.length]
    expected = classify(checkpoint, letters)
    files = {file: (SHIPPED / name / file).read_bytes() for file in ("model.safetensors", "config.json")}
    page = brought(opened(), **files)
    page.text_input(key="input").set_value(" ".join(map(str, expected.letters.ids)))
    page.button[[button.label for button in page.button].index("Run")].click()
    shown = next(frame.value for frame in fine(page.run()).dataframe if len(frame.value) == 1)
    assert list(shown.columns) == list(expected.classes)
    assert shown.iloc[0].to_list() == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert any(f"{checkpoint.task.temperature:g}" in mark.value for mark in page.markdown)

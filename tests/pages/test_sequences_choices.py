"""What of one sequence is looked at: which of several pasted records, and its known letters."""

from dataclasses import replace
from pathlib import Path

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import sent
from tests.pages.test_sequences import fine, page, shipped
from transformer import Checkpoint
from transformer.checkpoint.ours.folder import save_folder
from transformer.runs.sequences.classify import classify

__all__ = ["shipped"]  # a fixture that every test here takes


def test_known_letters_are_boxed_only_where_they_stand() -> None:
    at = fine(page())
    assert sent(at, "tracks")[0]["spans"] == [{"first": 12, "last": 13, "name": "donor GT"}]
    at.text_area(key="sequence").set_value("ACGTTGCANGTACCAGTTGACGT")
    fine(at.button(key="FormSubmitter:sequence-form-Run").click().run())
    assert not sent(at, "tracks")[0]["spans"]
    said = " ".join(caption.value for caption in at.caption)
    assert "Not as known: donor GT (from letter 12, AC stands there)." in said


def test_one_of_several_pasted_records_is_chosen_and_stands_in_the_address(shipped: Checkpoint) -> None:
    text = ">a\nACGTACGTTT\n>b EI\nGGGTTTACGACG\n>c\nTTTACGCCC\n"
    at = fine(page(sequence=text, pasted="2"))
    run = classify(shipped, "GGGTTTACGACG")
    assert at.subheader[0].value == f"{run.classes[run.predicted]}, probability {run.probabilities.max():.3f}"
    assert at.selectbox(key="pasted").options == ["1: a (10)", "2: b (12)", "3: c (9)"]
    fine(at.selectbox(key="pasted").set_value("3").run())
    assert "9 letters" in " ".join(caption.value for caption in at.caption)
    assert at.query_params["pasted"] == "3"
    at.text_area(key="sequence").set_value(">d\nACGTACGTA\n>e\nGGGTTTACGACG")
    fine(at.button(key="FormSubmitter:sequence-form-Run").click().run())
    assert at.selectbox(key="pasted").value == "1"
    assert "pasted" not in at.query_params


def test_probabilities_are_called_calibrated_only_where_they_are(tmp_path: Path) -> None:
    """One temperature was fitted, for sequences of the length that was trained on, which is 23."""
    plain = sequence_checkpoint()
    assert plain.task is not None
    save_folder(tmp_path / "plain", "kmer", plain.model, task=replace(plain.task, temperature=1.0))

    def said(model: str, sequence: str) -> str:
        at = fine(page(model=model, sequence=sequence))
        return " ".join([at.subheader[0].help, *(caption.value for caption in at.caption)])

    trained, other = "ACGTTGCANGTGTCAGTTGACGT", "ACGTTGCANGTG"
    assert "calibrated by one temperature" in said("small", trained)
    for model, sequence in (("small", other), ("plain", trained)):
        assert "Nothing says that these probabilities are calibrated" in said(model, sequence)

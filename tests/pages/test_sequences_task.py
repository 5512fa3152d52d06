"""A classifier whose files do not say what its letters and classes are: the page asks, and reads by the answer."""

import json
import re

import numpy as np
import torch

from tests.checkpoint.references import reference_file
from tests.pages.opening import fine, opened, with_heads
from transformer.checkpoint.foreign.bundle import bundle
from transformer.runs.sequences.classify import classify

SEQUENCE = "ACGTTGCATTGTGTCAGTTGACGT"


def test_letters_and_classes_that_no_file_names_are_asked_for_and_used() -> None:
    at = opened("your_model")
    at.file_uploader[0].set_value([("model.pt", reference_file("kmer").read_bytes(), "application/octet-stream")])
    fine(with_heads(at.run(), 4))
    at.query_params.update(model="upload/model", sequence=SEQUENCE)
    at = fine(at.switch_page("pages/sequences.py").run())
    assert "do not say what its letters and classes are" in at.info[0].value
    assert at.segmented_control(key="task-kind").value == "dna"

    def answer(letters: str, classes: str, background: str = "") -> None:
        at.text_input(key="task-letters-dna").set_value(letters)
        at.text_input(key="task-classes").set_value(classes)
        at.text_input(key="task-background").set_value(background)
        next(one for one in at.button if one.label == "Read sequences").click().run()
        assert not at.exception

    for wrong, says in (
        (("ACGX", "a, b, c"), "ACGX are not the letters ACGT"),
        (("acgu", "one, two"), "2 names, 3 outputs"),
        (("ACGT", "a, b, a"), "3 names, 3 outputs"),
        (("ACGT", "a, b, c", "d"), "d is none of these classes"),
    ):
        answer(*wrong)
        assert at.error[0].value.startswith(says)
    answer("T G C A", "coil, *sheet*；none", "none")  # noqa: RUF001
    assert not at.error
    kept = json.loads(at.code[0].value)
    assert kept["task"]["alphabet"]["letters"] == "TGCA"
    assert kept["task"]["background"] == "none"

    with reference_file("kmer").open("rb") as file:
        expected = bundle({"model.pt": file}).checkpoint({"n_heads": 4, "task": json.dumps(kept["task"])})
        assert torch.equal(torch.tensor(expected.task.alphabet.ids("TGCAN")), torch.arange(5))
    run = classify(expected, SEQUENCE)
    name, probability = re.fullmatch(r"(.*), probability (.*)", at.subheader[0].value).groups()
    assert name.replace("\\", "") == run.classes[run.predicted]
    assert float(probability) == round(float(run.probabilities.max()), 3)
    np.testing.assert_allclose(at.dataframe[0].value["as given"], run.probabilities, atol=1e-6)

    at.button(key="task-change").click().run()
    assert "do not say what its letters and classes are" in at.info[0].value

"""A scan says of each window what the classifier says of its letters alone, on either strand."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.classifiers import sequence_checkpoint
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.sequences import scan as scanning
from transformer.runs.sequences.classify import classifier, classify
from transformer.runs.sequences.scan import ScanPlan, Strands, plan_scan
from transformer.sequences.alphabet import DNA, PROTEIN
from transformer.sequences.task import SequenceTask

WIDTH = 23


@pytest.fixture(scope="module")
def small() -> Checkpoint:
    return sequence_checkpoint(double=True)


def letters(count: int, seed: int, alphabet: str = "ACGTN") -> str:
    share = [0.24, 0.27, 0.22, 0.25, 0.02][: len(alphabet)]
    drawn = np.random.default_rng(seed).choice(list(alphabet), count, p=np.array(share) / sum(share))
    return "".join(drawn)


def all_of(plan: ScanPlan, workers: int = 1) -> np.ndarray:
    blocks = list(plan.blocks(workers))
    each = scanning.BLOCK // len(plan.strands.signs)
    assert [block.first for block in blocks] == list(range(0, plan.n_windows, each))
    return np.concatenate([block.probabilities for block in blocks], axis=1)


@pytest.mark.parametrize(("workers", "strands"), [(1, Strands.BOTH), (3, Strands.OTHER), (5, "given")])
def test_every_window_is_what_the_classifier_says_of_it_alone(small, monkeypatch, workers, strands) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 11)
    monkeypatch.setattr(scanning, "LETTERS_AT_ONCE", 6 * WIDTH)
    text = letters(61, seed=workers)
    plan = plan_scan(small, DNA.read(text), Strands(strands))
    found = all_of(plan, workers=workers)
    assert found.shape == (len(plan.strands.signs), 61 - WIDTH + 1, 3)
    for window in range(plan.n_windows):
        part = text[window : window + WIDTH]
        for row, sign in enumerate(plan.strands.signs):
            read = part if sign == "+" else DNA.reverse_complement(part)
            if part.count("N") / WIDTH > 0.1:
                assert np.isnan(found[row, window]).all()
            else:
                np.testing.assert_allclose(found[row, window], classify(small, read).probabilities, atol=1e-9)


def test_windows_with_too_many_unknown_letters_are_not_judged(small) -> None:
    text = letters(30, 1, "ACGT") + "NNN" + "R" * 2 + letters(30, 2, "ACGT")
    found = all_of(plan_scan(small, DNA.read(text), strands=Strands.GIVEN))[0, :, 0]
    unknown = np.array([sum(letter in "NR" for letter in text[i : i + WIDTH]) for i in range(len(text) - WIDTH + 1)])
    np.testing.assert_array_equal(np.isnan(found), unknown > 2)
    assert 0 < np.isnan(found).sum() < len(found)


def test_a_window_of_one_unknown_letter_in_ten_is_judged(small) -> None:
    model = replace(small, task=replace(classifier(small)[1], length=20))
    text = letters(40, 1, "ACGT") + "NN" + letters(38, 2, "ACGT") + "NNN" + letters(40, 3, "ACGT")
    found = all_of(plan_scan(model, DNA.read(text), strands=Strands.GIVEN))[0, :, 0]
    unknown = np.array([text[i : i + 20].count("N") for i in range(len(text) - 19)])
    np.testing.assert_array_equal(np.isnan(found), unknown > 2)
    assert {0, 1, 2, 3} == set(unknown)


def test_a_scan_that_is_not_asked_for_more_has_stopped(small, monkeypatch) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 5)
    seen = []
    hook = small.model.encoder_norm.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    threads = threading.active_count()
    blocks = plan_scan(small, DNA.read(letters(200, 3, "ACGT")), strands=Strands.GIVEN).blocks(workers=2)
    next(blocks)
    del blocks
    hook.remove()
    assert threading.active_count() == threads
    assert set(seen) == {5}
    assert 1 <= len(seen) <= 2  # of the block that came, and of the one ahead


def test_refusals_name_what_is_wrong(small) -> None:
    with pytest.raises(InputError, match="has 22 letters, and a window needs 23"):
        plan_scan(small, DNA.read("A" * 22))
    protein = Checkpoint("protein", small.model, task=SequenceTask(PROTEIN, ("a", "b"), 23))
    with pytest.raises(InputError, match="protein has no other strand"):
        plan_scan(protein, PROTEIN.read("ACDEF" * 9))
    assert plan_scan(protein, PROTEIN.read("ACDEF" * 9), strands=Strands.GIVEN).n_windows == 23


def test_numbers_of_a_plan_and_ids_of_long_sequences(small) -> None:
    plan = plan_scan(small, DNA.read(letters(64, 5)))
    assert (plan.n_windows, plan.centre(3)) == (42, 3 + 11)
    even = replace(plan, width=10)  # after five of its ten letters the sixth begins, which is number 5 from 0
    assert [even.centre(window) for window in (0, 3)] == [5, 3 + 5]
    text = letters(500, 6) + "RYU".replace("U", "T")
    np.testing.assert_array_equal(DNA.id_array(text), DNA.ids(text))
    opposite = DNA.complement_ids()[DNA.id_array(text)[::-1]]
    np.testing.assert_array_equal(opposite, DNA.ids(DNA.reverse_complement(text)))

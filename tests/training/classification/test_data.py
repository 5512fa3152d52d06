"""Labelled sequences: what is read, what is refused, which rows stay together, how negatives are made."""

import pytest
import torch

from transformer.errors import TrainingError
from transformer.sequences.alphabet import DNA
from transformer.training.classification.data import Substitution, families, held_out, read_labelled

TABLE = "id\tsequence\tlabel\none\tACGTN\tEI\ntwo\tggggr\tN\n"


def test_a_table_is_read(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text(TABLE)
    data = read_labelled(path, DNA, ("EI", "N"))
    assert data.ids == ("one", "two")
    assert data.letters.tolist() == [[0, 1, 2, 3, 4], [2, 2, 2, 2, 4]]
    assert data.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id\tletters\nx\tA\n", "columns id, sequence, label"),
        ("id\tsequence\tlabel\n", "at least one row"),
        ("id\tsequence\tlabel\nx\tA\tQ\n", "label 'Q'"),
        ("id\tsequence\tlabel\nx\tA\tN\ny\tAC\tN\n", "different lengths"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, says):
    path = tmp_path / "train.tsv"
    path.write_text(text)
    with pytest.raises(TrainingError, match=says):
        read_labelled(path, DNA, ("EI", "N"))
    with pytest.raises(TrainingError, match="cannot be read"):
        read_labelled(tmp_path / "missing.tsv", DNA, ("EI", "N"))


def test_rows_that_share_letters_are_one_family_also_through_others():
    rows = torch.tensor([[0, 1, 2, 3, 0, 0], [3, 3, 0, 1, 2, 3], [3, 3, 0, 2, 2, 2], [1, 1, 1, 1, 1, 1]])
    one, two, three, other = families(rows, 3)
    assert one == two == three != other
    assert len(set(families(rows, 6))) == 4


def test_held_out_rows_are_disjoint_and_families_stay_together(tmp_path):
    letters = torch.randint(4, (97, 23))
    letters[1::2] = letters[:-1:2]  # every second row repeats the one before
    path = tmp_path / "train.tsv"
    rows = "".join(f"{i}\t{''.join('ACGT'[c] for c in row)}\tN\n" for i, row in enumerate(letters.tolist()))
    path.write_text("id\tsequence\tlabel\n" + rows)
    train, held = held_out(read_labelled(path, DNA, ("N", "EI")), share=0.3, width=12, seed=5)
    assert len(train) + len(held) == 97
    assert 20 <= len(held) <= 29
    pairs = lambda data: {int(i) // 2 for i in data.ids}  # noqa: E731
    assert not pairs(train) & pairs(held)


def test_a_negative_keeps_whole_blocks_of_its_positive():
    positives = torch.full((2_000, 17), 3)
    scheme = Substitution(block=5, start=37, total=10, replaced=6)
    negatives = scheme.negatives(positives, n_letters=3)  # 3 is no letter, so every replaced place shows
    kept = negatives == positives
    for start, stop in ((0, 3), (3, 8), (8, 13)):
        block = kept[:, start:stop]
        assert bool((block.all(1) | ~block.any(1)).all())
        assert block[:, 0].float().mean().item() == pytest.approx(0.4, abs=0.05)
    assert set(negatives.unique().tolist()) == {0, 1, 2, 3}


def test_letters_behind_the_last_candidate_block_are_never_replaced():
    positives = torch.full((97, 17), 3)
    kept = Substitution(block=5, start=37, total=10, replaced=10).negatives(positives, n_letters=3) == positives
    assert bool(kept[:, 13:].all())
    assert not bool(kept[:, :13].any())

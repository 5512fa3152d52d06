"""Motifs: counting, information, alignment, the enrichment test, and the text that other tools read."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.errors import InputError
from transformer.sequences.motifs import FLANK, fisher, information, motif, q_values


def test_information_has_the_small_sample_correction():
    counts = np.array([[10, 5], [0, 5], [0, 0], [0, 0]])
    correction = 3 / (2 * math.log(2) * 10)
    np.testing.assert_allclose(information(counts), [2 - correction, 1 - correction])


def test_information_is_never_negative_and_nothing_is_known_of_an_empty_column():
    assert information(np.array([[1, 0], [1, 0], [1, 0], [1, 0]])).tolist() == [0.0, 0.0]


def test_windows_that_slipped_are_shifted_onto_each_other():
    generator = np.random.default_rng(5)
    texts, starts = [], []
    for i in range(40):
        letters = generator.choice(list("ACGT"), 23)
        letters[10:12] = ["G", "T"]
        texts.append("".join(letters))
        starts.append(9 + i % 3)  # the window holds GT at place 1, 0 or -1
    found = motif(list(zip(texts, starts, strict=True)), [(texts[0], 0)], 3, "ACGT")
    start = int(np.bincount(found.starts).argmax())
    assert (found.starts == start).sum() >= 38  # GT may stand by chance beside the one that was put there
    offset = 10 - start + FLANK
    assert found.enrichment.pattern[offset : offset + 2] == "GT"
    assert found.enrichment.found >= 38
    assert found.enrichment.total == 40
    np.testing.assert_allclose(found.frequencies.sum(axis=0), 1)
    np.testing.assert_allclose(found.heights.sum(axis=0), found.information)


@pytest.mark.parametrize(
    ("cells", "p"),
    [((8, 10, 1, 6), 0.0244755), ((0, 5, 0, 5), 1.0), ((3, 3, 0, 3), 1 / 20), ((0, 4, 3, 4), 1.0)],
)
def test_fisher_is_the_exact_one_sided_test(cells, p):
    assert fisher(*cells) == pytest.approx(p, rel=1e-5)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_fisher_counts_every_way_to_draw(found, missed, others_found, others_missed):
    total, others_total = found + missed, others_found + others_missed
    hits = found + others_found
    ways = [
        math.comb(hits, k) * math.comb(total + others_total - hits, total - k)
        for k in range(found, min(total, hits) + 1)
        if total - k <= total + others_total - hits
    ]
    expected = Fraction(sum(ways), math.comb(total + others_total, total))
    assert fisher(found, total, others_found, others_total) == pytest.approx(float(expected), abs=1e-12)


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=13))
def test_a_q_value_is_the_least_rate_of_false_finds_at_which_a_test_is_found(p_values):
    """Benjamini and Hochberg 1995: at a rate, the k smallest are found, for the largest k with p(k) <= rate k / n."""
    found = q_values(p_values)
    for rate in (0.01, 0.05, 0.3, 0.99):
        ordered = sorted(p_values)
        kept = [p for k, p in enumerate(ordered, 1) if p <= rate * k / len(ordered)]
        limit = max(kept, default=0)
        for p, q in zip(p_values, found, strict=True):
            assert (q <= rate) == (p <= limit) or q == pytest.approx(rate)


def test_windows_that_all_start_at_one_place_are_told_of():
    others = [("ACGTACGTAC", start) for start in (4, 4, 1, 2)]
    fixed = motif([("ACGTACGTAC", start) for start in [4] * 18 + [1, 2]], others, 3, "ACGT").place
    assert (fixed.start, fixed.share, fixed.others_share, fixed.is_fixed) == (4, 0.9, 0.5, True)
    free = motif([("ACGTACGTAC", start) for start in [4] * 17 + [1, 2, 5]], [], 3, "ACGT").place
    assert (free.share, free.others_share, free.is_fixed) == (0.85, 0, False)


def test_both_sides_of_the_enrichment_test_have_the_same_freedom_to_shift():
    """A class that is held against itself is found as often on both sides, however its windows were aligned."""
    for seed in range(25):
        generator = np.random.default_rng(seed)
        texts = ["".join(generator.choice(list("ACGT"), 23)) for _ in range(11)]
        sites = list(zip(texts, generator.integers(0, 21, 11).tolist(), strict=True))
        enrichment = motif(sites, sites, 3, "ACGT").enrichment
        assert enrichment.found == enrichment.others_found


def test_unknown_letters_do_not_count():
    found = motif([("ANG", 0), ("ACG", 0)], [], 3, "ACGT")
    assert found.counts.sum(axis=0).tolist() == [0, 0, 2, 1, 2, 0, 0]  # nor what lies outside
    assert found.counts[:, FLANK + 1].tolist() == [0, 1, 0, 0]
    assert found.enrichment.p_value == 1.0


def test_a_class_without_sequences_has_no_motif():
    with pytest.raises(InputError, match="no sequence of this class"):
        motif([], [], 3, "ACGT")


def test_meme_text_can_be_read_back():
    found = motif([("AAGTA", 1), ("CAGTC", 1), ("TTGTG", 1)], [], 3, "ACGT")
    lines = found.meme("EI head 0").splitlines()
    assert lines[0] == "MEME version 4"
    assert "ALPHABET= ACGT" in lines
    assert "MOTIF EI_head_0" in lines
    start = next(i for i, line in enumerate(lines) if line.startswith("letter-probability matrix"))
    assert lines[start] == "letter-probability matrix: alength= 4 w= 7 nsites= 3"
    read = np.array([[float(number) for number in line.split()] for line in lines[start + 1 :]])
    np.testing.assert_allclose(read, found.frequencies.T, atol=1e-6)

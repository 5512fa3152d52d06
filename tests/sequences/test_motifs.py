"""Logos: counted letters, and information with the small-sample correction."""

import math

import numpy as np

from transformer.sequences.motifs import heights, information, letter_counts


def test_information_has_the_small_sample_correction():
    counts = np.array([[10, 5], [0, 5], [0, 0], [0, 0]])
    correction = 3 / (2 * math.log(2) * 10)
    np.testing.assert_allclose(information(counts), [2 - correction, 1 - correction])


def test_information_is_never_negative_and_nothing_is_known_of_an_empty_column():
    assert information(np.array([[1, 0], [1, 0], [1, 0], [1, 0]])).tolist() == [0.0, 0.0]


def test_letters_share_the_information_of_their_place_as_they_were_counted():
    texts = ["GTN", "GAN", "GTA", "GTC", "GCN"]
    counts = letter_counts(texts, "ACGT")
    assert counts.tolist() == [[0, 1, 1], [0, 1, 1], [5, 0, 0], [0, 3, 0]]
    found = heights(counts)
    np.testing.assert_allclose(found.sum(axis=0), information(counts))
    np.testing.assert_allclose(found[3, 1], 0.6 * information(counts)[1])

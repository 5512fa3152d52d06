"""Heads in a tree, against distances that are known."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from transformer.atlas.layout import average_linkage, clusters, distance_matrix
from transformer.atlas.statistics import pairs_of


def test_pairs_fill_both_halves_of_the_table() -> None:
    table = distance_matrix(5, np.arange(1.0, 11))
    for value, (i, j) in zip(range(1, 11), pairs_of(5), strict=True):
        assert table[i, j] == table[j, i] == value
    assert not table.diagonal().any()


def test_the_tree_joins_by_mean_distance_and_the_cut_makes_groups() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.5], [40.0]])
    tree = average_linkage(squareform(pdist(points)))
    assert tree[:, 2] == pytest.approx([1.0, 1.5, (10 + 9 + 11.5 + 10.5) / 4, np.mean([40, 39, 30, 28.5])])
    assert clusters(tree, 1.2).tolist() == [0, 0, 1, 2, 3]
    assert clusters(tree, 11.0).tolist() == [0, 0, 0, 0, 1]
    assert clusters(tree, 0.0).tolist() == [0, 1, 2, 3, 4]

"""Heads in a plane and in a tree, against distances that are known and against SciPy's own averages."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from transformer.atlas.layout import average_linkage, classical_mds, clusters, distance_matrix
from transformer.atlas.statistics import pairs_of


def test_pairs_fill_both_halves_of_the_table() -> None:
    table = distance_matrix(5, np.arange(1.0, 11))
    for value, (i, j) in zip(range(1, 11), pairs_of(5), strict=True):
        assert table[i, j] == table[j, i] == value
    assert not table.diagonal().any()


def test_places_in_a_plane_are_found_again_and_each_time_the_same() -> None:
    points = np.random.default_rng(3).normal(size=(11, 2)) * (3, 1)
    places, share = classical_mds(squareform(pdist(points)))
    assert pdist(places) == pytest.approx(pdist(points))
    assert share == pytest.approx(1)
    assert np.array_equal(places, classical_mds(squareform(pdist(points)))[0])
    strongest = np.abs(places).argmax(axis=0)
    assert (places[strongest, [0, 1]] > 0).all()
    assert np.ptp(places[:, 0]) > np.ptp(places[:, 1])


def test_a_plane_of_a_tetrahedron_says_how_much_it_keeps() -> None:
    assert classical_mds(1 - np.eye(4))[1] == pytest.approx(2 / 3)


def test_the_tree_joins_by_mean_distance_and_the_cut_makes_groups() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.5], [40.0]])
    tree = average_linkage(squareform(pdist(points)))
    assert tree[:, 2] == pytest.approx([1.0, 1.5, (10 + 9 + 11.5 + 10.5) / 4, np.mean([40, 39, 30, 28.5])])
    assert clusters(tree, 1.2).tolist() == [0, 0, 1, 2, 3]
    assert clusters(tree, 11.0).tolist() == [0, 0, 0, 0, 1]
    assert clusters(tree, 0.0).tolist() == [0, 1, 2, 3, 4]

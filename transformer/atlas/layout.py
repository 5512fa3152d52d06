"""Heads in a tree, by their distances: nothing is drawn at random, so the same atlas gives the same picture."""

import numpy as np
from jaxtyping import Float, Int


def distance_matrix(n_heads: int, distances: Float[np.ndarray, " pair"]) -> Float[np.ndarray, "head head"]:
    """The table of distances, from those of each pair in the order of `statistics.pairs_of`."""
    table = np.zeros((n_heads, n_heads))
    table[np.triu_indices(n_heads, 1)] = distances
    return table + table.T


def average_linkage(distances: Float[np.ndarray, "head head"]) -> Float[np.ndarray, "merge 4"]:
    """The tree that joins the two groups of least mean distance, again and again, as SciPy writes it."""
    from scipy.cluster.hierarchy import linkage  # late: it would hold up the start of every page
    from scipy.spatial.distance import squareform

    found: np.ndarray = linkage(squareform(distances, checks=False), "average")
    return found


def clusters(tree: Float[np.ndarray, "merge 4"], height: float) -> Int[np.ndarray, " head"]:
    """The group of each head where the tree is cut at a height; groups are numbered by their first head."""
    from scipy.cluster.hierarchy import fcluster

    found = fcluster(tree, height, "distance")
    order = {label: number for number, label in enumerate(dict.fromkeys(found.tolist()))}
    return np.array([order[label] for label in found.tolist()])

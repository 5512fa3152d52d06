"""What sequences of one length have in common: the letters at each place, and how far from even they are.

Source: Schneider and Stephens 1990, "Sequence logos"; Schneider et al. 1986 (the small-sample correction).
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int


def letter_counts(texts: Sequence[str], letters: str) -> Int[np.ndarray, "letter position"]:
    """How often each letter stands at each place of texts of one length; other letters do not count."""
    rows = np.array([list(text) for text in texts])
    return np.array([(rows == letter).sum(axis=0) for letter in letters])


def information(counts: Int[np.ndarray, "letter position"]) -> Float[np.ndarray, " position"]:
    """Bits of each column of counts, with the small-sample correction (s - 1) / (2 n ln 2); 0 without letters."""
    from scipy.special import entr  # -p log p, 0 at 0; not at the top, where the start of every page would wait for it

    n_letters, total = counts.shape[0], counts.sum(axis=0)
    entropy = entr(counts / total.clip(min=1)).sum(axis=0) / math.log(2)
    correction = (n_letters - 1) / (2 * math.log(2) * total.clip(min=1))
    return np.where(total > 0, (math.log2(n_letters) - entropy - correction).clip(min=0), 0.0)


def heights(counts: Int[np.ndarray, "letter position"]) -> Float[np.ndarray, "letter position"]:
    """The logo: each letter's share of its place's information, in bits."""
    return counts / counts.sum(axis=0).clip(min=1) * information(counts)

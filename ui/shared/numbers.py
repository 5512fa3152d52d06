"""Numbers in tables, which Streamlit writes: what it would round to -0.000 is 0."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def as_written(values: ArrayLike, digits: int) -> Float[np.ndarray, "..."]:
    """Values for a column that writes so many digits after the point: those that are written as zero are zero."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.abs(found) < 0.5 * 10.0**-digits, 0.0, found)

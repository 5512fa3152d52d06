"""What the lesson measures of scores and their softmax, against brute force."""

import numpy as np
import pytest

from transformer.lessons.scaling import cosines, growth


def test_variance_grows_as_the_size_and_the_gradient_vanishes_without_the_root():
    found = growth((1, 8, 64, 256), seed=3)
    np.testing.assert_array_equal(found.variance, [[1, 8, 64, 256], [1, 1, 1, 1]])
    np.testing.assert_allclose(found.measured_variance, found.variance, rtol=0.15)
    np.testing.assert_allclose(found.measured_gradient, found.gradient, rtol=0, atol=1e-12)
    plain, scaled = found.gradient
    assert plain[-1] < 0.25 * scaled[-1]
    assert (np.diff(plain[1:]) < 0).all()
    assert (found.gradient <= 0.25).all()
    assert plain[0] == pytest.approx(scaled[0])


def test_the_largest_entry_of_the_jacobian_is_found_by_finite_differences_too():
    scores = np.random.default_rng(2).normal(size=5)

    def softmax(x: np.ndarray) -> np.ndarray:
        raised = np.exp(x)
        return np.asarray(raised / raised.sum())

    step, weights = 1e-6, softmax(scores)
    jacobian = [(softmax(scores + step * row) - softmax(scores - step * row)) / (2 * step) for row in np.eye(5)]
    assert np.abs(jacobian).max() == pytest.approx((weights * (1 - weights)).max(), abs=1e-8)


def test_cosines_by_hand():
    q, k = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[6.0, 8.0], [-4.0, 3.0], [0.0, 2.0]])
    np.testing.assert_allclose(cosines(q, k), [[1.0, 0.0, 0.8], [np.nan] * 3])

"""Integrals whose answer is known in closed form, and a quadrature that must not stop too early or too late."""

import math

import numpy as np
import pytest
import torch

from transformer.errors import AttributionError
from transformer.explain.attribution import path_integral
from transformer.explain.attribution.path_integral import integral

KINK = 0.37


def values(at: torch.Tensor) -> torch.Tensor:
    """Two rows: a smooth one, and one whose slope is 0 and then, after a kink, 500."""
    return torch.stack([(3 * at).sin(), 500 * (at - KINK).clamp(min=0)], dim=1)


def slopes(at: torch.Tensor, told: object) -> torch.Tensor:
    """Each row's slope, of which three parts bring a quarter, three quarters, and nothing."""
    each = torch.stack([3 * (3 * at).cos(), 500.0 * (at > KINK)], dim=1)
    return each[..., None] * torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)


def test_rows_come_as_close_as_they_have_to_and_no_point_is_wasted_where_the_curve_is_smooth() -> None:
    told: list[float] = []
    seen: list[float] = []

    def counted(at: torch.Tensor, told: object) -> torch.Tensor:
        seen.extend(at.tolist())
        assert len(at) <= 7
        return slopes(at, told)

    found = integral(counted, values, 1e-3, 1.0, at_once=7, progress=told.append)
    whole = np.array([math.sin(3), 500 * (1 - KINK)])
    np.testing.assert_allclose(found.difference, whole, atol=1e-12)
    assert found.converged.all()
    assert (found.gap.numpy() <= 1e-3 * np.maximum(np.abs(whole), 1.0)).all()
    np.testing.assert_allclose(found.added, whole[:, None] * [[0.25, 0.75, 0.0]], atol=1e-3 * whole.max())
    assert found.points == len(seen) < 120
    late = seen[path_integral.FIRST_POINTS :]
    assert all(abs(place - KINK) < 0.25 for place in late), "points gather at the kink"
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_so_many_points_are_those_of_gauss_and_legendre_and_no_others() -> None:
    """Three points are exact where slopes are polynomials up to degree 5, and not where they have degree 6."""
    for degree, exact in ((6, True), (7, False)):

        def power(at: torch.Tensor, n: int = degree) -> torch.Tensor:
            return at[:, None] ** n

        def slope(at: torch.Tensor, told: object, n: int = degree) -> torch.Tensor:
            return (n * at ** (n - 1))[:, None, None]

        found = integral(slope, power, 1e-12, 1.0, points=3)
        assert found.points == 3
        assert bool(found.converged.all()) is exact
    with pytest.raises(AttributionError, match="points=0"):
        integral(slopes, values, 0.05, 1.0, points=0)


def test_what_is_not_close_after_the_most_points_is_told_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_integral, "MOST_POINTS", 40)
    found = integral(slopes, values, 1e-5, 1.0)
    assert found.converged.tolist() == [True, False]
    assert found.points <= 40
    assert float(found.gap[1]) > 1e-5 * 315


def test_gaps_that_cancel_by_luck_are_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes too small by 5 in the first half, too large by 5 in the second: the whole sum is right, its parts not."""
    monkeypatch.setattr(path_integral, "MOST_POINTS", 64)
    found = integral(
        lambda at, told: (10 + 5 * (at - 0.5).sign())[:, None, None], lambda at: 10 * at[:, None], 0.05, 1.0
    )  # fmt: skip
    assert float(found.gap[0]) < 1e-9
    assert not found.converged.any()


def test_a_small_difference_counts_as_the_least() -> None:
    """The same curves a thousand times as small are close at once where less than a nat counts as one."""

    def points(least: float) -> int:
        return integral(
            lambda at, told: slopes(at, told) / 1e3, lambda at: values(at) / 1e3, 1e-3, least
        ).points  # fmt: skip

    assert points(1e-6) > points(20.0) == path_integral.FIRST_POINTS

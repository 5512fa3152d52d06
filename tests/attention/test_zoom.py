"""Zooming: every view of a long map is the largest of its cells, and those are the numbers of a plain softmax."""

import numpy as np
import pytest
import torch

from transformer.attention.record import AttentionMap
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.attention.zoom import CLOSE, MEAN, SHOWN, SIDE, Head, Zoom
from transformer.errors import RecordError
from transformer.nn.masks import Mask
from transformer.plots.axes import Axis
from transformer.sites import Site

HEADS, D_K, SCALE = 2, 3, 0.7
LONG, SHORTER = 2_003, 1_951
"""Prime, and more than the finest level has blocks of one cell; the map has blocks of 2 x 2 there."""


def numbered(count: int) -> Axis:
    return Axis.of_tokens("axis", [str(i) for i in range(count)])


def long_map(n_queries: int, n_keys: int, causal: bool = False, real: int | None = None) -> AttentionMap:
    torch.manual_seed(11)
    q, k = (3 * torch.randn(1, HEADS, count, D_K, dtype=torch.float64) for count in (n_queries, n_keys))
    keys = None if real is None else (torch.arange(n_keys) < real)[None]
    source = AttentionInputs(q, k, Mask(keys=keys, causal=causal), SCALE)
    return AttentionMap(Site("encoder.0.self"), numbered(n_queries), numbered(n_keys), source)


def by_the_book(found: AttentionMap, head: int) -> np.ndarray:
    """exp(score) over its row's sum, float64; NaN where the mask hides."""
    source = found.source
    assert isinstance(source, AttentionInputs)
    scores = source.q[0, head].numpy() @ source.k[0, head].numpy().T * SCALE
    n_queries, n_keys = scores.shape
    hidden = np.zeros(scores.shape, dtype=bool)
    if source.mask.causal:
        hidden |= np.arange(n_keys)[None] > np.arange(n_queries)[:, None] + n_keys - n_queries
    if source.mask.keys is not None:
        hidden |= ~source.mask.keys[0].numpy()[None]
    weights = np.where(hidden, 0, np.exp(scores - scores.max(1, keepdims=True)))
    return np.where(hidden, np.nan, weights / weights.sum(1, keepdims=True))


@pytest.fixture(
    scope="module", params=[(LONG, LONG, True, None), (LONG, SHORTER, False, 1_777), (5, LONG, False, None)]
)
def mapped(request: pytest.FixtureRequest) -> tuple[AttentionMap, np.ndarray]:
    found = long_map(*request.param)
    return found, np.stack([by_the_book(found, head) for head in range(HEADS)])


@pytest.mark.parametrize("head", [1, MEAN])
def test_every_view_is_the_largest_of_its_cells(mapped: tuple[AttentionMap, np.ndarray], head: Head) -> None:
    attention, expected = mapped
    whole = expected.mean(0) if head == MEAN else expected[head]
    zoom = Zoom.of(attention, head)
    named = "mean of 2 heads" if head == MEAN else "head 1"
    assert str(zoom.picture(zoom.whole()).head) == named
    assert zoom.largest == pytest.approx(np.nanmax(whole), rel=1e-12)
    n_queries, n_keys = whole.shape
    asked = [
        (0, n_queries, 0, n_keys), (311, 1_409, 5, 1_867), (1_200, 1_701, 1_190, 1_703), (1_009, 1_487, 967, 1_439),
        (1_500, 1_537, 1_490, 1_519), (n_queries - 3, n_queries + 90, n_keys - 7, n_keys + 90),
    ]  # fmt: skip
    kinds = set()
    for top, bottom, left, right in asked:
        view = zoom.view(slice(top, bottom), slice(left, right))
        first_row, last_row = min(top, n_queries - 1), min(max(bottom, min(top, n_queries - 1) + 1), n_queries)
        assert view.rows.start <= first_row < last_row <= view.rows.stop
        assert view.keys.start <= left < min(right, n_keys) <= view.keys.stop
        assert max(view.values.shape) <= SHOWN
        cells = whole[view.rows, view.keys]
        rows, keys = (
            np.arange(0, size, block) for size, block in zip(cells.shape, (view.tall, view.wide), strict=True)
        )
        largest = np.fmax.reduceat(np.fmax.reduceat(cells, rows, axis=0), keys, axis=1)
        assert (view.visible == ~np.isnan(largest)).all()
        near = 1e-9 if (bottom - top) * (right - left) <= CLOSE**2 else 1.01 * zoom.largest / 65_000 / 2
        assert np.abs(view.values - largest)[view.visible].max(initial=0) <= near
        kinds.add((view.tall > 1, view.wide > 1, view.is_exact))
    assert (True, True, False) in kinds or n_queries < SHOWN
    assert (False, False, True) in kinds


def test_a_weight_that_is_no_number_is_none_in_every_block_that_holds_it() -> None:
    values = torch.rand(1, 1, SIDE + 7, 3, dtype=torch.float64) / 2
    values[0, 0, 1_234, 1] = torch.nan
    attention = AttentionMap(Site("encoder.0.self"), numbered(SIDE + 7), numbered(3), Weights(values))
    zoom = Zoom.of(attention, 0)
    view = zoom.whole()
    assert zoom.largest == pytest.approx(float(values.nan_to_num().max()))
    (place,) = np.argwhere(np.isnan(view.values))
    assert place.tolist() == [1_234 // view.tall, 1]


def test_the_work_is_told_and_can_be_stopped() -> None:
    attention, told = long_map(LONG, 101), list[float]()
    Zoom.of(attention, 0, told.append)
    assert told == sorted(told)
    assert told[0] == 0
    assert 0.5 < told[-1] < 1

    def stop(done: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Zoom.of(attention, 0, stop)
    with pytest.raises(RecordError):
        Zoom.of(attention, HEADS)

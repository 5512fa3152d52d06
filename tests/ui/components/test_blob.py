"""The message to the browser: what goes in comes out, and a byte a weight keeps what it promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from transformer.errors import InputError
from transformer.plots.canvas import blob
from ui.components.all_heads.component import thumbnail_codes

UNIT = st.floats(0.0, 1.0, width=32)


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=()))),
    small=npst.arrays(np.uint8, npst.array_shapes(max_dims=3, min_side=0)),
    large=npst.arrays(np.float32, npst.array_shapes(max_dims=3, min_side=0)),
)
def test_a_message_holds_what_was_packed(texts, small, large):
    header, arrays = blob.unpack(blob.pack({"texts": texts}, {"small": small, "large": large}))
    assert header["texts"] == texts
    np.testing.assert_array_equal(arrays["small"], small.ravel())
    np.testing.assert_array_equal(arrays["large"], large.ravel())
    assert header["arrays"] == [["small", "uint8", small.size], ["large", "float32", large.size]]


@given(weights=npst.arrays(np.float32, (3, 5), elements=UNIT), gamma=st.sampled_from([1.0, 0.5]))
def test_a_code_is_within_half_a_step(weights, gamma):
    codes = blob.codes(weights, np.ones((3, 5), dtype=bool), gamma)
    assert np.abs(codes / 254 - weights.astype(np.float64) ** gamma).max() <= 1 / 508 + 1e-7


def test_the_ends_of_the_scale_and_the_mask_are_exact():
    weights = np.array([0.0, 1.0, 1.0005, 0.3, np.nan, np.inf, -1.0])
    visible = np.array([True, True, True, False, False, False, False])
    assert blob.codes(weights, visible, 0.5).tolist() == [0, 254, 254, 255, 255, 255, 255]


def test_nan_is_told_apart_from_zero_and_from_masked():
    weights = np.array([[0.0, np.nan, 0.5], [np.nan, 1.0, 0.0]])
    visible = np.array([[True, True, True], [False, True, True]])
    assert blob.codes(weights, visible).tolist() == [[0, 0, 127], [255, 254, 0]]
    assert np.unpackbits(blob.nan_bits(weights, visible)["nan"], count=6).tolist() == [0, 1, 0, 0, 0, 0]
    assert blob.nan_bits(np.nan_to_num(weights), visible) == {}


def test_a_thumbnail_of_each_head_stands_where_its_numbers_say():
    layers, heads, queries, keys = 2, 3, 7, 5
    weights = np.random.default_rng(0).random((layers, heads, queries, keys), dtype=np.float32)
    visible = np.tri(queries, keys, dtype=bool)
    arrays = thumbnail_codes(weights, visible)
    codes = arrays["codes"].reshape(layers, heads, queries, keys)
    assert (codes[:, :, ~visible] == 255).all()
    np.testing.assert_array_equal(codes[1, 2][visible], np.rint(254 * weights[1, 2])[visible])


def test_a_mask_a_layer_is_that_layers():
    visible = np.ones((2, 1, 3, 5), dtype=bool)
    visible[1, 0, 2, 4] = False
    arrays = thumbnail_codes(np.zeros((2, 4, 3, 5), np.float32), visible)
    masked = arrays["codes"].reshape(2, 4, 3, 5) == 255
    assert masked[1, :, 2, 4].all()
    assert masked.sum() == 4


def test_twelve_by_twelve_heads_take_less_than_the_budget():
    weights = np.zeros((12, 12, 64, 64), np.float32)
    assert len(blob.pack({}, thumbnail_codes(weights, None))) < 600_000


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.inf])
def test_what_is_no_weight_is_refused(wrong):
    weights = np.full((1, 1, 2, 3), 0.2)
    weights[0, 0, 1, 2] = wrong
    with pytest.raises(InputError, match=r"thumbnails has the value .*between 0 and 1"):
        thumbnail_codes(weights, None)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"65 x 3 cells are too large: .*64 x 64"):
        thumbnail_codes(np.zeros((1, 1, 65, 3)), None)
    with pytest.raises(InputError, match=r"visible has shape \(3, 5\).*\(1, 1, 5, 3\)"):
        thumbnail_codes(np.zeros((1, 1, 5, 3)), np.ones((3, 5), dtype=bool))

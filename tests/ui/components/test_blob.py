"""The message to the browser: what goes in comes out, and a byte a weight keeps what it promises."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from transformer.canvas import blob
from transformer.errors import InputError
from ui.components.all_heads.component import thumbnail_codes
from ui.components.head_view.component import EXACT_EACH, Lines

UNIT = st.floats(0.0, 1.0, width=32)


def lines(weights, visible):
    """A head view of these weights, whose heads and tokens are called by their numbers."""
    heads, queries, keys = ([str(i) for i in range(size)] for size in weights.shape)
    return Lines(weights, visible, heads, queries, keys)


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
    np.testing.assert_array_equal(codes[1, 2][visible], np.rint(254 * np.sqrt(weights[1, 2]))[visible])


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


def test_exact_weights_are_the_float32_numbers():
    weights = np.random.default_rng(0).random((3, 7, 5), dtype=np.float32)
    weights[1, 6, 4] = np.nan
    visible = np.tri(7, 5, dtype=bool)
    header, arrays = lines(weights, visible).message()
    assert (header["exact"], header["masked"], header["shape"]) == (True, True, [3, 7, 5])
    np.testing.assert_array_equal(arrays["weights"].reshape(3, 7, 5), np.where(visible, weights, np.float32(-1)))


@pytest.mark.parametrize("keys", [5, 23])
def test_rounded_weights_keep_the_largest_of_each_row_exactly(monkeypatch, keys):
    monkeypatch.setattr(importlib.import_module("ui.components.head_view.component"), "EXACT_WEIGHTS", 10)
    weights = np.random.default_rng(0).dirichlet(np.full(keys, 0.2), size=(3, 7)).astype(np.float32)
    visible = np.ones((7, keys), dtype=bool)
    visible[2, 3] = visible[4] = False
    weights[0, 1, 2] = np.nan
    header, arrays = lines(weights, visible).message()
    codes = arrays["codes"].reshape(3, 7, keys)
    maxima = arrays["maxima"].reshape(3, 7, 1)
    top_keys = arrays["top_keys"].reshape(3, 7, -1).astype(np.int64)
    assert (header["exact"], header["exact_each"]) == (False, EXACT_EACH)
    assert ((codes == 255) == ~visible).all()
    number = visible & ~np.isnan(weights)
    error = np.where(number, np.abs(codes * maxima / 254 - np.nan_to_num(weights)), 0)
    assert (error <= maxima / 508 + 1e-7).all()
    top_weights = arrays["top_weights"].reshape(top_keys.shape)
    known = np.where(number, weights, 0)
    np.testing.assert_array_equal(top_weights, np.take_along_axis(known, top_keys, axis=2))
    assert (np.sort(top_weights, axis=2) == np.sort(known, axis=2)[:, :, -EXACT_EACH:]).all()
    assert np.flatnonzero(np.unpackbits(arrays["nan"])).tolist() == [keys + 2]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.inf])
def test_what_is_no_weight_is_refused(wrong):
    weights = np.full((1, 1, 2, 3), 0.2)
    weights[0, 0, 1, 2] = wrong
    with pytest.raises(InputError, match=r"thumbnails has the value .*between 0 and 1"):
        thumbnail_codes(weights, None)
    with pytest.raises(InputError, match="weights has the value"):
        lines(weights[0], None)
    hidden = ~np.isin(weights[0, 0], [wrong])
    assert lines(weights[0], hidden).message()[1]["weights"][0, 1, 2] == -1


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"65 x 3 cells are too large: .*64 x 64"):
        thumbnail_codes(np.zeros((1, 1, 65, 3)), None)
    with pytest.raises(InputError, match=r"visible has shape \(3, 5\).*\(1, 1, 5, 3\)"):
        thumbnail_codes(np.zeros((1, 1, 5, 3)), np.ones((3, 5), dtype=bool))
    with pytest.raises(InputError, match="17,825,792 numbers"):
        lines(np.broadcast_to(np.float32(0), (17, 1024, 1024)), None)

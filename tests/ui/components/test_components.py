"""Components without a browser: what they are sent and how it is packed, what they return, what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from streamlit.testing.v1 import AppTest

from heedmap.errors import InputError
from heedmap.messages import revealed
from heedmap.plots.canvas import blob
from heedmap.plots.canvas.blob import pack, unpack
from heedmap.plots.canvas.views import About, Sides, SideTexts
from tests.browser.pages.sample import attention, product_board
from ui.components.alignments.component import Moment, Panel, _marked, alignments_message
from ui.components.map.component import sure_heads
from ui.components.matrices.component import Cell, _cell
from ui.components.row_bars.component import _row
from ui.components.views import _picked, thumbnail_codes

PAGE = Path(__file__).parents[2] / "browser" / "pages" / "components.py"


def opened(**address):
    app = AppTest.from_file(str(PAGE), default_timeout=30)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def elements(page):
    """The elements that carry numbers and options; scripts have their own."""
    return [element.proto for element in page.get("bidi_component") if not element.key.endswith(".script")]


def sent(page):
    """What each element was sent: the grid's blob and options, then the lines' blob and options."""
    grid, grid_options, lines, lines_options = elements(page)
    return grid.bytes, json.loads(grid_options.json), lines.bytes, json.loads(lines_options.json)


def test_the_browser_is_sent_the_record_s_numbers():
    weights, _ = attention(3, 5, 11, 7)
    grid, grid_options, lines, lines_options = sent(opened())
    header, arrays = unpack(grid)
    assert header["shape"] == [3, 5, 11, 7]
    assert header["instance"] == grid_options["instance"] == "grid"
    assert (header["query_axis"], header["words"]["save_png"]) == ("queries", "Save PNG")
    np.testing.assert_array_equal(arrays["codes"], np.rint(254 * weights.ravel()))
    assert grid_options["selected"] == [1, 2]
    header, arrays = unpack(lines)
    assert (header["query"]["texts"][10], header["key"]["texts"][6]) == ("q10", "k6")
    np.testing.assert_array_equal(arrays["weights"], weights[1, 2].ravel())
    assert lines_options == {"instance": "head_view", "events": ["picked"], "selected": None}


def test_a_choice_sends_options_and_neither_weights_nor_scripts_again_and_other_data_keep_the_element():
    def scripts():
        return [element.proto for element in page.get("bidi_component") if element.key.endswith(".script")]

    page = opened()
    (grid, _, lines, _), before = sent(page), scripts()
    assert [len(script.js_content) > 20_000 for script in before] == [True, True]
    assert all(len(element.js_content) < 2_000 for element in elements(page))
    page.session_state["word"] = 2
    page.run()
    same_grid, _, same_lines, options = sent(page)
    assert (same_grid, same_lines, scripts()) == (grid, lines, before)
    assert options["selected"] == 2
    names = [element.id for element in elements(page)]
    page.session_state["selected"] = (0, 0)
    page.run()
    assert [element.id for element in elements(page)] == names
    assert unpack(sent(page)[2])[1]["weights"][0] == attention(3, 5, 11, 7)[0][0, 0, 0, 0]


MOMENTS = [Moment("", tuple(Panel("", tuple("abcde"[:rows]), np.zeros((rows, 3))) for rows in (5, 2)))]

EVENTS: dict[Callable[..., object], tuple[tuple[object, ...], list[tuple[object, object]]]] = {
    _picked: ((3, 5), [
        ({"layer": 2, "head": 3}, (2, 3)), ({"layer": 0, "head": 4}, (0, 4)),
        ({"layer": 3, "head": 0}, None), ({"layer": 0, "head": 5}, None), ({"layer": -1, "head": 0}, None),
        ({"layer": "1", "head": 0}, None), (7, None),
    ]),
    _cell: ((product_board(),), [
        ({"matrix": "B", "row": 2, "column": 1}, Cell("B", 2, 1)), ({"matrix": "B", "row": 3, "column": 1}, None),
        ({"matrix": "B", "row": 0, "column": 2}, None), ({"matrix": "D", "row": 0, "column": 0}, None),
        ({"none": True}, None),
    ]),
    _marked: ((MOMENTS,), [
        ({"panel": 1, "row": 1}, (1, 1)), ({"panel": 0, "row": 4}, (0, 4)), ({"panel": 1, "row": 2}, None),
        ({"panel": 2, "row": 0}, None), ({"panel": -1, "row": 0}, None), ({"none": True}, None),
        ({"panel": "0", "row": 0}, None), ("word", None),
    ]),
    _row: ((3,), [
        ({"thousandths": [250, 0, 750]}, (0.25, 0.0, 0.75)), ({"thousandths": [250, 750]}, None),
        ({"thousandths": [250, 0, 751]}, None), ({"thousandths": [-1, 1, 1000]}, None),
        ({"thousandths": [0.5, 0.5, 999]}, None), ({"thousandths": [True, 499, 500]}, None), ([250, 0, 750], None),
    ]),
}  # fmt: skip
"""What takes an event of a browser: what it knows of what is drawn, and what it makes of an event."""


@pytest.mark.parametrize("take", EVENTS)
def test_an_event_counts_only_where_it_is_of_something_that_is_there(take):
    known, cases = EVENTS[take]
    assert [take(news, *known) for news, _ in cases] == [expected for _, expected in cases]


def test_a_picture_is_sent_as_it_is_masked_cells_apart_and_its_cells_can_be_picked():
    def page():
        from dataclasses import replace

        import numpy as np
        import streamlit as st

        from heedmap.plots.axes import Axis
        from heedmap.plots.picture import Picture, Quantity
        from ui.shared.record_views import matrix

        def axis(name, count):
            return Axis.of_pieces(name, [f"{name}{i}" for i in range(count)], [False] * count)

        values = np.linspace(-0.5, 1, 15).reshape(3, 5)
        values[2, 1] = np.inf
        picture = Picture("encoder.0.self", "0", values, np.tri(3, 5, dtype=bool), axis("q", 3), axis("k", 5))
        for quantity in (Quantity.WEIGHT, Quantity.DIFFERENCE):
            name = quantity.value
            shown = replace(picture, quantity=quantity)
            matrix(shown, key=name, stem="map", selected=(1, 0), on_pick=lambda *cell: st.text(str(cell)))

    weights, _, difference, options = elements(AppTest.from_function(page, default_timeout=30).run())
    header, arrays = unpack(weights.bytes)
    expected = np.where(np.tri(3, 5), np.linspace(-0.5, 1, 15).reshape(3, 5), -np.inf).astype(np.float32)
    expected[2, 1] = np.nan
    np.testing.assert_array_equal(arrays["weights"], expected.ravel())
    assert (header["queries"]["texts"][2], header["keys"]["labels"][4], header["centred"]) == ("q2", "k4", False)
    other, _ = unpack(difference.bytes)
    assert other["centred"]
    assert other["unit"].endswith("from -0.5 to 0.786 here")
    assert json.loads(options.json) == {
        "instance": "difference", "events": ["picked"], "pair": [1, 0], "relative": False
    }  # fmt: skip


@pytest.mark.parametrize(("address", "events"), [({"deaf": "1"}, []), ({}, ["picked"])])
def test_nobody_is_told_what_nobody_listens_for_and_matrices_hint_only_where_one_is_heard(address, events):
    *others, board, options = elements(opened(show="grid,lines,board", **address))
    assert [json.loads(one.json)["events"] for one in (*others[1::2], options)] == [events] * 3
    assert unpack(board.bytes)[0]["hint"].startswith("Pick a cell") == bool(events)


def test_empty_and_single_inputs_have_a_picture():
    assert all(elements(opened(shape=shape)) for shape in ("0,0,0,0", "1,2,0,0", "1,1,1,1"))


def test_the_surest_head_of_a_map_is_the_one_with_the_largest_weight_and_a_masked_key_is_none():
    weights = np.random.default_rng(12).random((3, 7, 5))
    weights[:, :, 4] = np.nan
    for query, (head, key, weight) in enumerate(sure_heads(weights)):
        known = {(h, k): weights[h, query, k] for h in range(3) for k in range(4)}
        assert (head, key) == max(known, key=known.__getitem__)
        assert weight == max(known.values())


COLUMNS = ("a", "b", "c")


def panel(seed: int, rows: int, hidden: bool = False) -> Panel:
    weights = np.random.default_rng(seed).dirichlet(np.ones(3), size=rows)
    visible = np.ones((rows, 3), dtype=bool)
    visible[:, 2] = not hidden
    return Panel(f"panel {seed}", tuple(f"word {i}" for i in range(rows)), weights, visible, "a note")


def alignments_sent(*moments: Moment) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, arrays = alignments_message(moments, COLUMNS, True)
    return unpack(pack(header, {}))[0], arrays


def test_the_browser_is_sent_every_weight_of_every_moment() -> None:
    panels = [panel(0, 5), panel(1, 2, hidden=True)]
    header, arrays = alignments_sent(Moment("early", tuple(panels)), Moment("late", (panels[0],)))
    assert [moment["name"] for moment in header["moments"]] == ["early", "late"]
    sent = {"title": "panel 1", "note": "a note", "rows": ["word 0", "word 1"], "decided": []}
    assert header["moments"][0]["panels"][1] == sent
    assert (header["columns"], header["same_rows"], header["masked"]) == (["a", "b", "c"], True, True)
    assert set(arrays) == {"0.0", "0.1", "1.0"}
    np.testing.assert_array_equal(arrays["0.0"].reshape(5, 3), panels[0].weights.astype(np.float32))
    np.testing.assert_array_equal(arrays["0.1"].reshape(2, 3)[:, 2], [-np.inf, -np.inf])
    np.testing.assert_array_equal(arrays["0.1"].reshape(2, 3)[:, :2], panels[1].weights[:, :2].astype(np.float32))
    assert alignments_sent(Moment("", (panel(0, 2),)))[0]["masked"] is False


UNIT = st.floats(0.0, 1.0, width=32)


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=()))),
    small=npst.arrays(np.uint8, npst.array_shapes(max_dims=3, min_side=0)),
    large=npst.arrays(np.float32, npst.array_shapes(max_dims=3, min_side=0)),
)
def test_a_message_holds_what_was_packed(texts, small, large):
    header, arrays = blob.unpack(blob.pack({"texts": texts}, {"small": small, "large": large}))
    assert header["texts"] == [*map(revealed, texts)]
    np.testing.assert_array_equal(arrays["small"], small.ravel())
    np.testing.assert_array_equal(arrays["large"], large.ravel())
    assert header["arrays"] == [["small", "uint8", small.size], ["large", "float32", large.size]]


@given(weights=npst.arrays(np.float32, (3, 5), elements=UNIT), gamma=st.sampled_from([1.0, 0.5]))
def test_a_code_is_within_half_a_step(weights, gamma):
    codes = blob.codes(weights, np.ones((3, 5), dtype=bool), gamma)
    assert np.abs(codes / 254 - weights.astype(np.float64) ** gamma).max() <= 1 / 508 + 1e-7


def test_the_ends_of_the_scale_and_the_mask_are_exact_and_nan_is_told_apart_from_zero_and_from_masked():
    weights = np.array([0.0, 1.0, 1.0005, 0.3, np.nan, np.inf, -1.0])
    visible = np.array([True, True, True, False, False, False, False])
    assert blob.codes(weights, visible, 0.5).tolist() == [0, 254, 254, 255, 255, 255, 255]
    weights = np.array([[0.0, np.nan, 0.5], [np.nan, 1.0, 0.0]])
    visible = np.array([[True, True, True], [False, True, True]])
    assert blob.codes(weights, visible).tolist() == [[0, 0, 127], [255, 254, 0]]
    assert np.unpackbits(blob.nan_bits(weights, visible)["nan"], count=6).tolist() == [0, 1, 0, 0, 0, 0]
    assert blob.nan_bits(np.nan_to_num(weights), visible) == {}


def test_dataclasses_are_sent_by_their_fields_and_texts_of_pictures_on_one_line():
    sides = Sides(SideTexts("q", [True]), SideTexts("k"), [["h"]], [["f"]], [About("a\n b", ["c  d"])])
    header, _ = blob.unpack(blob.pack({"sides": {"kind": sides}}, {}))
    found = header["sides"]["kind"]
    assert found["query"] == {"name": "q", "attached": [True], "special": []}
    assert found["abouts"] == [{"title": "a b", "lines": ["c d"], "formulas": []}]


def test_a_thumbnail_of_each_head_stands_where_its_numbers_say_and_a_mask_a_layer_is_that_layers():
    layers, heads, queries, keys = 2, 3, 7, 5
    weights = np.random.default_rng(0).random((layers, heads, queries, keys), dtype=np.float32)
    visible = np.tri(queries, keys, dtype=bool)
    arrays = thumbnail_codes(weights, visible)
    codes = arrays["codes"].reshape(layers, heads, queries, keys)
    assert (codes[:, :, ~visible] == 255).all()
    np.testing.assert_array_equal(codes[1, 2][visible], np.rint(254 * weights[1, 2])[visible])
    visible = np.ones((2, 1, 3, 5), dtype=bool)
    visible[1, 0, 2, 4] = False
    arrays = thumbnail_codes(np.zeros((2, 4, 3, 5), np.float32), visible)
    masked = arrays["codes"].reshape(2, 4, 3, 5) == 255
    assert masked[1, :, 2, 4].all()
    assert masked.sum() == 4


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.inf])
def test_what_is_no_weight_is_refused(wrong):
    with pytest.raises(InputError, match="large"):
        alignments_sent(Moment("", (Panel("large", ("one",), np.array([[0.0, wrong, 0.0]])),)))
    weights = np.full((1, 1, 2, 3), 0.2)
    weights[0, 0, 1, 2] = wrong
    with pytest.raises(InputError, match=r"thumbnails has the value .*between 0 and 1"):
        thumbnail_codes(weights, None)

"""The components in a page, without a browser: what they are sent, what they return, what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.browser.pages.sample import attention, product_board
from transformer.errors import InputError, RecordError
from transformer.messages import Message
from transformer.plots.canvas.about import About
from transformer.plots.canvas.blob import unpack
from ui.components.all_heads.component import Picked, _picked, all_heads
from ui.components.map.component import scaled, sure_heads
from ui.components.matrices.component import Cell, _cell
from ui.components.row_bars.component import _row, row_bars
from ui.components.tracks.component import Axis, Series, Track, tracks

PAGE = Path(__file__).parents[2] / "browser" / "pages" / "components.py"


@pytest.fixture
def page():
    app = AppTest.from_file(str(PAGE), default_timeout=30).run()
    assert not app.exception
    return app


def elements(page):
    """The elements that carry numbers and options; scripts have their own."""
    return [element for element in page.get("bidi_component") if not element.key.endswith(".script")]


def sent(page):
    """What each element was sent: the grid's blob and options, then the lines' blob and options."""
    grid, grid_options, lines, lines_options = (element.proto for element in elements(page))
    return grid.bytes, json.loads(grid_options.json), lines.bytes, json.loads(lines_options.json)


def texts(page):
    return [element.value for element in page.text]


def test_the_browser_is_sent_the_record_s_numbers(page):
    weights, _ = attention(3, 5, 11, 7)
    grid, grid_options, lines, lines_options = sent(page)
    header, arrays = unpack(grid)
    assert header["shape"] == [3, 5, 11, 7]
    assert header["instance"] == grid_options["instance"] == "grid"
    assert (header["query_axis"], header["words"]["save_png"]) == ("queries", "Save PNG")
    np.testing.assert_array_equal(arrays["codes"], np.rint(254 * weights.ravel()))
    assert grid_options["selected"] == [1, 2]
    header, arrays = unpack(lines)
    assert header["query_labels"][10] == "q10"
    assert header["key_labels"][6] == "k6"
    np.testing.assert_array_equal(arrays["weights"], weights[1].ravel())
    rest = {"active": None, "selected_pair": None, "threshold": 0}
    assert lines_options == {"instance": "lines", "events": ["pair"], **rest}


def test_a_choice_sends_options_and_no_weights_again(page):
    grid, _, lines, _ = sent(page)
    page.button[0].click().run()
    same_grid, _, same_lines, options = sent(page)
    assert (same_grid, same_lines) == (grid, lines)
    assert options["selected_pair"] == [1, 2]


def test_scripts_and_styles_travel_apart_from_what_changes(page):
    scripts = [element.proto for element in page.get("bidi_component") if element.key.endswith(".script")]
    assert [len(script.js_content) > 20_000 for script in scripts] == [True, True]
    assert all(len(element.proto.js_content) < 2_000 for element in elements(page))
    page.button[0].click().run()
    again = [element.proto for element in page.get("bidi_component") if element.key.endswith(".script")]
    assert again == scripts


def test_the_identity_of_an_element_does_not_depend_on_its_data(page):
    before = [element.proto.id for element in page.get("bidi_component")]
    page.session_state["selected"] = (0, 0)
    page.run()
    assert [element.proto.id for element in page.get("bidi_component")] == before
    assert unpack(sent(page)[2])[1]["weights"][0] == attention(3, 5, 11, 7)[0][0, 0, 0, 0]


@pytest.mark.parametrize(
    ("news", "picked"),
    [
        ({"layer": 2, "head": 3}, Picked(2, 3)),
        ({"layer": 0, "head": 4}, Picked(0, 4)),
        ({"layer": 3, "head": 0}, None),
        ({"layer": 0, "head": 5}, None),
        ({"layer": -1, "head": 0}, None),
        ({"layer": "1", "head": 0}, None),
        (7, None),
    ],
)
def test_only_a_head_that_is_there_can_be_picked(news, picked):
    assert _picked(news, 3, 5) == picked


@pytest.mark.parametrize(
    ("news", "cell"),
    [
        ({"matrix": "B", "row": 2, "column": 1}, Cell("B", 2, 1)),
        ({"matrix": "B", "row": 3, "column": 1}, None),
        ({"matrix": "B", "row": 0, "column": 2}, None),
        ({"matrix": "D", "row": 0, "column": 0}, None),
        ({"none": True}, None),
    ],
)
def test_only_a_cell_that_is_there_can_be_picked(news, cell):
    assert _cell(news, product_board()) == cell


def test_a_picture_is_sent_as_it_is_masked_cells_apart_and_its_cells_can_be_picked():
    def page():
        from dataclasses import replace

        import numpy as np
        import streamlit as st

        from transformer.plots.axes import Axis
        from transformer.plots.picture import Picture
        from transformer.plots.quantity import Quantity
        from ui.components.heatmap.component import heatmap_of

        def axis(name, count):
            return Axis.of_pieces(name, [f"{name}{i}" for i in range(count)], [False] * count)

        values = np.linspace(-0.5, 1, 15).reshape(3, 5)
        values[2, 1] = np.inf
        picture = Picture("encoder.0.self", "0", values, np.tri(3, 5, dtype=bool), axis("q", 3), axis("k", 5))
        for quantity in (Quantity.WEIGHT, Quantity.DIFFERENCE):
            name = quantity.value
            shown = replace(picture, quantity=quantity)
            heatmap_of(shown, key=name, file_name="map", selected=(1, 0), on_pick=lambda *cell: st.text(str(cell)))

    weights, _, difference, options = (
        element.proto for element in elements(AppTest.from_function(page, default_timeout=30).run())
    )
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


def test_nobody_is_told_what_nobody_listens_for():
    app = AppTest.from_file(str(PAGE), default_timeout=30)
    app.query_params["deaf"] = "1"
    app.query_params["show"] = "grid,lines,board"
    told = [json.loads(element.proto.json)["events"] for element in elements(app.run())[1::2]]
    assert told == [[], [], []]
    del app.query_params["deaf"]
    told = [json.loads(element.proto.json)["events"] for element in elements(app.run())[1::2]]
    assert told == [["picked"], ["pair"], ["picked"]]


def test_matrices_hint_at_a_click_only_where_one_is_heard():
    app = AppTest.from_file(str(PAGE), default_timeout=30)
    app.query_params["show"] = "board"
    assert unpack(elements(app.run())[0].proto.bytes)[0]["hint"].startswith("Pick a cell")
    app.query_params["deaf"] = "1"
    assert unpack(elements(app.run())[0].proto.bytes)[0]["hint"] == ""


def test_empty_and_single_inputs_have_a_picture():
    for shape in ("0,0,0,0", "1,2,0,0", "1,1,1,1"):
        app = AppTest.from_file(str(PAGE), default_timeout=30)
        app.query_params["shape"] = shape
        assert not app.run().exception


GRID = np.zeros((2, 3, 7, 5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_names": ["one"]}, "1 row_names and 3 column_names for 2 layers of 3 heads"),
        ({"selected": (2, 0)}, r"selected=\(2, 0\) is not among 2 layers of 3 heads"),
        ({"selected": (0, -1)}, r"selected=\(0, -1\) is not among 2 layers of 3 heads"),
    ],
)
def test_a_grid_s_misfits_are_refused(change, message):
    right = {"row_names": ["a", "b"], "column_names": ["c", "d", "e"], "selected": (0, 0)}
    with pytest.raises(InputError, match=message):
        all_heads(GRID, None, key="k", **(right | change))


def test_an_error_of_a_component_is_told_in_chinese():
    with pytest.raises(InputError) as raised:
        all_heads(GRID, None, ["a", "b"], list("cde"), (2, 0), key="k")
    assert raised.value.code == "component_grid_selected"
    assert raised.value.fields["selected"] == "(2, 0)"
    assert isinstance(raised.value.message, Message)
    assert raised.value.message.in_language("zh").startswith("selected=(2, 0) 不在")


@pytest.mark.parametrize(
    ("news", "row"),
    [
        ({"thousandths": [250, 0, 750]}, (0.25, 0.0, 0.75)),
        ({"thousandths": [250, 750]}, None),
        ({"thousandths": [250, 0, 751]}, None),
        ({"thousandths": [-1, 1, 1000]}, None),
        ({"thousandths": [0.5, 0.5, 999]}, None),
        ({"thousandths": [True, 499, 500]}, None),
        ([250, 0, 750], None),
    ],
)
def test_only_a_whole_row_of_thousandths_can_be_forced(news, row):
    assert _row(news, 3) == row


def test_bars_need_a_label_each():
    with pytest.raises(InputError, match="3 keys with 2 labels"):
        row_bars(np.ones(3) / 3, ["a", "b"], "q", key="k")


def test_tracks_need_a_value_for_each_place():
    short = Series("EI", np.arange(1, 6), np.ones(4), "EI")
    with pytest.raises(RecordError, match="EI has 4 positions for 5 letters"):
        tracks([Track("bars", series=[short])], Axis(1, 5, "letter"), key="k", file_name="f", about=About())


def test_bars_of_a_map_are_shares_of_the_largest_in_steps_that_a_byte_holds():
    values = np.random.default_rng(11).normal(size=(5, 13))
    largest = max(max(row) for row in values)
    expected = [[round(255 * max(value, 0.0) / largest) for value in row] for row in values]
    assert scaled(values).tolist() == expected
    assert scaled(values).dtype == np.uint8
    assert not scaled(-np.abs(values)).any()  # a net without a unit above zero has no bar


def test_the_surest_head_of_a_map_is_the_one_with_the_largest_weight_and_a_masked_key_is_none():
    weights = np.random.default_rng(12).random((3, 7, 5))
    weights[:, :, 4] = np.nan
    for query, (head, key, weight) in enumerate(sure_heads(weights)):
        known = {(h, k): weights[h, query, k] for h in range(3) for k in range(4)}
        assert (head, key) == max(known, key=known.__getitem__)
        assert weight == max(known.values())

"""The components in a page, without a browser: what they are sent, what they return, what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.browser.pages.sample import attention
from transformer.errors import InputError
from ui.components.all_heads.component import all_heads
from ui.components.head_view.component import Token, head_view
from ui.components.shared.blob import unpack

PAGE = Path(__file__).parents[2] / "browser" / "pages" / "components.py"


@pytest.fixture
def page():
    app = AppTest.from_file(str(PAGE), default_timeout=30).run()
    assert not app.exception
    return app


def sent(page):
    """What each element was sent: the grid's blob and options, then the lines' blob and options."""
    grid, grid_options, lines, lines_options = (element.proto for element in page.get("bidi_component"))
    return grid.bytes, json.loads(grid_options.json), lines.bytes, json.loads(lines_options.json)


def texts(page):
    return [element.value for element in page.text]


def test_the_browser_is_sent_the_record_s_numbers(page):
    weights, _ = attention(3, 5, 11, 7)
    grid, grid_options, lines, lines_options = sent(page)
    header, arrays = unpack(grid)
    assert header["shape"] == [3, 5, 11, 7]
    assert header["instance"] == grid_options["instance"] == "grid"
    assert header["notes"][2][4] == "note of 2, 4"
    np.testing.assert_array_equal(arrays["codes"], np.rint(254 * np.sqrt(weights.ravel())))
    assert grid_options["selected"] == [1, 2]
    header, arrays = unpack(lines)
    assert header["query_labels"][10] == "q10"
    assert header["key_labels"][6] == "k6"
    np.testing.assert_array_equal(arrays["weights"], weights[1].ravel())
    assert lines_options == {"instance": "lines", "active": None, "selected_pair": None, "locked": None, "threshold": 0}


def test_a_choice_sends_options_and_no_weights_again(page):
    grid, _, lines, _ = sent(page)
    page.slider[0].set_value(0.25).run()
    page.button[0].click().run()
    same_grid, _, same_lines, options = sent(page)
    assert (same_grid, same_lines) == (grid, lines)
    assert options["threshold"] == 0.25
    assert options["selected_pair"] == [1, 2]
    assert options["locked"] == {"side": "key", "index": 3}


def test_the_identity_of_an_element_does_not_depend_on_its_data(page):
    before = [element.proto.id for element in page.get("bidi_component")]
    page.session_state["selected"] = (0, 0)
    page.run()
    assert [element.proto.id for element in page.get("bidi_component")] == before
    assert unpack(sent(page)[2])[1]["weights"][0] == attention(3, 5, 11, 7)[0][0, 0, 0, 0]


def test_a_pick_is_returned(page):
    page.session_state["grid"] = {"picked": {"layer": 2, "head": 3}}
    assert "picked Picked(layer=2, head=3)" in texts(page.run())


@pytest.mark.parametrize(
    "news", [{"layer": 3, "head": 0}, {"layer": -1, "head": 0}, {"layer": "1", "head": 0}, 7, None]
)
def test_a_pick_of_a_head_that_is_not_there_is_none(page, news):
    page.session_state["grid"] = {"picked": news}
    assert "picked None" in texts(page.run())


@pytest.mark.parametrize(
    ("news", "event"),
    [
        ({"token": {"side": "key", "index": 6}}, "locked=Token(side='key', index=6)"),
        ({"released": True}, "released=True"),
        ({"pair": {"query": 10, "key": 6}}, "pair=(10, 6)"),
        ({"heads": [0, 4]}, "heads=(0, 4)"),
        ({"heads": []}, "heads=()"),
    ],
)
def test_an_event_is_returned(page, news, event):
    page.session_state["lines"] = news
    assert any(text.startswith("event HeadViewEvent(") and event in text for text in texts(page.run()))


@pytest.mark.parametrize(
    "news",
    [
        {"token": {"side": "key", "index": 7}},
        {"token": {"side": "head", "index": 0}},
        {"pair": {"query": 11, "key": 0}},
        {"pair": [1, 2]},
        {"heads": [5]},
        {"heads": "04"},
        {"released": "yes"},
    ],
)
def test_an_event_about_what_is_not_there_is_none(page, news):
    page.session_state["lines"] = news
    assert "event None" in texts(page.run())


def test_empty_and_single_inputs_have_a_picture():
    for shape in ("0,0,0,0", "1,2,0,0", "1,1,1,1"):
        app = AppTest.from_file(str(PAGE), default_timeout=30)
        app.query_params["shape"] = shape
        assert not app.run().exception


GRID = np.zeros((2, 3, 7, 5))
LINES = np.zeros((3, 2, 5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row_names": ["one"]}, "1 row_names and 3 column_names for 2 layers of 3 heads"),
        ({"notes": [["a"] * 3]}, "notes do not have 2 rows of 3"),
        ({"selected": (2, 0)}, r"selected=\(2, 0\) is not among 2 layers of 3 heads"),
    ],
)
def test_a_grid_s_misfits_are_refused(change, message):
    right = {"row_names": ["a", "b"], "column_names": ["c", "d", "e"], "selected": (0, 0), "notes": None}
    with pytest.raises(InputError, match=message):
        all_heads(GRID, None, key="k", **(right | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_labels": ["q"]}, "3 heads, 1 query_labels and 5 key_labels"),
        ({"active": [0, 3]}, r"active=\[0, 3\]"),
        ({"selected_pair": (0, 5)}, r"selected_pair=\(0, 5\) is not among 2 queries and 5 keys"),
        ({"locked": Token("query", 2)}, r"locked=Token\(side='query', index=2\)"),
        ({"threshold": 1.5}, "threshold=1.5 is no weight"),
    ],
)
def test_a_head_view_s_misfits_are_refused(change, message):
    right = {"query_labels": list("ab"), "key_labels": list("abcde"), "heads": list("xyz")}
    with pytest.raises(InputError, match=message):
        head_view(LINES, None, key="k", **(right | change))

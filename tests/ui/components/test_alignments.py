"""What the alignments component sends to the browser, and what it takes back."""

from typing import Any

import numpy as np
import pytest

from transformer.errors import InputError
from ui.components.alignments.component import Marked, Moment, Panel, _marked, alignments_message

COLUMNS = ("a", "b", "c")


def panel(seed: int, rows: int, hidden: bool = False) -> Panel:
    weights = np.random.default_rng(seed).dirichlet(np.ones(3), size=rows)
    visible = np.ones((rows, 3), dtype=bool)
    visible[:, 2] = not hidden
    return Panel(f"panel {seed}", tuple(f"word {i}" for i in range(rows)), weights, visible, "a note")


def message(*moments: Moment) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return alignments_message(moments, COLUMNS, True)


def test_the_browser_is_sent_every_weight_of_every_moment() -> None:
    panels = [panel(0, 5), panel(1, 2, hidden=True)]
    header, arrays = message(Moment("early", tuple(panels)), Moment("late", (panels[0],)))
    assert [moment["name"] for moment in header["moments"]] == ["early", "late"]
    sent = {"title": "panel 1", "note": "a note", "rows": ["word 0", "word 1"], "decided": []}
    assert header["moments"][0]["panels"][1] == sent
    assert (header["columns"], header["same_rows"], header["masked"]) == (["a", "b", "c"], True, True)
    assert set(arrays) == {"0.0", "0.1", "1.0"}
    np.testing.assert_array_equal(arrays["0.0"].reshape(5, 3), panels[0].weights.astype(np.float32))
    np.testing.assert_array_equal(arrays["0.1"].reshape(2, 3)[:, 2], [-np.inf, -np.inf])
    np.testing.assert_array_equal(arrays["0.1"].reshape(2, 3)[:, :2], panels[1].weights[:, :2].astype(np.float32))


def test_a_mask_is_named_only_where_there_is_one() -> None:
    header, _ = message(Moment("", (panel(0, 2),)))
    assert header["masked"] is False


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        message()
    short = Panel("short", ("one",), np.zeros((2, 3)))
    with pytest.raises(InputError, match="short"):
        message(Moment("", (short,)))
    large = Panel("large", ("one",), np.array([[0.0, 1.5, 0.0]]))
    with pytest.raises(InputError, match="large"):
        message(Moment("", (large,)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"panel": 1, "row": 1}, Marked(1, 1)),
        ({"panel": 0, "row": 4}, Marked(0, 4)),
        ({"panel": 1, "row": 2}, None),
        ({"panel": 2, "row": 0}, None),
        ({"panel": -1, "row": 0}, None),
        ({"none": True}, None),
        ({"panel": "0", "row": 0}, None),
        ("word", None),
    ],
)
def test_only_a_word_that_is_there_can_be_marked(value: object, expected: Marked | None) -> None:
    moments = [Moment("", (panel(0, 5), panel(1, 2)))]
    assert _marked(value, moments) == expected

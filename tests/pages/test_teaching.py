"""The tour on its pages: each address shows what its step speaks of, and no answer is sent before it is revealed."""

import re
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.state.common import user_key_from_element_id
from streamlit.testing.v1 import AppTest

from heedmap.teaching.data import Step, questions, steps
from tests.pages.opening import address_of, fine, matrices, opened
from ui.path import question
from ui.path.question import GUESS, SHOWN
from ui.path.strip import DONE, STEP, lesson_link
from ui.shared.state import STATE
from ui.texts import KEY, plain

CLICKED = {"cell", "part", "window"}
"""Parameters that a click writes, and no control owns."""


def at_step(one: Step, **more: str) -> AppTest:
    return opened(one.page, **{**one.address, STEP: one.label, **more})


def step(label: str) -> Step:
    return next(one for one in steps() if one.label == label)


def keys_of(block: Any) -> set[str]:
    """The keys of all containers and elements of a page."""
    proto = getattr(block, "proto", None)
    raw = {str(getattr(proto, name, "")) for name in ("id", "key")}
    inner = (keys_of(child) for child in getattr(block, "children", {}).values())
    return set().union(raw, {str(user_key_from_element_id(one)) for one in raw if one}, *inner)


def drawn(at: AppTest) -> str:
    """Everything that a page sends to the browser."""

    def sent(block: Any) -> str:
        proto = getattr(block, "proto", None)
        return repr(proto) + "".join(sent(child) for child in getattr(block, "children", {}).values())

    return sent(at._tree)


@pytest.mark.parametrize("one", steps(), ids=lambda one: f"{one.label}-{one.name}")
def test_an_address_of_the_tour_is_taken_by_its_page_and_what_it_lights_is_there(one: Step) -> None:
    at = fine(at_step(one, **({SHOWN: one.question} if one.question else {})))
    state = at.session_state[STATE]
    shown = {key: str(held.value) for key, held in state.shown.items()}
    wrong = {
        key: shown.get(key) for key, value in one.address.items() if key not in CLICKED and shown.get(key) != value
    }
    assert wrong == {}
    assert address_of(at).items() >= {key: one.address[key] for key in CLICKED & one.address.keys()}.items()
    assert any(one.lit in {key, key.partition(".")[0]} or key.endswith(f"-{one.lit}") for key in keys_of(at._tree))


def test_before_it_is_revealed_the_answer_is_in_nothing_that_the_page_sends() -> None:
    """The picture that would show it is not drawn; what is drawn is made without the answer."""
    at = fine(at_step(step("7")))
    assert "1.553" not in drawn(at)
    assert not any(key.startswith(("matrices", "zip")) for key in keys_of(at._tree))
    before = at.text_input(key="path-guess-score_by_hand")
    before.set_value("1.2").run()
    assert address_of(at)[GUESS] == "1.2"
    at.button(key="path-reveal").click().run()
    fine(at)
    assert "1.553" in drawn(at)
    assert any("0.353" in one.value for one in at.markdown)
    assert any(key.startswith("matrices") for key in keys_of(at._tree))
    assert address_of(at)[DONE] == f"{1 << steps().index(step('7')):x}"


def test_every_question_can_be_asked_without_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel is drawn from `asked`, `options`, `given` and `cells` alone: the rest is not looked at."""

    class Sealed:
        def __init__(self, case: Any) -> None:
            self._case = case

        def __getattr__(self, name: str) -> Any:
            assert name in {"asked", "options", "given", "cells"}, name
            return getattr(self._case, name)

    real = question.case
    monkeypatch.setattr(question, "case", lambda *given: Sealed(real(*given)))
    on_a_picture = set()
    for name in questions():
        at = fine(opened("teaching", view="questions", question=name))
        assert at.button(key="path-reveal")
        if "path-cells" not in keys_of(at._tree):
            continue
        on_a_picture.add(name)
        values = matrices(at)[1]
        assert not np.nan_to_num(values["answer"]).any()
        assert all(np.isfinite(one).all() for label, one in values.items() if label != "answer")
    words, heads = {"deciding_word", "visible_words", "keys_in_order"}, {"most_hurtful_head", "most_helpful_cut"}
    assert on_a_picture == words | heads | {"drawn_row", "most_flattened_row", "table_with_a_slip"}


@pytest.mark.parametrize(("text", "right", "number"), [("", "1", "1.645"), ("cat", "0", "1.000")])
def test_a_belief_is_held_against_the_run_of_the_sentence(text: str, right: str, number: str) -> None:
    """Columns of weights do not sum to 1, but for those of a sentence of one word."""
    at = fine(opened("teaching", view="questions", question="column_sums", text=text, **{GUESS: "1"}))
    assert number not in drawn(at)
    at.button(key="path-reveal").click().run()
    said = next(one.value for one in fine(at).markdown if number in one.value)
    assert ("check_circle" in said) == (right == "1")


def test_a_step_is_done_by_a_prediction_or_a_change_and_leaving_the_tour_is_one_click() -> None:
    at = fine(at_step(step("9")))
    at.button(key="path-reveal").click().run()
    assert DONE not in address_of(at)
    at.button(key="path-leave-now").click().run()
    assert STEP not in address_of(at)
    assert "path-strip" not in keys_of(at._tree)
    one = step("C2")  # it has no question
    at = fine(at_step(one))
    assert DONE not in address_of(at)
    at.selectbox(key="made").set_value("shipped").run()
    fine(at.run())
    assert int(address_of(at)[DONE], 16) >> steps().index(one) & 1


def test_the_other_views_open_and_a_presented_page_has_no_title_and_no_side_bar_tools() -> None:
    for view in ("tour", "glossary", "handout"):
        fine(opened("teaching", view=view))
    at = fine(opened("masks", present="1"))
    assert not at.title
    assert "path-teach" not in keys_of(at._tree)
    at.button(key="path-end-view").click().run()
    assert at.title


def test_a_lesson_link_takes_controls_out_of_the_page_and_refuses_keys_that_somebody_types() -> None:
    """The link that the page makes: what is hidden keeps its value, whatever else the address says of it."""
    values = {"temperature": "2.5", "screen": "board", DONE: "3"}
    query = lesson_link(values, ["temperature", "scaled"], lock=True)
    assert query == {"screen": "board", "hide": "temperature~2%2E5.scaled", "lock": "1"}
    expected = fine(opened("attention_steps", screen="board", temperature="2.5"))
    at = fine(opened("attention_steps", **query, temperature="0.3", scaled="False"))
    keys = keys_of(at._tree)
    assert {"temperature", "scaled"} & keys == set()
    assert {"dropout", "d_model"} <= keys
    assert not {"temperature", "scaled"} & address_of(at).keys()
    weights, right = (matrices(one)[1] for one in (at, expected))
    assert weights.keys() == right.keys()
    assert all(np.array_equal(weights[name], right[name]) for name in right)
    unlocked = fine(opened("attention_steps", screen="board", hide="temperature", temperature="2.5"))
    assert "temperature" not in keys_of(unlocked._tree)
    assert all(np.array_equal(matrices(unlocked)[1][name], right[name]) for name in right)


@pytest.mark.parametrize("page", ["translate", "what_if", "align", "masks", "positions", "map"])
def test_every_control_of_a_page_can_be_taken_out(page: str) -> None:
    known = list(fine(opened(page)).session_state[STATE].labels)
    assert len(known) > 1
    hidden = [key for key in known if key != KEY]
    at = fine(opened(page, hide=".".join(hidden), lock="1"))
    assert set(hidden) & keys_of(at._tree) == set()


def test_a_locked_link_offers_no_preset_that_sets_what_it_fixes() -> None:
    """Not where a lock refuses the value, nor where the link gives one of its own; elsewhere all are offered."""
    offered = lambda **link: set(fine(opened("attention_steps", **link)).menu_button[0].proto.options)  # noqa: E731
    every = offered()
    hot = plain("attention_steps.try_hot")
    assert hot in every
    for link in ({"hide": "temperature", "lock": "1"}, {"hide": "temperature~2%2E5"}):
        assert every - offered(**link) == {hot}
    assert offered(hide="temperature") == every
    keys = keys_of(fine(opened("translate", hide="text", lock="1"))._tree)
    assert "examples" not in keys
    assert "examples" in keys_of(fine(opened("translate"))._tree)


@pytest.mark.parametrize(
    ("name", "guess", "said"),
    [
        ("log_prob_of_a_reference", "1", "No run gives that number"), ("log_prob_of_a_reference", "-7.5", "Right"),
        ("log_prob_of_a_reference", "-12", "Off by"), ("deciding_word", "7", "Right"),
        ("deciding_word", "0", r"Your choice: 0\\?\.\d{3} nats\. The right one: 3\\?\.2\d\d nats\."),
    ],
)  # fmt: skip
def test_a_prediction_is_measured_in_a_unit_and_never_right_where_no_run_can_give_it(name, guess, said) -> None:
    """The log-probability of the lesson's reference is -8.96; up to 2 beside it are right, above 0 nothing is."""
    text = "Someone is cooking dinner in a small kitchen."
    at = fine(opened("teaching", view="questions", question=name, text=text, **{GUESS: guess, SHOWN: name}))
    number = "" if name == "deciding_word" else "-8.962"
    assert any(re.search(said, one.value) and number in one.value for one in at.markdown)

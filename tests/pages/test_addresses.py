"""The address is the state: walks, hostile values, links between pages, and what is tried at a click."""

import json
import random
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import UnknownElement

from tests.pages.opening import address_of, fine, is_whole, moved, opened, options, ran, silent
from ui.lessons import attention_steps, inside_layer, masks, positions, watched_training

pytestmark = pytest.mark.usefixtures("models")

STEPS = 12

PAGES = (
    "map", "translate", "align", "sequences", "your_model", "attention_steps", "inside_layer", "masks", "positions",
)  # fmt: skip
"""Every page whose controls are walked over."""

CHOICES = ("button_group", "selectbox", "slider", "number_input", "toggle", "text_input", "text_area", "button")
TEXTS = ("two dogs run", "a red", "", "A man rides a bicycle.\na red dog", "ACGTTGCAAGTGTCAGTTGACGTACC", "3")
NEVER = ("measure", "to-sequences", "remove", "forget-answers", "forget-all-answers")
"""Buttons that lead elsewhere, take long, or change what is no state of a page."""


def walked(page: str, seed: int, steps: int, **address: str) -> AppTest:
    """A session that begins at the page, after so many random moves."""
    chance, at = random.Random(seed), opened(page, **address)
    for _ in range(steps):
        _move(at, chance)
        assert not at.exception
    return at


def seen(at: AppTest) -> list[tuple[str, Any]]:
    """The page's elements in order: texts, tables, controls with their values, figures and components to the number."""
    return [(one.type, found) for one in at.main if (found := _content(one)) is not None]


def _move(at: AppTest, chance: random.Random) -> None:
    """Move one control of a kind that is drawn at random to a value that is, and run."""
    here = {kind: [one for one in at.main.get(kind) if _moves(one)] for kind in CHOICES}
    kind = chance.choice([kind for kind, found in here.items() if found])
    one = chance.choice(here[kind])
    if kind == "button":
        one.click()
    else:
        one.set_value(_value(one, kind, chance))
        submit = [button for button in at.main.button if button.form_id and button.form_id == one.form_id]
        if submit:
            submit[0].click()
    at.run()


def _moves(one: Any) -> bool:
    """Whether it can be moved, and is not the answer to a question about an uploaded file."""
    key = getattr(one, "key", None) or ""
    return not getattr(one, "disabled", False) and not key.startswith((*NEVER, "ask.", "FormSubmitter"))


def _value(one: Any, kind: str, chance: random.Random) -> Any:
    if kind in {"button_group", "selectbox"}:
        return chance.choice(one.options)
    if kind == "toggle":
        return not one.value
    if kind in {"slider", "number_input"}:
        steps = round((one.max - one.min) / one.step)
        return type(one.value)(round(one.min + one.step * chance.randrange(steps + 1), 2))
    return chance.choice(TEXTS)


def _content(one: Any) -> Any:
    """What an element shows; None for what shows nothing of the state."""
    if isinstance(one, UnknownElement):
        if one.type == "plotly_chart":
            return one.proto.spec
        if one.type == "bidi_component":
            data = one.proto.WhichOneof("data")
            return data and getattr(one.proto, data)
        return None
    if one.type in {"button", "download_button", "file_uploader"}:
        return None
    value = getattr(one, "value", None)
    return value.to_json() if isinstance(value, pd.DataFrame) else repr(value)


@pytest.mark.parametrize("page", PAGES)
def test_a_fresh_visit_shows_what_a_walk_ended_with(page: str) -> None:
    text = {"text": "two dogs", "longest": "10"} if page in {"translate", "align"} else {}
    end = walked(page, 0, STEPS, **text)
    fresh = opened(page, **address_of(end))
    assert seen(fresh) == seen(end), address_of(end)
    assert address_of(fresh) == address_of(end)


HOSTILE: dict[str, dict[str, tuple[str, ...]]] = {
    "attention_steps": {
        "cell": ("S0:99,1", "<script>:1,1", "S0:-1,\N{SUPERSCRIPT TWO}", "", "none", "S0:1", "S0:1,2,3", "S0:,"),
        "attention": ("<b>", "additive"), "d_model": ("1e9", "6"), "n_heads": ("4",), "n_tokens": ("-4", "2"),
        "seed": ("99999999999999999999",), "dropout": ("nan", "1e", "."), "blind": ("77",), "lang": ("xx",),
        "at_step": ("8",), "scaled": ("maybe",), "stage": ("mask",), "split": ("8",),
        "temperature": ("0", "99", "inf"),
    },
    "inside_layer": {
        "stage": ("<b>", "norm", "output", "order", "residual"), "cell": ("Y.1e9.2",), "form": ("layer",),
        "side": ("decoder",), "part": ("pooling", "cross"), "norm_first": ("maybe",), "position": ("99", "-1"),
        "at_layer": ("7",), "d_model": ("3",), "n_tokens": ("1",),
    },
    "masks": {
        "mask": ("<b>",), "row": ("9",), "screen": ("nothing",), "how": ("?",), "convention": ("numpy",),
        "given": ("numpy",),
    },
    "positions": {
        "screen": ("?", "rotation"), "base": ("0",), "d_table": ("1e3",), "n_rows": ("-1",), "variant": ("<b>",),
        "steps": ("500",), "p": ("99",),
    },
    "map": {
        "part": ("nothing", "encoder.0.self_attention"), "at_word": ("999", "x"), "temperature": ("hot",),
        "layers": ("few",), "at_head": ("7",),
    },
    "translate": {
        "layer": ("99",), "head": ("77",), "written": ("10000",), "node": ("99999",), "kind": ("nothing",),
        "view": ("Nowhere",), "pair": ("9-9999999",), "text": ("two dogs",), "longest": ("10",),
    },
    "align": {
        "second": ("nothing",), "screen": ("none",), "head1": ("99.1",), "head2": ("x",), "target": ("?",),
        "mark": ("9-999999",), "moment": ("-3",), "learner": ("?",), "trained": ("?",),
        "text": ("two dogs",), "longest": ("10",),
    },
}  # fmt: skip
"""By page and key: values that are none, each of which stands in an address with one of every other key."""

DRAWN = {"bidi_component", "plotly_chart", "html", "latex"}
"""What a page shows something in."""


SLOW = {"translate", "align"}
"""Pages that search a translation of a text."""


@pytest.mark.parametrize("page", HOSTILE)
def test_a_hostile_address_is_ignored(page: str) -> None:
    values = HOSTILE[page]
    for turn in range(max(map(len, values.values()))):
        at = fine(opened(page, **{key: found[turn % len(found)] for key, found in values.items()}))
        assert at.title
        assert [one for one in at.main if one.type in DRAWN]
        if page == "translate":
            assert next(part.value for part in at.text), "it still writes a translation"
    at = opened(page, model="../../etc", second="../../etc", **({"text": "two dogs"} if page in SLOW else {}))
    for box in at.selectbox:  # the first that is here stands for one that is nowhere
        assert box.key not in {"model", "second"} or box.value == box.options[0]


TRY = {
    "attention_steps": attention_steps.TRY, "inside_layer": inside_layer.TRY, "masks": masks.TRY,
    "positions": positions.TRY, "learning": watched_training.TRY,
}  # fmt: skip


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, items in TRY.items() for name in items])
def test_try_this_sets_the_controls_and_the_address(page: str, name: str) -> None:
    at = opened(page, d_model="12", stage="output", cell="Q0.0.0", screen="rate" if page == "masks" else "watch")
    fine(at.menu_button(key=f"{page}.try").click(name).run())
    settings = TRY[page][name]
    assert address_of(at).keys() <= settings.keys()
    for key, value in settings.items():
        assert address_of(at).get(key) in {str(value), None}
        if key in at.session_state:
            assert at.session_state[key] == value


UNREADABLE = ("", "   \n\t ", "x" * 10_000, "dog " * 400)
"""Texts that no page with a sentence can run."""


@pytest.mark.parametrize("page", ["map", "translate", "align", "what_if"])
def test_a_sentence_that_cannot_be_read_gets_one_of_ours_and_is_kept(page: str) -> None:
    at = opened(page, model="tiny", **({"longest": "10"} if page in SLOW else {}))
    for text in UNREADABLE:
        ran(at, text=text)
        assert len(at.warning) == 1
        assert at.warning[0].value[0].isupper()
        assert next(one for one in (*at.text_area, *at.text_input) if one.key == "text").value == text


ODD: dict[str, dict[str, Any]] = {
    "map": {"part": "output", "temperature": "2.0", "model": "tiny", "text": "two dogs"},
    "translate": dict(head="0", layer="0", kind="encoder.self", view="head_view", text="two dogs", beam="2"),
    "align": {"screen": "changes", "target": "own", "text": "two dogs"},
    "sequences": {"head": "1", "layer": "0", "view": "windows", "lang": "en"},
    "your_model": dict(model="tiny", show="attention", head="1", kind="encoder.self", input="two", map="downloads"),
    "attention_steps": {"made": "shipped", "screen": "board", "at_head": "1", "source": "two dogs"},
    "inside_layer": {"made": "shipped", "stage": "output", "text": "two dogs", "position": "1"},
    "masks": {"made": "shipped", "screen": "break", "how": "no_padding", "at_head": "1"},
    "positions": {"screen": "rotation", "d_table": "12"},
}
"""An address of each page that is full of what its controls are not at first."""

SUBJECT = {"model", "text", "sequence", "word", "lang"}
"""What goes along from page to page."""


def go(session: AppTest, page: str, **address: str) -> AppTest:
    """To a page by the menu, which leaves the old address behind; or with an address."""
    session.query_params.clear()
    session.query_params.update(address)
    session.switch_page(f"pages/{page}.py").run()
    assert not session.exception
    return session


def controls(session: AppTest) -> dict[str, Any]:
    """The values of a page's controls by key."""
    kinds = ("button_group", "selectbox", "slider", "number_input", "toggle", "text_input", "text_area")
    return {f"{kind} {one.key}": one.value for kind in kinds for one in session.get(kind) if one.key not in SUBJECT}


def address(session: AppTest) -> str:
    found = {key: value for key, value in dict(session.query_params).items() if key not in SUBJECT}
    return json.dumps(found, sort_keys=True)


@cache
def alone(page: str, model: str | None) -> tuple[str, dict[str, Any]]:
    """The address and the controls of a page that a session starts with; its checkpoint may be another's choice."""
    session = opened(page, **({} if model is None else {"model": model}))
    return address(session), controls(session)


def test_every_page_starts_as_it_does_alone_whatever_was_chosen_before() -> None:
    """One session sets all controls of all pages before it goes from page to page, and sets them on each again."""
    session = opened(PAGES[0], **ODD[PAGES[0]])
    for page in PAGES:
        assert address(go(session, page, **ODD[page])) != "{}"
    for page in PAGES:
        go(session, page)
        models = [one.value for one in session.selectbox if one.key == "model"]
        assert (page, address(session), controls(session)) == (page, *alone(page, *(models or [None])))
        go(session, page, **ODD[page])


def test_what_a_page_is_left_with_comes_back_with_its_address_alone() -> None:
    def shown(session: AppTest) -> tuple[dict[str, Any], Any]:
        return controls(session), options(session, "sequence-head-choice")["drawn"]

    session = opened("sequences", head="1", layer="0", view="windows")
    kept = shown(session)
    assert kept[1] == ["encoder.self", 0, 1]
    go(session, "translate")
    assert all(now != before for now, before in zip(shown(go(session, "sequences")), kept, strict=True))
    assert shown(go(opened("translate"), "sequences", head="1", layer="0", view="windows")) == kept


def test_the_menu_leads_to_the_same_sentence_word_and_model_where_a_page_can_show_them() -> None:
    """What was just typed is in its links already, for whoever opens one apart; a DNA classifier gets no sentence."""

    def link(session: AppTest, page: str) -> dict[str, str]:
        found = next(one.proto for one in session.get("page_link") if one.proto.page == page)
        return dict(parse_qsl(found.query_string))

    session = opened("map", model="tiny")
    ran(session, text="two dogs")
    assert link(session, "translate") == {"model": "tiny", "text": "two dogs"}
    assert link(session, "what_if") == link(session, "translate")
    assert link(session, "align") == {"model": "tiny", "text": "two dogs"}
    assert link(session, "sequences") == {}
    go(session, "sequences")
    assert "sequence" not in session.query_params
    assert link(session, "what_if") == {"model": "tiny", "text": "two dogs"}
    go(session, "translate", **link(session, "translate"), view="sources")
    words = session.selectbox(key="word").options
    session.selectbox(key="word").set_value(words[1]).run()
    go(session, "what_if", **link(session, "what_if"))
    assert session.text_area(key="text").value == "two dogs"
    assert session.query_params["word"] == words[1]
    assert session.slider(key="written").value > 1
    ran(session, text="a red dog")
    go(session, "translate", **link(session, "translate"))
    assert (session.query_params["text"], "word" in session.query_params) == ("a red dog", False)


@pytest.mark.parametrize(
    ("name", "query", "key", "absent"),
    [
        ("align", {"text": "Two dogs are playing in the snow.", "beam": "1"}, "screen", "text"),
        ("masks", {"screen": "scores"}, "at_head", "sources"),
        ("positions", {"screen": "waves"}, "dim", "screen"),
        ("inside_layer", {}, "next", "seed"),
        ("attention_steps", {"screen": "rows"}, "temperature", "seed"),
    ],
)
def test_align_and_the_lessons_draw_what_a_choice_changes_and_nothing_else(
    name: str, query: dict[str, str], key: str, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the shipped checkpoints, beside which nothing is said
    at = silent(opened(name, **query))
    assert is_whole(at)
    at = silent(moved(at, key))
    assert not is_whole(at)
    drawn = [one.key for one in (*at.text_area, *at.slider, *at.number_input, *at.button_group)]
    assert absent not in drawn

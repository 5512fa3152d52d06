"""Controls and the address: what stands in it, what wins when, what is written once a run, and what a part may do."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.elements.lib import policies
from streamlit.runtime.state.query_params_proxy import QueryParamsProxy
from streamlit.testing.v1 import AppTest

from ui.shared.address import whole_numbers
from ui.shared.state import PageState

ROOT = Path(__file__).parents[3]


def controls() -> None:
    import streamlit as st

    from ui.shared import address

    options = ["mean", "first", "second"]
    with address.run() as show:
        show("page")
        shown = {
            "segments": address.choice("segments", options, key="segments", text=str, default="first"),
            "list": address.choice("list", options, key="list", text=str, form="list"),
            "slider": address.whole("slider", 2, 9, 5, key="slider"),
            "number": address.whole("number", 1, 900, 70, key="number"),
            "tenths": address.tenths("tenths", 0.0, 2.0, 1.3, key="tenths"),
            "switch": address.switch("switch", True, key="switch"),
            "line": address.line("line", "two dogs", key="line"),
            "lines": address.lines("lines", "a\nb", key="lines"),
        }
    st.json(shown)


CONTROLS: dict[str, tuple[str, Any, Any, Any]] = {
    "segments": ("button_group", "first", "second", "mean"),
    "list": ("selectbox", "mean", "first", "second"),
    "slider": ("slider", 5, 7, 2),
    "number": ("number_input", 70, 900, 1),
    "tenths": ("slider", 1.3, 0.4, 2.0),
    "switch": ("toggle", True, False, False),
    "line": ("text_input", "two dogs", "one", ""),
    "lines": ("text_area", "a\nb", "c", ""),
}
"""Each control: its kind, its default, and two other values."""


def script() -> None:
    import streamlit as st

    from ui.shared import address

    def both() -> None:
        address.put(head=2, word="cat|sat")

    with address.run("lang") as show:
        lang = address.choice("lang", ["en", "zh"], key="lang", text=str)
        show(st.session_state.get("goto", "first"), st.session_state.get("brought"))
        sentence = address.line("sentence", "two dogs", key="sentence")
        address.belong_to(sentence, "word")
        size = len(sentence.split())
        head = address.whole("head", 0, 9, size, key="head")
        step = address.whole("step", 1, max(size, 1), 3, key="step")
        note = address.lines("note", "", key="note", longest=5)
        model = address.choice("model", ["shipped", "brought"], key="model", text=str)
        st.button("both", on_click=both, key="both")
        found = {"lang": lang, "sentence": sentence, "head": head, "step": step, "note": note, "model": model}
        st.json(found | {"word": address.parameter("word")})
        if not sentence:
            address.stop()
        st.text("end")


def fine(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def new(of: Callable[[], None], **address: str) -> AppTest:
    page = AppTest.from_function(of, default_timeout=60)
    page.query_params.update(address)
    return page


def opened(**address: str) -> AppTest:
    return fine(new(script, **address).run())


def opened_again(before: AppTest) -> AppTest:
    """What the browser of this page sees of a server that knows nothing of it."""
    return fine(new(script, **address(before))._run(before._tree.get_widget_states()))


def gone(page: AppTest, **address: str) -> AppTest:
    """The same session with another address in the browser."""
    page.query_params.clear()
    page.query_params.update(address)
    return fine(page.run())


def moved(page: AppTest, key: str, value: Any) -> AppTest:
    next(widget for widget in page.get(CONTROLS[key][0]) if widget.key == key).set_value(value)
    return fine(page.run())


def address(page: AppTest) -> dict[str, str]:
    found = dict(page.query_params)
    return {name: value if isinstance(value, str) else value[0] for name, value in found.items()}


def shown(page: AppTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.json[0].value)
    return found


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the next runs are asked for by Back; put True into it."""
    asked: list[bool] = []
    monkeypatch.setattr("ui.patches.session.came_by_history", lambda: bool(asked))
    return asked


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Every address that is written."""
    found: list[dict[str, str]] = []
    write = QueryParamsProxy.from_dict

    def noted(params: QueryParamsProxy, values: dict[str, str]) -> None:
        found.append(dict(values))
        write(params, values)

    monkeypatch.setattr(QueryParamsProxy, "from_dict", noted)
    return found


@pytest.mark.parametrize("key", CONTROLS)
def test_a_value_stands_in_the_address_until_the_default_comes_back(key: str) -> None:
    _, default, other, another = CONTROLS[key]
    page = fine(new(controls).run())
    assert (address(page), shown(page)[key]) == ({}, default)
    assert address(moved(page, key, other)) == {key: str(other)}
    assert address(moved(page, key, another)) == {key: str(another)}
    assert (address(moved(page, key, default)), shown(page)[key]) == ({}, default)
    assert address(fine(new(controls, **{key: str(default)}).run())) == {}, "nor does a default that was typed"
    page = fine(new(controls, **{key: str(other), "stays": "1"}).run())
    assert shown(page)[key] == other
    assert address(moved(page, key, default)) == {"stays": "1"}


@pytest.mark.parametrize(
    ("text", "separator", "found"),
    [
        ("3,14", ",", (3, 14)), ("7", "-", (7,)), ("0-0-12", "-", (0, 0, 12)), ("", "-", ()), ("-", "-", ()),
        ("3,", ",", ()), ("3,,4", ",", ()), ("3,-4", ",", ()), ("3,²", ",", ()), ("3,٣", ",", ()),
        ("1e3", ",", ()), ("3-4", ",", ()), ("123456789", ",", ()), (" 3,4", ",", ()), (None, "-", ()),
    ],
)  # fmt: skip
def test_numbers_of_an_address_are_whole_or_none_at_all(text: str | None, separator: str, found: tuple[int, ...]):
    assert whole_numbers(text, separator=separator) == found
    assert whole_numbers(text, 2, separator=separator) == (found if len(found) == 2 else ())


def test_a_run_of_back_says_its_address_again_since_an_earlier_run_may_have_spoken(
    back: list[bool], written: list[dict[str, str]]
) -> None:
    page = opened(head="7")
    fine(page.run())
    assert written == []
    back.append(True)
    gone(page, head="5")
    back.clear()
    page.session_state["goto"] = "second"
    gone(page, head="4", model="brought")
    assert written == [{"head": "5"}, {"head": "4", "model": "brought"}]


Act = tuple[dict[str, Any], dict[str, str] | None, dict[str, Any], dict[str, str]]
"""What is done before a run: controls moved, or another address in the browser, where it starts with `back` by Back;
then what the page shows of these names, and its address."""

BACK = "asked for by Back"
RED = {"sentence": "a red dog"}
STORIES: dict[str, tuple[dict[str, str], list[Act]]] = {
    "after Back the address wins over every control": (RED, [
        ({"head": 7, "note": "abc"}, None, {"head": 7, "note": "abc"}, RED | {"head": "7", "note": "abc"}),
        ({BACK: True}, RED, {"head": 3, "note": ""}, RED),
        ({BACK: True}, {}, {"sentence": "two dogs", "head": 2}, {}),
        ({BACK: True}, RED | {"head": "7"}, {"head": 7}, RED | {"head": "7"}),
        ({BACK: True, "head": 9}, RED, {"head": 3}, RED),  # moved a moment before Back was pressed
        ({BACK: True}, RED | {"head": "7"}, {"head": 7}, RED | {"head": "7"}),
        ({"head": 8}, None, {"head": 8}, RED | {"head": "8"}),
    ]),
    "a browser that is slower than its user undoes nothing": ({}, [
        ({"head": 7}, None, {"head": 7}, {"head": "7"}),
        ({"note": "abc"}, {}, {"head": 7, "note": "abc"}, {"head": "7", "note": "abc"}),  # it comes with that
    ]),
    "an address that the page never wrote is a link and wins": ({}, [
        ({"head": 7}, None, {"head": 7}, {"head": "7"}),
        ({}, {"head": "5"}, {"head": 5}, {"head": "5"}),
    ]),
    "what was not moved follows the default of the input, and what was moved stays": ({}, [
        ({"sentence": "a man in a red shirt"}, None, {"head": 6}, {"sentence": "a man in a red shirt"}),
        ({"head": 2}, None, {"head": 2}, {"sentence": "a man in a red shirt", "head": "2"}),  # the first one's default
    ]),
    "what belongs to a sentence goes with it, and an address brings it": ({"word": "cat|sat"}, [
        ({}, None, {"word": "cat|sat"}, {"word": "cat|sat"}),
        ({"sentence": "a dog"}, None, {"word": None}, {"sentence": "a dog"}),
    ]),
    "a default outside the range is the nearest number inside": ({"sentence": "one two", "step": "3"}, [
        ({}, None, {"step": 2}, {"sentence": "one two"}),
        ({}, {"sentence": "one two"}, {"step": 2}, {"sentence": "one two"}),
        ({}, {"sentence": "one"}, {"step": 1}, {"sentence": "one"}),
        ({}, {"sentence": "one two three four"}, {"step": 3}, {"sentence": "one two three four"}),
    ]),
    "a text too long for an address is shown and kept out": ({"note": "abc"}, [
        ({"note": "abcdef"}, None, {"note": "abcdef"}, {}),
        ({"head": 4}, None, {"note": "abcdef"}, {"head": "4"}),
    ]),
    "a page that ends early writes its address": ({"head": "6"}, [
        ({"sentence": ""}, None, {"sentence": ""}, {"head": "6", "sentence": ""}),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_what_wins_and_what_is_written(story: str, back: list[bool]) -> None:
    start, acts = STORIES[story]
    page = opened(**start)
    for moves, arrived, shows, written in acts:
        back[:] = [True] if BACK in moves else []
        for control in (*page.slider, *page.text_input, *page.text_area):
            if control.key in moves:
                control.set_value(moves[control.key])
        page = fine(page.run()) if arrived is None else gone(page, **arrived)
        assert shown(page).items() >= shows.items()
        assert page.slider(key="head").value == shown(page)["head"]
        assert address(page) == written
    assert shown(opened(**address(page))).items() >= {k: v for k, v in shown(page).items() if k != "note"}.items()


def test_a_click_writes_several_keys_in_one_message(written: list[dict[str, str]]) -> None:
    page = opened(head="6")
    page.button(key="both").click()
    fine(page.run())
    assert (shown(page)["head"], shown(page)["word"]) == (2, "cat|sat")
    assert page.slider(key="head").value == 2
    assert written == [{"word": "cat|sat"}]
    page.slider(key="head").set_value(2)
    fine(page.run())
    assert len(written) == 1, "what is the address already is not written"


def test_from_page_to_page_the_language_goes_along_and_what_is_brought_unless_back_leads_there(
    back: list[bool],
) -> None:
    """What is brought takes the place of the address that the link had, but for what goes along."""
    page = opened(lang="zh", head="6")
    page.session_state["goto"] = "second"
    assert (shown(gone(page))["lang"], shown(page)["head"]) == ("zh", 2)
    page.session_state["goto"], page.session_state["brought"] = "third", {"head": "6", "word": "cat"}
    gone(page, note="abc")
    assert (shown(page)["head"], shown(page)["note"], shown(page)["word"]) == (6, "", "cat")
    assert address(page) == {"head": "6", "lang": "zh", "word": "cat"}
    back.append(True)
    page.session_state["goto"] = "first"
    assert shown(gone(page, head="7"))["head"] == 7


def test_what_is_done_on_a_page_whose_server_was_replaced_is_done() -> None:
    """The first run of the new session comes with the address of before, and with what the controls hold by now."""
    before = opened(sentence="a red dog", head="6")
    before.slider(key="head").set_value(8)
    page = opened_again(before)
    assert (shown(page)["sentence"], shown(page)["head"]) == ("a red dog", 8)
    assert address(page) == {"sentence": "a red dog", "head": "8"}
    page.slider(key="head").set_value(7)
    assert address(fine(page.run())) == {"sentence": "a red dog", "head": "7"}
    before = opened(sentence="a red dog", head="6")
    before.text_area(key="note").set_value("abc")
    assert address(opened_again(before)) == {"sentence": "a red dog", "head": "6", "note": "abc"}


def test_a_script_that_runs_itself_again_tells_a_control_its_value_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit warns of a control that has an initial value and one from the session's state."""

    def script() -> None:
        import streamlit as st

        from ui.shared import address
        from ui.shared.subject import language_choice

        with address.run("lang") as show:
            language_choice()
            show("page")
            st.session_state.runs = st.session_state.get("runs", 0) + 1
            if st.session_state.runs < 3:
                st.rerun()

    warned = list[str]()
    monkeypatch.setattr(policies, "runtime", SimpleNamespace(exists=lambda: True))
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    monkeypatch.setattr(policies, "_LOGGER", SimpleNamespace(warning=lambda text, key, **_: warned.append(key)))
    page = fine(new(script, lang="zh").run())
    assert (page.session_state.runs, page.button_group(key="lang").value, warned) == (3, "zh", [])


@pytest.mark.parametrize("word", ["query_params", 'bind="', "st.stop("])
def test_nothing_goes_around_the_address(word: str) -> None:
    besides = {"query_params": "texts.py", "st.stop(": "session_resources.py"}
    own = {"address.py", "state.py", besides.get(word)}
    texts = {path: path.read_text("utf-8") for folder in ("pages", "ui") for path in (ROOT / folder).rglob("*.py")}
    assert [path for path, text in texts.items() if word in text.replace("query_params=", "")
            and path.name not in own] == []  # fmt: skip


class Address(dict[str, str]):
    """What the browser's address bar holds."""

    def to_dict(self) -> dict[str, str]:
        return dict(self)

    def from_dict(self, address: dict[str, str]) -> None:
        self.clear()
        self.update(address)


def test_a_part_is_drawn_alone_only_if_nothing_concerns_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    held, here = Address(), PageState()
    monkeypatch.setattr("ui.shared.state.st", SimpleNamespace(query_params=held, session_state={}))

    def control(key: str, is_in_part: bool) -> None:
        here.run.is_in_part = is_in_part
        here.seed(key, str, "0")
        here.written(key, here.values.get(key, "0"), "0")

    def whole_page() -> None:
        here.begin()
        here.enter("page")
        control("node", is_in_part=False)
        control("head", is_in_part=True)
        here.end()

    def part() -> bool:
        alone = here.go_on()
        if alone:
            control("head", is_in_part=True)
            here.end()
        return alone

    whole_page()
    assert part()
    here.put("head", "2")  # a control of the part
    assert part()
    assert held == {"head": "2"}
    here.put("node", "3")  # one outside of it
    assert not part()
    whole_page()
    assert held == {"head": "2", "node": "3"}
    assert part()
    here.put("cell", "1-2")  # of no control: what draws it is in the part
    assert here.go_on(("cell",))
    here.put("cell", "1-3")
    here.put("do", "more")  # of another part
    assert not here.go_on(("cell",))
    assert part()
    held.from_dict({"head": "1"})  # somebody else wrote the address
    assert not part()

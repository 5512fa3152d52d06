"""The visit: what wins when, what is written once a run, and that what was not moved follows the address."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.elements.lib import policies
from streamlit.runtime.state.query_params_proxy import QueryParamsProxy
from streamlit.testing.v1 import AppTest

from tests.ui.shared.test_address import address, shown
from ui.shared.page_state import PageState

ROOT = Path(__file__).parents[3]


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


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the next runs are asked for by Back; put True into it."""
    asked: list[bool] = []
    monkeypatch.setattr("ui.patches.session.came_by_history", lambda: bool(asked))
    return asked


def opened(**address: str) -> AppTest:
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params.update(address)
    return fine(page.run())


def opened_again(before: AppTest) -> AppTest:
    """What the browser of this page sees of a server that knows nothing of it."""
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params.update(address(before))
    return fine(page._run(before._tree.get_widget_states()))


def fine(page: AppTest) -> AppTest:
    assert not page.exception
    return page


def gone(page: AppTest, **address: str) -> AppTest:
    """The same session with another address in the browser."""
    page.query_params.clear()
    page.query_params.update(address)
    return fine(page.run())


def test_a_run_of_back_says_its_address_again_since_an_earlier_run_may_have_spoken(
    back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[dict[str, str]] = []
    write = QueryParamsProxy.from_dict

    def noted(params: QueryParamsProxy, values: dict[str, str]) -> None:
        written.append(dict(values))
        write(params, values)

    monkeypatch.setattr(QueryParamsProxy, "from_dict", noted)
    page = opened(head="7")
    fine(page.run())
    assert written == []
    back.append(True)
    gone(page, head="5")
    back.clear()
    page.session_state["goto"] = "second"
    gone(page, head="4", model="brought")
    assert written == [{"head": "5"}, {"head": "4", "model": "brought"}]


def test_after_back_the_address_wins_over_every_control(back: list[bool]) -> None:
    page = opened(sentence="a red dog")
    page.slider(key="head").set_value(7)
    page.text_area(key="note").set_value("abc")
    fine(page.run())
    assert address(page) == {"sentence": "a red dog", "head": "7", "note": "abc"}
    back.append(True)
    page = gone(page, sentence="a red dog")
    assert (shown(page)["head"], shown(page)["note"]) == (3, "")
    assert page.slider(key="head").value == 3
    page = gone(page)
    assert (shown(page)["sentence"], shown(page)["head"]) == ("two dogs", 2)
    page = gone(page, sentence="a red dog", head="7")  # Forward
    assert (shown(page)["head"], page.slider(key="head").value) == (7, 7)
    page.slider(key="head").set_value(9)  # moved a moment before Back was pressed
    page = gone(page, sentence="a red dog")
    assert (shown(page)["head"], page.slider(key="head").value) == (3, 3)
    page = gone(page, sentence="a red dog", head="7")
    back.clear()
    page.slider(key="head").set_value(8)
    assert address(fine(page.run())) == {"sentence": "a red dog", "head": "8"}


def test_a_browser_that_is_slower_than_its_user_undoes_nothing() -> None:
    """The second move comes with the address from before the first."""
    page = opened()
    page.slider(key="head").set_value(7)
    fine(page.run())
    page.query_params.clear()
    page.text_area(key="note").set_value("abc")
    fine(page.run())
    assert address(page) == {"head": "7", "note": "abc"}
    assert shown(page)["head"] == 7


def test_an_address_that_the_page_never_wrote_is_a_link_and_wins() -> None:
    page = opened()
    page.slider(key="head").set_value(7)
    page = gone(fine(page.run()), head="5")
    assert (shown(page)["head"], address(page)) == (5, {"head": "5"})


def test_what_was_not_moved_follows_the_default_of_the_input_and_what_was_moved_stays() -> None:
    page = opened()
    page.text_input(key="sentence").set_value("a man in a red shirt")
    assert shown(fine(page.run()))["head"] == 6
    assert address(page) == {"sentence": "a man in a red shirt"}
    page.slider(key="head").set_value(2)  # what the first sentence began with
    assert address(fine(page.run()))["head"] == "2"
    assert shown(opened(**address(page))) == shown(page)


def test_what_belongs_to_a_sentence_goes_with_it_and_an_address_brings_it() -> None:
    page = opened(word="cat|sat")
    assert shown(page)["word"] == "cat|sat"
    page.text_input(key="sentence").set_value("a dog")
    assert shown(fine(page.run()))["word"] is None
    assert address(page) == {"sentence": "a dog"}


def test_a_click_writes_several_keys_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import streamlit as st

    page = opened(head="6")
    written: list[dict[str, str]] = []
    real = type(st.query_params).from_dict

    def noted(self: Any, values: dict[str, str]) -> None:
        written.append(dict(values))
        real(self, values)

    monkeypatch.setattr(type(st.query_params), "from_dict", noted)
    page.button(key="both").click()
    fine(page.run())
    assert (shown(page)["head"], shown(page)["word"]) == (2, "cat|sat")
    assert page.slider(key="head").value == 2
    assert written == [{"word": "cat|sat"}]
    page.slider(key="head").set_value(2)
    fine(page.run())
    assert len(written) == 1, "what is the address already is not written"


def test_a_default_outside_the_range_is_the_nearest_number_inside() -> None:
    assert shown(opened(sentence="one two"))["step"] == 2
    assert shown(opened(sentence="one two three four"))["step"] == 3
    assert shown(opened(sentence="one"))["step"] == 1
    assert shown(opened(sentence="one two", step="3"))["step"] == 2


def test_a_text_too_long_for_an_address_is_shown_and_kept_out() -> None:
    page = opened(note="abc")
    page.text_area(key="note").set_value("abcdef")
    assert (shown(fine(page.run()))["note"], address(page)) == ("abcdef", {})
    page.slider(key="head").set_value(4)
    assert (shown(fine(page.run()))["note"], address(page)) == ("abcdef", {"head": "4"})


def test_a_page_that_ends_early_writes_its_address() -> None:
    page = opened(head="6")
    page.text_input(key="sentence").set_value("")
    fine(page.run())
    assert not page.text
    assert address(page) == {"head": "6", "sentence": ""}


def test_what_a_page_is_brought_stands_in_its_address_unless_back_leads_there(back: list[bool]) -> None:
    """What is brought takes the place of the address that the link had, but for what goes along."""
    page = opened(lang="zh", head="4")
    page.session_state["goto"], page.session_state["brought"] = "second", {"head": "6", "word": "cat"}
    gone(page, note="abc")
    assert (shown(page)["head"], shown(page)["note"], shown(page)["word"]) == (6, "", "cat")
    assert address(page) == {"head": "6", "lang": "zh", "word": "cat"}
    back.append(True)
    page.session_state["goto"] = "first"
    assert shown(gone(page, head="7"))["head"] == 7


def test_from_page_to_page_the_language_goes_along_and_nothing_else() -> None:
    page = opened(lang="zh", head="6")
    page.session_state["goto"] = "second"
    page = gone(page)
    assert (shown(page)["lang"], shown(page)["head"]) == ("zh", 2)


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
    page = opened_again(before)
    assert address(page) == {"sentence": "a red dog", "head": "6", "note": "abc"}


@pytest.mark.parametrize("is_brought", [True, False])
def test_a_tab_that_was_opened_on_a_page_whose_server_was_replaced_is_open(
    monkeypatch: pytest.MonkeyPatch, is_brought: bool
) -> None:
    """What only stands in a session's state is no click of a user: the address says more."""

    def script() -> None:
        import streamlit as st

        from ui.shared import address

        with address.run("lang") as show:
            show("page")
            opened, place = address.tabs(["one", "two", "three"], key="tab", text=str.upper)
            with place:
                st.text(opened)

    monkeypatch.setattr("ui.patches.session.brought", lambda: frozenset({"tab"} if is_brought else ()))
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params["tab"] = "two"
    page.session_state["tab"] = "THREE"
    page = fine(page.run())
    expected = "three" if is_brought else "two"
    assert (page.text[0].value, address(page), page.session_state["tab"]) == (
        expected,
        {"tab": expected},
        expected.upper(),
    )


def test_a_script_that_runs_itself_again_tells_a_control_its_value_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streamlit warns of a control that has an initial value and one from the session's state."""

    def script() -> None:
        import streamlit as st

        from ui.shared import address
        from ui.shared.language import language_choice

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
    page = AppTest.from_function(script, default_timeout=60)
    page.query_params["lang"] = "zh"
    page = fine(page.run())
    assert (page.session_state.runs, page.button_group(key="lang").value, warned) == (3, "zh", [])


@pytest.mark.parametrize("word", ["query_params", 'bind="', "st.stop("])
def test_nothing_goes_around_the_address(word: str) -> None:
    besides = {"query_params": "texts.py", "st.stop(": "session_resources.py"}
    own = {"address.py", "page_state.py", besides.get(word)}
    found = [
        path.name
        for folder in ("pages", "ui")
        for path in (ROOT / folder).rglob("*.py")
        if path.name not in own
        for line in path.read_text("utf-8").splitlines()
        if word in line.replace("query_params=", "")
    ]
    assert found == []


class Address:
    """What the browser's address bar holds."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def to_dict(self) -> dict[str, str]:
        return dict(self.held)

    def from_dict(self, address: dict[str, str]) -> None:
        self.held = dict(address)


def test_a_part_is_drawn_alone_only_if_nothing_concerns_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    address, here = Address(), PageState()
    monkeypatch.setattr("ui.shared.page_state.st", SimpleNamespace(query_params=address, session_state={}))

    def control(key: str) -> None:
        here.seed(key, str, "0")
        here.written(key, here.values.get(key, "0"), "0")

    def whole_page() -> None:
        here.begin(())
        here.enter("page", ())
        control("node")
        here.run.is_in_part = True
        control("head")
        here.run.is_in_part = False
        here.end()

    def part() -> bool:
        alone = here.go_on()
        if alone:
            here.run.is_in_part = True
            control("head")
            here.run.is_in_part = False
            here.end()
        return alone

    whole_page()
    assert part()
    here.put("head", "2")  # a control of the part
    assert part()
    assert address.held == {"head": "2"}
    here.put("node", "3")  # one outside of it
    assert not part()
    whole_page()
    assert address.held == {"head": "2", "node": "3"}
    assert part()
    here.put("cell", "1-2")  # of no control: what draws it is in the part
    assert here.go_on(("cell",))
    here.put("cell", "1-3")
    here.put("do", "more")  # of another part
    assert not here.go_on(("cell",))
    assert part()
    address.held = {"head": "1"}  # somebody else wrote the address
    assert not part()

"""Back, Forward, the menu, copied addresses: the address is the state, one action one entry; a subject goes along."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.parts import menu, take_example
from tests.browser.visiting import IDLE, LATER, Visit, until

pytestmark = pytest.mark.browser

Action = Callable[[Page], None]


def press(name: str) -> Action:
    return lambda page: page.get_by_role("radio", name=name, exact=True).first.click()


def from_list(label: str, option: str) -> Action:
    def pick(page: Page) -> None:
        page.get_by_role("combobox", name=label).click()
        page.get_by_role("option", name=option, exact=True).click()

    return pick


def to(title: str) -> Action:
    return lambda page: menu(page, title).click()


def without_a_run(action: Action) -> Action:
    """An action that the browser answers by itself, as it does Back over it."""
    BY_BROWSER.add(action)
    return action


BY_BROWSER: set[Action] = set()


SEEN = """() => {
  const said = (selector, text) => [...document.querySelectorAll(`[data-testid=stMain] ${selector}`)].map(text);
  if (!said("h1", (one) => one).length || said("[data-testid=stSkeleton]", (one) => one).length) return null;
  if (document.querySelector("[data-testid=stApp]").dataset.testScriptState !== "notRunning") return null;
  // What stands under a picture is hidden until the picture is there.
  const blocks = said("[data-testid=stElementContainer], [data-testid=stLayoutWrapper]", getComputedStyle);
  if (blocks.some((one) => one.visibility === "hidden")) return null;
  return [
    said("[data-testid=stMainBlockContainer]", (one) => one.innerText),
    said("[aria-checked=true], [aria-selected=true], [data-selected=true]", (one) => one.innerText),
    said("input:checked", (one) => one.closest("label")?.innerText),
    said(".gtitle", (one) => one.textContent),
    said("input, textarea", (one) => one.value),
    [...document.querySelectorAll("*")].flatMap((one) => [...(one.shadowRoot?.querySelectorAll(
      ".head-choice label:has(:checked), .heatmap .title, .head-view .reading, .bitext .reading",
    ) ?? [])].map((part) => part.textContent)),
  ];
}"""


def seen(page: Page) -> object:
    """What the page says and shows, once it stays the same: its texts, its controls, the titles of its figures.

    A busy browser draws some of it later: it has to be the same twice, with nothing left to do in between.
    """
    before, now = None, page.evaluate(SEEN)
    while now is None or now != before:
        page.evaluate(IDLE)
        page.wait_for_timeout(LATER)
        page.evaluate(IDLE)
        before, now = now, page.evaluate(SEEN)
    return now


def shows(page: Page, before: object) -> None:
    assert seen(page) == before


def there_and_back(here: Visit, actions: list[Action]) -> None:
    """Do each action, which is one entry of the history; then Back through all of them, Forward, and to the end."""
    page, states = here.page, [(here.page.url, seen(here.page))]
    entries = page.evaluate("history.length")
    for number, action in enumerate(actions, 1):
        with nullcontext() if action in BY_BROWSER else here.run():
            action(page)
        # The server is done; a busy browser has yet to read what it was told.
        page.wait_for_function("length => history.length >= length", arg=entries + number)
        shown = seen(page)
        states.append((page.url, shown))
        assert page.evaluate("history.length") == entries + number, page.url
        assert states[-1] != states[-2]
    back, forward, rest = -1, 1, len(actions) - 1
    over = [*reversed(actions), actions[0], None]  # what each move undoes or does again
    moves = [(back, state) for state in states[-2::-1]] + [(forward, states[1]), (rest, states[-1])]
    for (move, (url, shown)), undone in zip(moves, over, strict=True):
        with nullcontext() if undone in BY_BROWSER else here.run():
            page.evaluate("move => history.go(move)", move)
        expect(page).to_have_url(url)
        until(page, shows, page, shown)


def test_back_undoes_what_was_done_on_translate_and_the_menu_comes_back_to_it(opened) -> None:
    here = opened("translate?longest=20")
    page = here.page
    heads = page.locator(".all-heads .cell")
    there_and_back(
        here,
        [
            without_a_run(lambda page: heads.nth(3 * 4 + 1).click()),
            without_a_run(press("Encoder self")),
            press("Head view"),
            lambda page: take_example(page, 2),
            to("Masks"),
            to("Translate"),
        ],
    )
    expect(page).to_have_url(re.compile("view=head_view&text=.*#kind=encoder.self&layer=3&head=1"))
    link = menu(page, "Map")
    link.hover()
    expect(link).to_have_attribute("href", re.compile(r"^/($|[?#])"))  # so a middle click opens the map


def test_back_undoes_what_was_done_in_a_lesson(opened) -> None:
    here = opened("attention_steps?stage=scores", ".matrices")
    board = here.page.locator("canvas[data-matrix=S0]")
    there_and_back(
        here,
        [
            lambda page: board.click(position={"x": 90, "y": 60}),
            press("Softmax"),
            lambda page: page.locator(".st-key-next button").first.click(),
            from_list("Which attention", "Decoder self"),
            to("Positions"),
            press("Rotation"),
        ],
    )


def test_back_that_is_pressed_faster_than_pages_answer_ends_where_it_should(opened) -> None:
    here = opened("masks?screen=scores")
    page = here.page
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 2})
    states = [(page.url, seen(page))]
    before = page.evaluate("history.length")
    actions = (to("Positions"), press("Rotation"), to("Align"))
    for entries, action in enumerate(actions, before + 1):
        with here.run():
            action(page)
        page.wait_for_function("length => history.length === length", arg=entries)
        shown = seen(page)
        states.append((page.url, shown))
    for move, (url, shown) in ((-1, states[0]), (1, states[-1])):
        with here.run():
            for _ in range(3):
                page.evaluate("move => history.go(move)", move)
                page.wait_for_timeout(50)
        expect(page).to_have_url(url)
        expect(page.locator("h1")).to_have_text(shown[0][0].split("\n")[0])
        until(page, lambda before: seen(page) == before, shown)
        assert page.evaluate("history.length") == entries


def test_a_slider_that_is_pressed_faster_than_the_page_answers_loses_no_press(opened) -> None:
    here = opened("positions?screen=rotation&steps=20")
    slider = here.page.get_by_role("slider").first
    slider.focus()
    with here.run():
        for _ in range(6):
            slider.press("ArrowRight")
            here.page.wait_for_timeout(60)
    expect(slider).to_have_value("26")
    expect(here.page).to_have_url(re.compile("steps=26"))


SENTENCE = "A man rides a red bicycle in the rain."


def asked(page: Page) -> dict[str, str]:
    return {key: value for key, (value,) in parse_qs(urlsplit(page.url).query).items()}


def typed(page: Page) -> Locator:
    return page.get_by_role("textbox", name=re.compile("^Sentence")).first


def go(here, title: str) -> None:
    """By the menu to another page."""
    with here.run():
        menu(here.page, title).click()
    expect(here.page.get_by_role("heading", name=title, exact=True)).to_be_visible()


def test_what_is_typed_and_marked_on_the_map_is_found_on_other_pages_and_comes_back(opened) -> None:
    here = opened("", ".map")
    page = here.page
    typed(page).fill(SENTENCE)
    with here.run():
        page.get_by_role("button", name="Run").click()
    page.locator('.map .part[tabindex="0"]').focus()
    with here.run():
        page.keyboard.press("ArrowRight")
    until(page, lambda: "word" in asked(page))
    word = asked(page)["word"]
    entries = page.evaluate("history.length")
    go(here, "Translate")
    expect(typed(page)).to_have_value(SENTENCE)
    expect(page.locator(".bitext [aria-pressed=true]")).to_have_text(word)
    assert page.evaluate("history.length") == entries + 1
    other = page.locator(".bitext .target .word").first
    other.click()
    chosen = other.inner_text()
    assert chosen != word
    expect(other).to_have_attribute("aria-pressed", "true")
    here.at_rest()
    go(here, "Align")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page).get("word") == chosen)
    go(here, "What if")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page).get("word") == chosen)
    expect(page.get_by_role("slider").first).to_have_value("1")
    go(here, "Sequences")
    expect(page).to_have_url(re.compile(r"/sequences\b"))
    assert "sequence" not in asked(page)
    go(here, "Map")
    expect(typed(page)).to_have_value(SENTENCE)
    until(page, lambda: asked(page) == {"text": SENTENCE, "word": chosen})
    with here.run():
        page.go_back()
    with here.run():
        page.go_back()
    expect(page).to_have_url(re.compile(r"what_if\?"))
    expect(typed(page)).to_have_value(SENTENCE)

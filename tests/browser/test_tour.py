"""The tour as a class walks it: by the keyboard alone, in both languages, on a projector, and on paper."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
from playwright.sync_api import expect

from heedmap.teaching.data import questions, steps
from tests.browser.parts import box, matrix, middle, saved
from tests.browser.visiting import until
from ui.path.strip import page_path

pytestmark = pytest.mark.browser

TOUR = [one for one in steps() if one.branch == "tour"]
START = "?text=Someone+is+cooking+dinner+in+a+small+kitchen.&tour=1"
BOX = """selector => {
  const box = document.querySelector(selector)?.getBoundingClientRect();
  return box && box.height > 0 && box.top < innerHeight && box.bottom > 0 && box.left >= 0 && box.left < innerWidth;
}"""


def address(page) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlparse(page.url).query).items()}


def at_step(page, one) -> bool:
    path = urlparse(page.url).path.strip("/")
    return address(page).get("tour") == one.label and path == page_path(one.page)


def hidden(page, *names: str) -> None:
    """Nothing of these kinds is seen."""
    for name in names:
        assert all(not one.is_visible() for one in page.get_by_test_id(name).all()), name


def answer(opened, one) -> None:
    """Predict with digits, as the question asks."""
    page, kind = opened.page, questions()[one.question].kind
    page.locator("[class*=st-key-path-guess] :is(input, button, canvas)").first.wait_for()
    if kind == "number":
        page.keyboard.press("7")
        with opened.run():
            page.keyboard.press("Enter")
    else:
        with opened.run():
            page.keyboard.press("1")
    until(page, lambda: "guess" in address(page))


def test_the_whole_tour_is_walked_by_the_keyboard_alone(opened):
    """In Chinese; every second step is predicted by digits, the others are only looked at; R reveals, arrows step."""
    visit = opened(f"{START}&lang=zh", width=1280, height=800)
    page = visit.page
    for number, one in enumerate(TOUR):
        until(page, at_step, page, one)
        expect(page.locator(".st-key-path-strip")).to_contain_text(f"{one.label} ·")
        if number % 2 == 0:
            answer(visit, one)
        page.locator(".st-key-path-reveal button").wait_for()
        expect(
            page.locator("[class*=st-key-matrices], canvas:not([data-matrix=answer], [data-matrix=given])")
        ).to_have_count(0)
        with visit.run():
            page.keyboard.press("r")
        lit = ".st-key-" + re.sub("[^a-zA-Z0-9_-]", "-", one.lit)
        page.locator(lit).first.wait_for()
        until(page, page.evaluate, BOX, lit)
        expect(page.locator("[data-testid=stException]")).to_have_count(0)
        if one is not TOUR[-1]:
            page.locator(".st-key-path-next a").wait_for()
            with visit.run():
                page.keyboard.press("ArrowRight")
        if number == 2:
            until(page, at_step, page, TOUR[3])
            with visit.run():
                page.go_back()
            until(page, at_step, page, one)  # Back undoes a step
            with visit.run():
                page.go_forward()
    done = sum(1 << number for number in range(0, len(TOUR), 2))
    until(page, lambda: int(address(page).get("done", "0"), 16) == done)
    with visit.run():
        page.reload()
    assert at_step(page, TOUR[-1])  # the address is all that is kept
    expect(page.locator(".st-key-path-strip")).to_contain_text(str(len(TOUR)))
    page.locator(".st-key-path-back a").wait_for()
    with visit.run():
        page.keyboard.press("ArrowLeft")
    until(page, at_step, page, TOUR[-2])


ASKED = """() => {
  const asked = document.querySelector(".st-key-path-strip").getBoundingClientRect();
  const over = document.elementFromPoint(asked.x + 20, asked.bottom - 20);
  return asked.top >= 0 && asked.bottom < 0.6 * innerHeight && !!over.closest(".st-key-path-strip");
}"""
"""Whether the strip is seen whole, and nothing lies over it."""


@pytest.mark.parametrize("label", ["4", "16", "A2", "B1"])
def test_question_and_answer_stay_on_screen_beside_what_is_lit(opened, label: str):
    one = next(one for one in steps() if one.label == label)
    visit = opened(f"{page_path(one.page)}?{urlencode({**one.address, 'tour': label})}", width=1280, height=800)
    page, lit = visit.page, f".st-key-{re.sub('[^a-zA-Z0-9_-]', '-', one.lit)}"
    page.locator(".st-key-path-reveal button").wait_for()
    with visit.run():
        page.keyboard.press("r")
    main = page.get_by_test_id("stMain")
    for _ in range(2):
        until(page, lambda: page.evaluate(BOX, lit) and page.evaluate(ASKED))
        main.evaluate("one => one.scrollBy(0, 300)")  # a reader goes on
    assert main.evaluate("one => one.scrollTop") > 0


def test_on_a_phone_a_row_that_goes_on_fades_until_it_is_scrolled_to_its_end(opened):
    visit = opened(START, width=390, height=844)
    canvas = matrix(visit.page, "answer")
    assert box(canvas)["width"] > 390
    row = canvas.locator("xpath=..")
    assert box(row)["width"] > 300  # the button stands below it
    fades = "one => getComputedStyle(one).maskImage !== 'none'"
    until(visit.page, lambda: row.evaluate(fades))
    row.evaluate("one => one.scrollTo(one.scrollWidth, 0)")
    until(visit.page, lambda: not row.evaluate(fades))


def test_a_prediction_is_clicked_on_the_picture(opened):
    """A word, several cells, a row that is drawn; a second click takes a cell back."""
    visit = opened(START, width=1280, height=800)
    click(visit, 0, 4)
    until(visit.page, guessed, visit.page, "4")
    visit.move("./masks?mask=both&tour=10")
    for column, expected in ((0, "0"), (2, "0.2"), (1, "0.1.2"), (0, "1.2")):
        click(visit, 0, column)
        until(visit.page, guessed, visit.page, expected)
    visit.move("./teaching?view=questions&question=drawn_row")
    for row, column, expected in ((4, 1, "0.60.0.0"), (9, 3, "0.60.0.10"), (9, 3, "0.60.0.0")):
        click(visit, row, column)
        until(visit.page, guessed, visit.page, expected)
    visit.page.keyboard.press("ArrowUp")  # the picture's own keys
    with visit.run():
        visit.page.keyboard.press("Enter")
    until(visit.page, guessed, visit.page, "0.60.0.20")


def guessed(page, expected: str) -> None:
    """The address says this prediction."""
    assert address(page).get("guess") == expected


def click(visit, row: int, column: int) -> None:
    """Click a cell of the prediction."""
    canvas = matrix(visit.page, "answer")
    box(canvas)  # the picture is fitted to the page
    with visit.run():
        canvas.click(position=middle(canvas, row, column))


PRESENTED = (
    "?", "translate?", "translate?view=beams&", "align?", "what_if?", "attention_steps?stage=scores&",
    "attention_steps?screen=why&", "inside_layer?stage=norm&", "masks?", "masks?screen=break&", "masks?screen=module&",
    "positions?", "positions?screen=rotation&", "learning?", "learning?screen=lesson&",
)  # fmt: skip


def test_a_presented_page_is_large_and_sharp_and_has_no_tools(opened):
    """Every number at least 24 pixels, every formula 28; words of a sentence stay, which are its picture."""
    visit = opened("masks?present=1", width=1920, height=1080)
    page = visit.page
    page.evaluate((Path(__file__).parent / "presented.js").read_text("utf-8"))  # before the first is drawn
    for one in PRESENTED:
        visit.move(f"/{one}present=1")
        page.locator("[data-testid=stMain] :is(canvas, table, [data-testid=stPlotlyChart])").first.wait_for()
        until(page, lambda: page.evaluate("presented(23.9, 28)") == [])
        assert not page.get_by_test_id("stSidebar").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), one
    visit.move("/attention_steps?stage=scores&cell=S0.1.2&present=1")
    page.locator("[data-testid=stMain] .katex").first.wait_for()
    until(page, lambda: page.evaluate("presented(24, 28)") == [])
    sharp = "canvas => canvas.width / canvas.getBoundingClientRect().width"
    assert page.locator(".st-key-matrices canvas[data-cell-height]").first.evaluate(sharp) >= 0.95
    assert box(page.get_by_test_id("stMainBlockContainer"))["width"] >= 1900
    hidden(page, "stSidebar", "stCaptionContainer", "stDownloadButton", "stSelectbox", "stPopover")
    expect(page.locator("h1")).to_have_count(0)
    with visit.run():
        page.keyboard.press("ArrowRight")
    until(page, lambda: address(page)["stage"] == "scale")
    page.keyboard.press("b")
    assert page.evaluate("getComputedStyle(document.body).visibility") == "hidden"
    page.keyboard.press("b")
    with visit.run():
        page.keyboard.press("Escape")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    expect(page.locator("h1")).to_be_visible()


def test_the_handout_prints_two_questions_a_page_where_they_fit_with_the_answers_last(opened, tmp_path: Path):
    visit = opened("teaching?view=handout&made=tour")
    handout = tmp_path / "handout.html"
    handout.write_bytes(saved(visit.page.locator(".st-key-path-handout button"))[1])
    text = handout.read_text("utf-8")
    pages = re.findall(r"<section>(.*?)</section>", text, re.DOTALL)
    assert len(pages) == len(TOUR) + 1
    assert not re.search(r"<button|<script|<input|src=\"(?!data:)|https?://(?!127\.0\.0\.1)[^<]*['\"]", text)
    for one in pages[:-1]:
        assert all((one.count("<h2>") == 1, one.count('class="line"') == 2, one.count("data:image/svg+xml") == 1))
        assert "1.553" not in one
        assert re.search('class="pictures"><table.*</table>.*class="formula">[^<]', one)
    assert "1.553" in pages[-1]
    paper = visit.page.context.new_page()
    paper.goto(handout.as_uri())
    paper.emulate_media(media="print")
    paper.set_viewport_size({"width": 658, "height": 1123})  # the text of A4, in pixels
    assert paper.evaluate("[...document.querySelectorAll('table')].every((one) => one.offsetWidth <= 660)")
    assert paper.evaluate("document.querySelectorAll('button, input, select, script').length") == 0
    printed = paper.pdf(format="A4", prefer_css_page_size=True)
    paper.close()
    count = len(re.findall(rb"/Type\s*/Page\b(?!s)", printed))
    assert len(TOUR) / 2 < count < len(TOUR)


def test_the_print_view_of_a_page_has_its_address_and_no_buttons(opened):
    visit = opened("masks?print=1&tour=10&mask=both&revealed=visible_words")
    page = visit.page
    page.locator(".path-qr img").wait_for()
    assert page.locator(".path-line").count() == 1
    page.emulate_media(media="print")
    hidden(page, "stSidebar", "stButton", "stPopover", "stDownloadButton")


UNDER = """one => {
  const { x, y, width, height } = one.getBoundingClientRect();
  return document.elementsFromPoint(x + width / 2, y + height / 2).map(({ tagName }) => tagName);
}"""


def test_a_term_in_a_caption_opens_its_entry_by_mouse_and_by_keyboard(opened):
    page = opened("attention_steps").page
    link = page.locator("[data-testid=stCaptionContainer] > a.heedmap-term[href*='term=attention']").first
    link.wait_for()
    assert link.get_attribute("aria-label") == "attention"
    assert {"A", "P"} <= set(link.evaluate(UNDER))  # it lies over the caption's own word
    before = link.evaluate_handle("one => one.closest('[data-testid=stCaptionContainer]').firstElementChild")

    def by_keyboard() -> None:
        is_reached = "one => one === document.activeElement"
        until(page, lambda: page.keyboard.press("Tab") or link.evaluate(is_reached))
        page.keyboard.press("Enter")

    for act in (link.click, by_keyboard):
        with page.context.expect_page() as pending:
            act()
        entry = pending.value
        assert "term=attention" in entry.url
        expect(entry.locator(".path-terms tr").first).to_be_visible()
        entry.close()
    assert before.evaluate("one => one.isConnected")

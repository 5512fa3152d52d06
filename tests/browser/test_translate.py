"""What a person does on the Translate page: type, run, read, hover, click, reload, take the numbers away."""

import io
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box
from transformer import DecodingOptions, load, translate

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SENTENCE = "Two dogs are playing in the snow."
HOSTILE = '<img src=x onerror="document.title=\'taken\'"><script>document.title="taken"</script>'


@pytest.fixture(scope="module")
def expected():
    """The same run, without the page."""
    return translate(load(ROOT / "checkpoints" / "multi30k-en-de"), SENTENCE, DecodingOptions())


@pytest.fixture
def opened(serve, visit):
    """`opened(address)` opens the app there."""
    return lambda address="translate", **window: visit(f"{serve(ROOT / 'app.py')}/{address}", **window)


def strip(page: Page):
    return page.get_by_test_id("written-tokens")


def run_sentence(here, text: str) -> None:
    here.page.get_by_role("textbox", name="Sentence").fill(text)
    with here.run():
        here.page.get_by_role("button", name="Run", exact=True).click()


def show(here, view: str) -> None:
    """Open one of the views beside the controls."""
    with here.run():
        here.page.get_by_role("radio", name=view).click()


def cell(page: Page, query: int, key: int) -> tuple[float, float]:
    """Where a cell of the heatmap lies on the screen, once it is in view."""
    page.locator(".st-key-heatmap .js-plotly-plot").scroll_into_view_if_needed()
    return page.evaluate(
        """([query, key]) => {
          const plot = document.querySelector('.st-key-heatmap .js-plotly-plot');
          const { xaxis, yaxis, _size } = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          return [box.left + xaxis._offset + xaxis.d2p(key), box.top + yaxis._offset + yaxis.d2p(query)];
        }""",
        [query, key],
    )


def hover(page: Page, query: int, key: int, text: str) -> None:
    """Point at a cell until its hover says `text`; a picture that is drawn anew under a still mouse shows none."""
    said = page.locator(".st-key-heatmap .hoverlayer")
    for _ in range(40):
        x, y = cell(page, query, key)
        page.mouse.move(x - 4, y - 4)
        page.mouse.move(x, y)
        page.wait_for_timeout(250)
        if text in (said.text_content() or ""):
            return
    expect(said).to_contain_text(text)


def test_from_a_sentence_to_the_numbers_on_disk(opened, expected) -> None:
    here = opened()
    run_sentence(here, SENTENCE)
    expect(here.page.get_by_text(expected.text, exact=True)).to_be_visible()
    show(here, "Step by step")
    expect(strip(here.page).locator(".token")).to_have_count(len(expected.steps))

    first = strip(here.page).locator(".token").first
    first.hover()
    expect(first.locator(".others")).to_be_visible()
    expect(first.locator(".others .chosen")).to_contain_text(f"{expected.steps[0].probability:.3f}")
    show(here, "Heatmap")

    with here.run():
        here.page.locator(".all-heads .cell").nth(2 * 4 + 1).click()
    expect(here.page.locator(".st-key-heatmap .gtitle").first).to_contain_text("decoder.2.cross · head 1")

    picture = expected.record["decoder.2.cross"].picture(1, words=True)
    key = int(picture.values[2].argmax())
    hover(here.page, 2, key, f"{picture.values[2, key]:.6g}"[:5])

    hover(here.page, 1, 3, picture.queries.texts[1])
    with here.run():
        here.page.mouse.click(*cell(here.page, 1, 3))
    expect(here.page).to_have_url(re.compile("pair=decoder.cross"))
    expect(here.page.get_by_text("Marked pair, in every head of this kind")).to_be_visible()

    address = here.page.url
    again = opened(address.split("/", 3)[3])
    expect(again.page.get_by_text(expected.text, exact=True)).to_be_visible()
    expect(again.page.locator(".st-key-heatmap .gtitle").first).to_contain_text("decoder.2.cross · head 1")
    expect(again.page.get_by_text("Marked pair, in every head of this kind")).to_be_visible()

    show(again, "Downloads")
    with again.page.expect_download() as download:
        again.page.get_by_role("button", name="This matrix (CSV)").click()
    table = pd.read_csv(io.StringIO(Path(download.value.path()).read_text("utf-8")), index_col=0)
    assert table.shape == picture.values.shape
    assert table.iloc[2, 1] == pytest.approx(picture.values[2, 1], abs=1e-5)
    assert list(table.index)[:2] == list(picture.queries.labels)[:2]


def test_head_view_isolates_without_the_server(opened) -> None:
    here = opened("?view=Head+view&head=mean")
    view = here.page.locator(".head-view")
    here.drawn(view)
    before = here.sent
    view.locator('.token[data-side="query"]').nth(1).hover()
    weights = view.locator('.token[data-side="key"] .number').filter(has_text=re.compile(r"\d\.\d"))
    expect(weights.first).to_be_visible()
    assert here.sent == before


def test_a_step_and_a_hypothesis_can_be_chosen(opened) -> None:
    here = opened("?view=Step+by+step&step=2")
    expect(here.page.get_by_text("Step 3 of")).to_be_visible()
    show(here, "Beams")
    tree = here.page.locator(".st-key-tree .js-plotly-plot")
    expect(tree).to_be_visible()
    words = tree.locator("text").filter(has_text="</s>").last  # the end of the answer
    place, around = box(words), box(tree)
    assert place["y"] + place["height"] <= around["y"] + around["height"]
    here.page.set_viewport_size({"width": 390, "height": 800})
    expect(words).to_have_css("font-size", "11px")  # it may be scrolled sideways, and is not squeezed
    assert box(tree)["width"] == around["width"]
    assert here.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_keyboard_walks_the_heatmap_s_cells_and_marks_one(opened, expected) -> None:
    here = opened(f"?layer=3&head=0&text={SENTENCE}")
    page, picture = here.page, expected.record["decoder.3.cross"].picture(0, words=True)
    layer, ring = page.locator(".cells .layer"), page.locator(".cells .ring")
    expect(page.locator(".st-key-heatmap .gtitle").first).to_contain_text("decoder.3.cross")
    layer.focus()
    for pressed in ("End", "ArrowLeft", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(pressed)
    query, key = 1, len(picture.keys) - 2
    words = f"Query {picture.queries.labels[query]}, key {picture.keys.labels[key]}: {picture.values[query, key]:.3f}."
    expect(page.locator(".cells .reading")).to_have_text(words)
    active = layer.get_attribute("aria-activedescendant")
    told = page.locator(f"[id='{active}']")
    assert (told.text_content(), told.get_attribute("aria-selected")) == (words, "false")
    middle, place = cell(page, query, key), box(ring)
    assert (place["x"] + place["width"] / 2, place["y"] + place["height"] / 2) == pytest.approx(middle, abs=1.5)
    with here.run():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("pair=decoder.cross"))
    expect(page.locator(".cells .reading")).to_have_text(f"{words} Marked.")
    expect(page.get_by_text(f"{picture.queries.labels[query]} looks at {picture.keys.labels[key]}")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_cut_off(opened, width: int, dark: bool) -> None:
    here = opened(width=width, dark=dark)
    here.drawn(here.page.locator(".all-heads"))
    assert here.page.evaluate("document.documentElement.scrollWidth") <= width


def test_token_text_is_never_executed(opened) -> None:
    here = opened()
    run_sentence(here, HOSTILE)
    expect(here.page.locator(".bitext .target .word").first).to_be_visible()
    for view in ("Head view", "Step by step", "Beams", "Heatmap"):
        show(here, view)
    assert here.page.title() != "taken"
    assert here.page.locator("img[src='x']").count() == 0


def test_the_page_asks_nothing_of_other_hosts(serve, visit, browser) -> None:
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    address = serve(ROOT / "app.py")
    page.goto(f"{address}/translate")
    expect(page.locator(".st-key-heatmap .js-plotly-plot")).to_be_visible(timeout=60_000)
    page.close()
    strangers = [url for url in asked if not url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))]
    assert asked
    assert strangers == []

"""What others wrote is shown letter by letter, in every place that reads Markdown."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.hostile import TEXTS
from tests.browser.visiting import ROOT, until
from ui.markdown import JOINER

pytestmark = pytest.mark.browser
PLACES = ("markdown", "middle", "bold", "message", "label", "title", "segment", "expander", "metric", "code")
BOXES = "[data-testid=stMarkdownContainer], [data-testid=stCaptionContainer]"
READ = """([place, boxes]) => [...document.querySelectorAll(`[class*='st-key-${place}-']`)]
  .sort((a, b) => Number(a.className.match(/-(\\d+)/)[1]) - Number(b.className.match(/-(\\d+)/)[1]))
  .map(box => [...box.querySelectorAll(boxes)].map(text => text.textContent))"""


def shown(text: str) -> str:
    """What a reader sees of a text: white space in one piece, and no word joiners."""
    return re.sub(r"\s+", " ", text.replace(JOINER, "")).strip()


def test_every_text_is_shown_as_it_is_and_nothing_comes_of_it(serve, visit) -> None:
    page = visit(f"{serve(ROOT / 'tests' / 'browser' / 'pages' / 'markdown.py')}/").page
    for place in PLACES:
        expect(page.locator(f".st-key-{place}-{len(TEXTS) - 1}").locator(BOXES).last).to_be_attached()
    page.wait_for_timeout(500)  # what turns names into emoji and formulas is loaded late

    def every_text() -> None:
        wrong = []
        for place in PLACES:
            found = page.evaluate(READ, [place, BOXES])
            assert len(found) == len(TEXTS)
            for text, seen in zip(TEXTS, found, strict=True):
                said = shown(text.replace("`", "'") if place == "code" else text)
                said = f"before {said} after" if place == "middle" else said
                if said not in map(shown, seen):
                    wrong.append((place, said, seen))
        assert wrong == []
        for place, read in (("list", "input"), ("plain", "[data-testid=stText]")):
            boxes = page.locator(f"[class*='st-key-{place}-'] {read}").all()
            seen = [box.input_value() if read == "input" else box.inner_text() for box in boxes]
            assert ["".join(text.split()) for text in seen] == ["".join(text.split()) for text in TEXTS]

    until(page, every_text)
    boxes = page.locator(BOXES)
    assert boxes.locator("img, a, em, del, .katex, h1, ul, ol, blockquote, hr, table, input").count() == 0

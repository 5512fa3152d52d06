"""What tests of the page What if share: its translator, apart from the pages' own, and what the page shows."""

import re
from functools import cache

from streamlit.testing.v1 import AppTest

from transformer import Checkpoint, DecodingOptions, Translation, load, translate
from ui.store.shipped import CHECKPOINTS

NAME = "multi30k-en-de"
SENTENCE = "A man in a red shirt rides a bicycle."


@cache
def translator() -> Checkpoint:
    """The checkpoint of most of these tests, apart from the pages' own."""
    return load(CHECKPOINTS / NAME)


@cache
def unchanged(text: str) -> Translation:
    """What it writes where nothing is changed."""
    return translate(translator(), text, DecodingOptions())


def words(page: AppTest, side: str) -> str:
    """What stands on one side of the two sentences: of the page itself, not of a list of what to try."""
    every = (part.proto.body for part in page.get("html"))
    shown = next(body for body in every if f"words-{side}" in body and "words-read" not in body)
    (found,) = re.findall(rf'data-testid="words-{side}">(.*?)</p>', shown)
    return re.sub(r"<[^>]+>", "", found)


def chips(page: AppTest) -> list[str]:
    return [button.label for button in page.button if str(button.key).startswith("chip-")]

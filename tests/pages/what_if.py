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
    found = next(part.proto.body for part in page.get("html") if f"words {side}" in part.proto.body)
    return re.sub(r"<style>.*?</style>|<[^>]+>", "", found, flags=re.DOTALL).strip()


def chips(page: AppTest) -> list[str]:
    return [button.label for button in page.button if str(button.key).startswith("chip-")]

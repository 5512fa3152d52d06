"""The page What if at an address, what stands on it, and runs of the same changes apart from it."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from streamlit.testing.v1 import AppTest

from heedmap import Checkpoint, DecodingOptions, Intervention, Translation, intervening, load, translate
from tests.pages.opening import address_of, fine, opened
from ui.store.store import CHECKPOINTS

NAME = "multi30k-en-de"
SENTENCE = "A man in a red shirt rides a bicycle."
OFF = "decoder.3.cross~mean~h3~~decoder.2.cross~mean~h1"


@cache
def translator() -> Checkpoint:
    """The checkpoint of most of these tests, apart from the pages' own."""
    return load(CHECKPOINTS / NAME)


@cache
def unchanged(text: str) -> Translation:
    """What it writes where nothing is changed."""
    return translate(translator(), text, DecodingOptions())


def changed(text: str, changes: Sequence[Intervention]) -> str:
    """What it writes under changes."""
    with intervening(changes):
        return translate(translator(), text, DecodingOptions()).text


def asked(**address: str) -> AppTest:
    """The page at an address, which neither failed nor warned."""
    return fine(opened("what_if", **address))


def done(page: AppTest) -> str | None:
    """The changes in the address."""
    return address_of(page).get("do")


def words(page: AppTest, side: str) -> str:
    """What stands on one side of the two sentences: of the page itself, not of a list of what to try."""
    every = (part.proto.body for part in page.get("html"))
    shown = next(body for body in every if f"words-{side}" in body and "words-read" not in body)
    (found,) = re.findall(rf'data-testid="words-{side}">(.*?)</p>', shown)
    return re.sub(r"<[^>]+>", "", found)


def keyed(page: AppTest, start: str) -> list[Any]:
    return [button for button in page.button if str(button.key).startswith(start)]


def distributions(changes: Sequence[Intervention], text: str = SENTENCE) -> np.ndarray:
    """log p of every token at every step of what is written without changes."""
    model, _, _ = translator().translator()
    run = unchanged(text)
    read = torch.tensor([[model.config.bos_id, *run.target_ids[:-1]]])
    with torch.inference_mode(), intervening(changes):
        logits = model(torch.tensor([run.source_ids]), read)[0].double().numpy()
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found

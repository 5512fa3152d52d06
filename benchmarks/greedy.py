"""Sessions that ask for much: long sentences, a text of 2,000 lines, uploads, a long sequence, a training.

`python -m benchmarks.load --greedy` lets them work beside the readers, `--greedy training` one of them: nobody else
should notice.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from benchmarks.websocket import Answer, Session
from tests.browser.visiting import ROOT
from ui.texts import in_language

LETTERS = 1_000_000
"""Of the sequence that is scanned."""

LINES = 2_000
"""Of the text whose heads are measured."""

LONG_WORDS = 255
"""Of a long sentence: with its end, the 256 tokens that the translator reads at most."""

WORDS = ("a", "dog", "man", "in", "the", "red", "street", "with", "two", "children", "and", "bicycle", "plays", "near")

Told = Callable[[str, Answer], None]


@asynccontextmanager
async def greedy(address: str, kinds: Sequence[str], done: Counter[str], errors: list[str]) -> AsyncIterator[None]:
    """While the block runs, one session of each kind; `done` counts what they finished, `errors` what went wrong."""

    def told(what: str, answer: Answer) -> None:
        done[what] += 1
        errors.extend(answer.errors)

    works = [WORKS[kind] for kind in kinds]
    sessions = [Session(address) for _ in works]
    tasks = [asyncio.create_task(work(session, told)) for work, session in zip(works, sessions, strict=True)]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in sessions:
            await session.close()


async def _sentences(session: Session, told: Told) -> None:
    chance = random.Random(1)
    write = partial(_sentence, chance, LONG_WORDS)
    told("first visits", await session.open("translate", text=write(), beam="8", longest="200"))
    while True:
        told("sentences of 256 tokens", await session.visit("translate", text=write(), beam="8", longest="200"))


async def _lines(session: Session, told: Told) -> None:
    chance = random.Random(2)
    told("first visits", await session.open("atlas", screen="own"))
    while True:
        text = "\n".join(_sentence(chance, chance.randint(6, 18)) for _ in range(LINES))
        told("texts begun", await session.write("text", text))
        told("texts of 2,000 lines", await session.press(in_language("en", "atlas.own_run")))


async def _uploads(session: Session, told: Told) -> None:
    data = (ROOT / "checkpoints" / "multi30k-en-de" / "model.safetensors").read_bytes()
    told("first visits", await session.open("your_model"))
    while True:
        told("uploads", await session.upload("model.safetensors", data))
        told("removals", await session.press(in_language("en", "checkpoints.remove")))


async def _sequence(session: Session, told: Told) -> None:
    chance = random.Random(3)
    told("first visits", await session.open("sequences", read="scan"))
    while True:
        data = f">long\n{''.join(chance.choices('ACGT', k=LETTERS))}\n".encode()
        told("sequences begun", await session.upload("long.fa", data))
        told("sequences of 1 Mb", await session.press(in_language("en", "sequences.scan_start")))


async def _training(session: Session, told: Told) -> None:
    told("first visits", await session.open("learning", to="4000"))
    while True:
        await asyncio.sleep(0.7)
        told("looks at a training", await session.visit("learning", to="4000"))


WORKS: dict[str, Callable[[Session, Told], Coroutine[Any, Any, None]]] = {
    "sentences": _sentences, "lines": _lines, "uploads": _uploads, "sequence": _sequence, "training": _training,
}  # fmt: skip
"""What each kind of session does."""


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))

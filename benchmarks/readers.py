"""What a reader of a class does with the page Translate, and whether what came back is what the library computes.

Three kinds of readers act, of which `benchmarks.load` makes a class:

`Scoring`: each action is another head, one time in four another layer, whose *scores* are shown. The browser has the
weights of all heads and no scores, so every action reaches the server, which draws most of the page again.

`Mixed`: of ten actions eight choose another head or layer, one another form of all maps (whole words or pieces, with
or without special tokens), one another view: from the heatmap to any of the others, and back. Forms and views are the
server's. A head or a layer is the browser's alone in the heatmap, the head view and the beams; where the steps or the
downloads are open, what they show follows it, and the server is asked. So four actions of ten reach the server.

`Wandering`: each action is the next of all pages and screens, with a sentence or a sequence that nobody has typed
before. So every action leaves a new result among those that the server keeps.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from streamlit.proto.Alert_pb2 import Alert

from benchmarks.websocket import Answer, Session
from tests.browser.visiting import ROOT
from transformer import DecodingOptions, Record, load, translate
from transformer.attention.measures import sites_of
from transformer.plots.canvas.blob import unpack
from transformer.plots.canvas.record import MASKED
from ui.texts import in_language

CHECKPOINT = ROOT / "checkpoints" / "multi30k-en-de"
KIND = "decoder.cross"
NOUNS = (
    *("dog", "man", "woman", "boy", "girl", "cat", "group", "child", "player", "rider", "worker", "teacher"),
    *("singer", "runner", "driver"),
)
COLOURS = ("red", "blue", "green", "white", "black", "brown", "yellow", "orange", "grey", "pink")
PLACES = ("down the street", "along the beach", "in the park")

SHOWN_BY = {"heatmap": "heatmap", "head_view": "head-view", "beams": "tree"}
"""The key of the element that shows a view; steps and downloads have none."""

WORDS = (*NOUNS, *COLOURS, "a", "two", "the", "in", "on", "with", "near", "and", "plays", "runs", "sits", "rides")

WAYS: tuple[tuple[str, tuple[str, ...], dict[str, str]], ...] = (
    ("map", ("text",), {}),
    ("map", ("text",), {"model": "multi30k-en-de-rnn"}),
    ("translate", ("text",), {}),
    *(("translate", ("text",), {"view": view}) for view in ("head_view", "steps", "beams", "sources", "downloads")),
    ("translate", ("text",), {"scores": "True"}),
    ("translate", ("text",), {"model": "multi30k-en-de-rnn-location"}),
    *(("align", ("text",), {"screen": screen}) for screen in ("side", "agreement", "changes", "lesson", "downloads")),
    *(("what_if", ("text",), {"do": change}) for change in ("encoder.0.self~mean~h0", "decoder.1.cross~zero~h2")),
    *(("sequences", ("sequence",), {"model": model}) for model in ("splice-junctions", "core-promoters")),
    *(("sequences", ("sequence",), {"view": view}) for view in ("windows", "heads", "bases")),
    *(("atlas", (), {"screen": screen}) for screen in ("cards", "table", "map", "head")),
    ("your_model", ("text",), {}),
    *(("your_model", (), {"show": screen}) for screen in ("tensors",)),
    *(("attention_steps", ("source", "target"), {"made": made}) for made in ("toy", "shipped")),
    *(("inside_layer", ("text", "target"), {"made": made}) for made in ("toy", "shipped")),
    *(("masks", (), {"screen": screen}) for screen in ("build", "scores", "module")),
    *(("positions", (), {"screen": screen}) for screen in ("table", "rotation", "order")),
)
"""Pages and screens, with the keys of their texts and what else their addresses say."""

FOLLOWING = ("steps", "downloads")
"""Views that the server draws for the chosen head."""


def sentence(reader: int) -> str:
    """One reader's own sentence; 450 readers have different ones."""
    noun, colour, place = NOUNS[reader % 15], COLOURS[reader // 15 % 10], PLACES[reader // 150 % 3]
    return f"a {noun} in a {colour} shirt is riding a bicycle {place} ."


class Truth:
    """What the library has of these sentences: their records, and the scores of every head of cross-attention."""

    def __init__(self, sentences: Sequence[str]) -> None:
        checkpoint = load(CHECKPOINT)
        self.records: dict[str, Record] = {}
        self.scores: dict[tuple[str, int, int], np.ndarray] = {}
        for text in sentences:
            record = translate(checkpoint, text, DecodingOptions(beam=5, length_penalty=1.0, max_length=100)).record
            self.records[text], self.sites = record, sites_of(record, KIND)
            self.layers, self.heads = len(self.sites), record[self.sites[0]].n_heads
            for layer, site in enumerate(self.sites):
                for head in range(self.heads):
                    picture = record[site].picture(head, words=True, special=True, scores=True)
                    self.scores[text, layer, head] = picture.values

    def form(self, text: str, layer: int, words: bool, special: bool) -> np.ndarray:
        """The weights of all heads of a layer in one form, in the precision in which the browser is sent them."""
        pictures = [self.records[text][self.sites[layer]].picture(head, words, special) for head in range(self.heads)]
        every = [np.where(one.visible, one.values, MASKED) for one in pictures]
        return np.array(every, dtype=np.float32)

    def step(self, text: str, layer: int, head: int) -> np.ndarray:
        """What a head looks at where the first token is written."""
        values: np.ndarray = self.records[text][self.sites[layer]].picture(head).values[0]
        return values


class Reader(Protocol):
    """One of a class: visits the page, then acts every few seconds."""

    async def come(self) -> Answer:
        """Open the page with one's own sentence."""

    async def act(self) -> Answer | None:
        """Do one thing; None where the browser does it alone, and no message is sent."""

    def is_wrong(self, answer: Answer) -> bool:
        """Whether the last answer shows anything else than what was asked for, or nothing."""

    async def leave(self) -> None:
        """Close the session."""


class Scoring:
    """Looks at another head's scores every time."""

    def __init__(self, number: int, address: str, truth: Truth) -> None:
        self._chance, self._session, self._truth = random.Random(number), Session(address), truth
        self._text = sentence(number)
        self._at = {"layer": self._chance.randrange(truth.layers), "head": self._chance.randrange(truth.heads)}

    async def come(self) -> Answer:
        """Open the page, with scores on."""
        return await self._session.open("translate", text=self._text, scores="True")

    async def act(self) -> Answer | None:
        """Another head, one time in four another layer."""
        moved(self._at, self._chance, self._truth)
        return await self._session.trigger("head-choice", "asked", _texts(self._at))

    def is_wrong(self, answer: Answer) -> bool:
        """Whether the map of scores is not, number for number, the library's."""
        found = answer.keyed("heatmap")
        expected = np.float32(self._truth.scores[self._text, self._at["layer"], self._at["head"]])
        return found is None or not np.array_equal(unpack(found.bidi_component.bytes)[1]["weights"], expected.ravel())

    async def leave(self) -> None:
        """Close the session."""
        await self._session.close()


class Mixed:
    """Looks at heads, layers, forms and views, as the module says."""

    def __init__(self, number: int, address: str, truth: Truth) -> None:
        self._chance, self._session, self._truth = random.Random(number), Session(address), truth
        self._text = sentence(number)
        self._at = {"layer": self._chance.randrange(truth.layers), "head": self._chance.randrange(truth.heads)}
        self._form = {"words": True, "special": True}
        self._view = "heatmap"
        self._is_wrong: Callable[[Answer], bool] = lambda _: True

    async def come(self) -> Answer:
        """Open the page."""
        return await self._session.open("translate", text=self._text, **_texts(self._at))

    async def act(self) -> Answer | None:
        """One of the ten actions."""
        what = self._chance.randrange(10)
        if what == 0:
            return await self._another_form()
        if what == 1:
            return await self._another_view()
        moved(self._at, self._chance, self._truth)
        if self._view not in FOLLOWING:
            return None
        self._is_wrong = self._shows_another_view
        return await self._ask()

    async def _ask(self) -> Answer:
        """The browser tells which head it shows, since the server draws what follows it."""
        return await self._session.trigger("head-choice", "asked", _texts(self._at))

    async def _another_form(self) -> Answer:
        key = self._chance.choice(list(self._form))
        self._form[key] = not self._form[key]
        self._is_wrong = self._is_another_form
        return await self._session.switch(key, self._form[key])

    async def _another_view(self) -> Answer:
        others = ["head_view", "steps", "beams", "downloads"]
        self._view = self._chance.choice(others) if self._view == "heatmap" else "heatmap"
        self._is_wrong = self._shows_another_view
        answer = await self._session.choose({"view": in_language("en", f"translate.view_{self._view}")})
        return await self._ask() if self._view in FOLLOWING else answer

    def _is_another_form(self, answer: Answer) -> bool:
        found = answer.keyed("record")
        if found is None:
            return True
        header, arrays = unpack(found.bidi_component.bytes)
        order = [kind["name"] for kind in header["kinds"]].index(KIND)
        expected = self._truth.form(self._text, self._at["layer"], **self._form)
        sent = arrays[f"weights_{order}"]
        if sent.size != expected.size * self._truth.layers:
            return True
        return not np.array_equal(sent.reshape(-1, *expected.shape)[self._at["layer"]], expected)

    def _shows_another_view(self, answer: Answer) -> bool:
        if self._view == "downloads":
            return not any(one.WhichOneof("type") == "download_button" for one in answer.elements)
        if self._view != "steps":
            return answer.keyed(SHOWN_BY[self._view]) is None
        expected = self._truth.step(self._text, self._at["layer"], self._at["head"])
        return not np.array_equal(_bars(answer, f"step-{KIND}"), expected)

    def is_wrong(self, answer: Answer) -> bool:
        """Whether the record is not the library's in the form asked for, or the view is not there; steps by numbers."""
        return self._is_wrong(answer)

    async def leave(self) -> None:
        """Close the session."""
        await self._session.close()


class Wandering:
    """Opens one page after the other, each with a text of its own."""

    def __init__(self, number: int, address: str, truth: Truth) -> None:
        self._chance, self._session, self._at = random.Random(number), Session(address), number

    async def come(self) -> Answer:
        """Open the first page."""
        page, query = self._next()
        return await self._session.open(page, **query)

    async def act(self) -> Answer | None:
        """The next page."""
        page, query = self._next()
        return await self._session.visit(page, **query)

    def is_wrong(self, answer: Answer) -> bool:
        """Whether the page shows nothing, or that something cannot be shown."""
        return not answer.elements or any(one.alert.format == Alert.ERROR for one in answer.elements)

    async def leave(self) -> None:
        """Close the session."""
        await self._session.close()

    def _next(self) -> tuple[str, dict[str, str]]:
        page, texts, query = WAYS[self._at % len(WAYS)]
        self._at += 1
        words = " ".join(self._chance.choices(WORDS, k=self._chance.randint(4, 24)))
        letters = "".join(self._chance.choices("ACGT", k=self._chance.randint(60, 300)))
        return page, query | {key: letters if key == "sequence" else f"{words} ." for key in texts}


READERS: dict[str, Callable[[int, str, Truth], Reader]] = {"scores": Scoring, "mixed": Mixed, "pages": Wandering}
"""Kinds of readers by what a class is asked for."""


def moved(at: dict[str, int], chance: random.Random, truth: Truth) -> None:
    """Another head, one time in four another layer."""
    name, count = ("layer", truth.layers) if chance.random() < 0.25 else ("head", truth.heads)
    at[name] = (at[name] + chance.randrange(1, count)) % count


def truth_of(readers: int) -> Truth:
    """What so many readers' sentences are for the library."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two wait for each other where something else runs
    try:
        return Truth([sentence(reader) for reader in range(readers)])
    finally:
        torch.set_num_threads(threads)


def _texts(values: dict[str, int]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


def _bars(answer: Answer, name: str) -> np.ndarray:
    """The numbers of a chart of bars; none where it is not there."""
    bodies = [one.html.body for one in answer.elements if one.WhichOneof("type") == "html"]
    drawn = "".join(body for body in bodies if f'data-testid="bars-{name}"' in body)
    return np.array([float(value) for value in re.findall('<data value="(.*?)"', drawn)])

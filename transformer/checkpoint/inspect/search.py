"""Find the answers: what a file of weights leaves open is tried until its model computes what the original computed.

Answers are taken one question after the other, the likeliest first; a question that only some answers raise is tried
there. Of questions that come after all attention none is tried where the maps differ already.
"""

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from transformer.checkpoint.foreign.build import model_of
from transformer.checkpoint.foreign.questions import Question
from transformer.checkpoint.foreign.recognition import Recognition, recognise
from transformer.checkpoint.inspect.expected import Asked, Check, compare
from transformer.errors import CheckpointError, ConfigError, HeedmapError, InputError
from transformer.messages import Message
from transformer.safe.contents import Contents

MOST_TRIED, SECONDS = 4_000, 300.0
"""Runs of a model, and seconds of a processor, after which a search ends with what it has."""

EPS = (1e-5, 1e-6, 1e-12)
"""What a LayerNorm may add to the variance."""

HEADS = "n_heads"
"""The question that maps answer by their shape, where they were saved head by head."""

PADDING, PADS = ("pad_id", "target_pad_id"), (0, 1)
"""Questions for an id of padding, and the ids that are tried where the original read them."""

Given = Mapping[str, Any]
"""Answers by question."""


@dataclass(frozen=True)
class Search:
    """What came of a search. `found` are all answers that agree with the original, the likeliest first.

    `tried` counts runs; a search that was not `is_complete` left some combinations untried. `nearest` says how far the
    best one is from what was expected, where none agrees.
    """

    source: str
    found: tuple[Given, ...]
    tried: int
    is_complete: bool
    nearest: str = ""

    @property
    def answers(self) -> Given:
        """The likeliest of those that agree; empty where none does."""
        return self.found[0] if self.found else {}

    @property
    def undecided(self) -> dict[str, tuple[Any, ...]]:
        """Questions that what was expected does not decide, with the answers that agree."""
        names = dict.fromkeys(name for answers in self.found for name in answers)
        values = {name: _distinct([one.get(name) for one in self.found if name in one]) for name in names}
        return {name: several for name, several in values.items() if len(several) > 1}

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        said: dict[str, Any] = {"source": self.source, "tried": self.tried}
        if not self.found:
            nearest = self.nearest or Message("nothing")
            return Message("find_none" if self.is_complete else "find_none_yet", **said, nearest=nearest)
        told = tuple(Message("find_answer", name=name, value=repr(one)) for name, one in self.answers.items())
        said["answers"] = told or Message("nothing")
        if not self.undecided:
            return Message("find_one" if self.is_complete else "find_first", **said)
        undecided = tuple(Message("find_open", name=n, values=tuple(map(repr, v))) for n, v in self.undecided.items())
        return Message("find_several", **said, count=len(self.found), undecided=undecided)


class Searching:
    """A search on its way: going through it gives the share that is done, and at its end there is a `result`."""

    def __init__(
        self,
        contents: Contents,
        expected: Contents,
        given: Given,
        *,
        most: int = MOST_TRIED,
        seconds: float = SECONDS,
    ) -> None:
        self._contents, self._expected, self._given = contents, expected, dict(given)
        self._most, self._until = most, time.thread_time() + seconds
        self._asked: Asked | None = None
        self._agreeing: list[tuple[int, Given]] = []
        self._nearest: tuple[tuple[int, float], Check] | None = None
        self._problem: HeedmapError | None = None
        self._tried, self._is_complete = 0, True

    def __iter__(self) -> Iterator[float]:
        """Try everything: first what is open or assumed, then, where nothing agrees, what is rare or told as well.

        Raises:
            CheckpointError: a given answer is not possible.
            InputError: the file of what is expected cannot be compared, whatever is answered.
        """
        yield from self._all(more=False)
        if not self._agreeing and self._is_complete:
            yield from self._all(more=True)
        if self._is_complete and not self._agreeing and self._nearest is None and self._problem is not None:
            raise self._problem

    @property
    def result(self) -> Search:
        """What was found so far."""
        most = max((compared for compared, _ in self._agreeing), default=0)
        found = tuple(answers for compared, answers in self._agreeing if compared == most)
        nearest = "" if found or self._nearest is None else self._nearest[1].verdict
        return Search(self._contents.source, found, self._tried, self._is_complete, nearest)

    def _all(self, *, more: bool) -> Iterator[float]:
        """Every combination; `more` has questions with a usual answer, and those that options answer, tried too."""
        numbers, done = count(), 0.0
        ahead: list[tuple[int, int, int, Given, float]] = [(0, 0, next(numbers), self._given, 1.0)]
        known = set[frozenset[Any]]()
        while ahead:
            if self._tried >= self._most or time.thread_time() > self._until:
                self._is_complete = False
                return
            unlikely, depth, _, answers, share = heapq.heappop(ahead)
            branches = self._branches(answers, more)
            for penalty, longer in branches:
                if (key := frozenset(longer.items())) not in known:
                    known.add(key)
                    place = unlikely + penalty, depth - 1, next(numbers)
                    heapq.heappush(ahead, (*place, longer, share / len(branches)))
            if not branches:
                done += share
                yield min(done, 1.0)

    def _branches(self, answers: Given, more: bool) -> list[tuple[int, Given]]:
        """The ways to go on from some answers, each with what makes it unlikely; none where they were tried."""
        try:
            recognition = recognise(self._contents, answers)
        except CheckpointError as error:
            name = error.fields.get("name")
            if error.code == "answer_to_nothing" and name not in self._given:  # another answer made it needless
                return [(0, {one: answer for one, answer in answers.items() if one != name})]
            if answers == self._given:
                raise
            self._problem = error
            return []
        fit, report = recognition.fit, recognition.report
        if self._asked is None and fit is not None:
            self._asked = Asked.of(self._expected)
        options = {q: self._options(q, more) for q in report.questions if q.name not in answers}
        open_ = sorted((q for q in options if options[q]), key=lambda question: question.after_attention)
        if open_ and not (open_[0].after_attention and report.fits and not self._agrees(recognition, maps_only=True)):
            first = open_[0]
            return [
                (int(i > 0 and not first.is_open), {**answers, first.name: option})
                for i, option in enumerate(options[first])
            ]
        if not report.fits:
            self._problem = CheckpointError("no_fit", report=report.text)
        elif not open_ and (compared := self._agrees(recognition)):
            self._agreeing.append((compared, answers))
        return []

    def _options(self, question: Question, more: bool) -> tuple[Any, ...]:
        """The answers that are tried, the default first; none where there is nothing to choose."""
        if (question.rare or question.told) and not more:
            return ()
        tried: Sequence[Any] = question.options
        if question.name == HEADS and self._asked is not None:
            told = {array.shape[1] for array in self._asked.arrays.values() if array.ndim == 4}  # maps head by head
            if fitting := tuple(option for option in tried if option in told):
                return fitting
        if question.is_number:
            tried = EPS
        elif question.name in PADDING and self._asked is not None:
            read = {int(i) for ids in self._asked[:2] if ids is not None for i in ids.unique()}
            tried = [i for i in (-1, *PADS) if i in read or question.default in read]
        found = _distinct([question.default, *tried])
        return found if len(found) > 1 or question.is_open else ()

    def _agrees(self, recognition: Recognition, *, maps_only: bool = False) -> int:
        """How many arrays were compared and agree, and one more; 0 where one differs."""
        if recognition.fit is None or self._asked is None:
            return 0
        self._tried += 1
        try:
            model = model_of(recognition.fit, recognition.contents.tensors, self._contents.source).double()
            found = compare(self._contents.source, model, self._asked, maps_only=maps_only)
        except (InputError, ConfigError) as error:
            self._problem = error
            return 0
        if found.agrees:
            return 1 + len(found.differences)
        agreeing = [one.agrees for one in found.differences].index(False)
        rank = agreeing, -found.largest.largest
        if self._nearest is None or rank > self._nearest[0]:
            self._nearest = rank, found
        return 0


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values once each, in their order; True is another one than 1."""
    return tuple({repr(value): value for value in values}.values())

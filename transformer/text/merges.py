"""Words cut into pieces by merges, some of which are skipped at random: BPE-dropout.

Sources: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units" (merges); Provilkov et al.
2020, "BPE-Dropout". The rule is SentencePiece's own: the best pair of neighbours is merged first, the left one of
equals; a pair that is skipped stays apart until one of its sides grows.
"""

import heapq
import math
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain, count, repeat
from random import Random

WORD = re.compile("▁+[^▁]*|[^▁]+")
"""A word with the ▁ before it: no piece reaches over two words."""

Cut = tuple[int, ...]
"""The ids of a word's pieces."""


class MergeSampler:
    """Cuts normalised text (spaces written as ▁) into ids; what is drawn is a function of the generator alone."""

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float], unknown: int) -> None:
        """`ids` and `scores` are those of the pieces that merges may make; a letter without one is `unknown`."""
        self._ids, self._scores, self._unknown = ids, scores, unknown

    @cached_property
    def _usual(self) -> dict[str, tuple[Cut, int]]:
        """Words met so far, cut without dropout, and how many merges that took."""
        return {}

    def cut(self, text: str, dropout: float, draws: Random) -> list[int]:
        """The ids of `text`; each merge is skipped with probability `dropout`. Neighbouring unknown letters are one.

        A word whose merges all happen costs one draw and no merging, so most of a text does at a low dropout.
        """
        found: list[int] = []
        for word in WORD.findall(text):
            for piece in self._word(word, dropout, draws):
                if piece != self._unknown or not found or found[-1] != piece:
                    found.append(piece)
        return found

    def _word(self, word: str, dropout: float, draws: Random) -> Cut:
        if word not in self._usual:
            self._usual[word] = self._merged(word, lambda: False)
        usual, merges = self._usual[word]
        if not dropout or not merges:
            return usual
        before = int(math.log(1.0 - draws.random()) / math.log(1.0 - dropout))  # merges until the first that is skipped
        if before >= merges:
            return usual
        skips = chain(repeat(False, before), [True], (draws.random() < dropout for _ in count()))
        return self._merged(word, lambda: next(skips))[0]

    def _merged(self, word: str, skips: Callable[[], bool]) -> tuple[Cut, int]:
        """The word's pieces and the number of merges; `skips` is asked at each merge that is due."""
        symbols = list(word)
        before, after = list(range(-1, len(word) - 1)), [*range(1, len(word)), -1]
        due = [
            (-self._scores[pair], i, i + 1, pair)
            for i in range(len(word) - 1)
            if (pair := word[i : i + 2]) in self._scores
        ]
        heapq.heapify(due)
        merges = 0
        while due:
            _, left, right, pair = heapq.heappop(due)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != pair or skips():
                continue
            merges += 1
            symbols[left], symbols[right] = pair, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            for one, next_one in ((before[left], left), (left, after[left])):
                if one >= 0 and next_one >= 0 and (pair := symbols[one] + symbols[next_one]) in self._scores:
                    heapq.heappush(due, (-self._scores[pair], one, next_one, pair))
        return tuple(self._ids.get(symbol, self._unknown) for symbol in symbols if symbol), merges

"""What a vocabulary's tokens are, as tables by id: punctuation, numbers, starts of words, and how rare they are."""

import unicodedata
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer.plots.axes import WORD_START
from transformer.text.base import Tokenizer

TOP = 500
"""A sentence whose rarest token is among so many of the corpus' most frequent ones has no rare word (Voita et al. 2019,
section 5.2.3)."""


class Vocabulary:
    """A tokenizer with tables about its tokens; `counts` is how often each stands in the corpus."""

    def __init__(self, tokenizer: Tokenizer, counts: bytes | None = None) -> None:
        self.tokenizer = tokenizer
        known = np.zeros(len(tokenizer), np.int64) if counts is None else np.frombuffer(counts, dtype=np.int64).copy()
        self.counted, self.counts = counts is not None, torch.from_numpy(known)
        self.texts = texts = tokenizer.labels(range(len(tokenizer)))
        bare = [text.removeprefix(WORD_START) for text in texts]
        self._special = torch.tensor([tokenizer.is_special(i) for i in range(len(tokenizer))])
        self._marked = torch.tensor([text.startswith(WORD_START) for text in texts])
        self._punctuation = torch.tensor([_all_punctuation(text) for text in bare]) & ~self._special
        self._number = torch.tensor([text.isdecimal() for text in bare]) & ~self._special

    def classes(
        self, ids: Int[Tensor, "sentence key"], real: Bool[Tensor, "sentence key"]
    ) -> tuple[dict[str, Bool[Tensor, "sentence key"]], Int[Tensor, "sentence key"]]:
        """Marks of each position, and the word that it belongs to (negative for special tokens and padding).

        A special token that comes first is the start, any other one an end. Words are those of `Axis.of_pieces`: one
        begins at a piece with a leading ▁, and after a special token.
        """
        special = self._special[ids] & real
        first = torch.arange(ids.shape[1]) == 0
        marked = self._marked[ids] & real
        whole = ~marked.any(-1, keepdim=True)
        after = torch.nn.functional.pad(special, (1, 0))[:, :-1]
        starts = (whole | first | special | after | marked) & real
        words = starts.long().cumsum(-1).masked_fill(special | ~real, -1)
        return {
            "special": special,
            "start": special & first,
            "end": special & ~first,
            "padding": torch.zeros_like(special),
            "punctuation": self._punctuation[ids] & real,
            "number": self._number[ids] & real,
            "first_piece": starts & ~special,
        }, words

    def rarest(self, ids: Int[Tensor, "sentence key"], real: Bool[Tensor, "sentence key"]) -> Int[Tensor, " sentence"]:
        """The key whose token is rarest in the corpus, of equals the first; -1 where all are frequent."""
        if not self.counted:
            return torch.full((len(ids),), -1)
        counted = self.counts[ids].masked_fill(self._special[ids] | ~real, np.iinfo(np.int64).max)
        fewest, where = counted.numpy().min(-1), torch.from_numpy(counted.numpy().argmin(-1))
        return where.masked_fill(torch.from_numpy(fewest >= self._frequent), -1)

    @cached_property
    def _frequent(self) -> int:
        """How often the last of the `TOP` most frequent tokens stands in the corpus."""
        text = self.counts.masked_fill(self._special, 0)
        return int(text.sort(descending=True).values[min(TOP, len(text)) - 1]) or 1


def _all_punctuation(text: str) -> bool:
    return bool(text) and all(unicodedata.category(letter).startswith("P") for letter in text)

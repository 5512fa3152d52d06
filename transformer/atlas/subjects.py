"""The models that a pass over a corpus can watch: each reads a line as ids and measures a batch of such readings.

A model of text has tables about the tokens of its vocabularies; a classifier of sequences has windows and no words.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..attention.capture import recording
from ..attention.measures import Totals
from ..checkpoint.checkpoint import Checkpoint
from ..errors import InputError
from ..nn.common import pad
from ..nn.protocols import written_length, written_pad
from ..nn.search import DecodingOptions, decode
from ..plots.axes import WORD_START
from ..runs.concurrency import let_others
from ..runs.sequences.classify import MAX_SET_LETTERS, classifier, read
from ..text.base import Tokenizer
from .corpus import TokenCounts
from .statistics import WORDS, Maps, Tally, TextKeys, maps_of, text_totals, window_tallies, window_totals, word_tally

SHOWN_TOKENS = range(5, 41)
"""How many tokens source and target of an example may have: shorter ones show nothing, longer ones are hard to see."""

GREEDY_TOKENS = 100
"""Most tokens that a model writes where no reference is given."""

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


@dataclass(frozen=True)
class TokenizedLine:
    """One line, or one pair of lines, as ids; `number` counts lines from 0."""

    number: int
    texts: tuple[str, str]
    source: tuple[int, ...]
    target: tuple[int, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """How many positions it takes; readings of like size are run together."""
        return len(self.target), len(self.source)


@dataclass(frozen=True, eq=False)
class Observed:
    """What one kind of attention did in a batch: sums by sentence, and counts of what its rows look at."""

    maps: Maps
    totals: Mapping[str, Totals]
    tallies: Mapping[str, Tally]


class TextSubject:
    """A model of text: an encoder or a decoder alone, or an encoder-decoder that is told what to write, or not.

    What it is not told it writes first, greedily; then it reads that (teacher forcing). `sides` are the vocabularies of
    what is read and, of an encoder-decoder, of what is written; `mixed` says whether sentences of different lengths may
    share a forward pass: where not, none is padded. `shown` is how long an example may be.
    """

    shown = SHOWN_TOKENS

    def __init__(self, checkpoint: Checkpoint, counts: TokenCounts) -> None:
        self.model: Any = checkpoint.model
        tokenizers: list[Any] = [checkpoint.tokenizer, checkpoint.writer]
        both = zip(tokenizers, (counts.source, counts.target), strict=True)
        self.sides = [Vocabulary(*one) for one in list(both)[: 1 + checkpoint.translates]]
        self.mixed = checkpoint.translates and self.model.config.pad_id >= 0
        hidden = getattr(self.model, "hidden", self.model)  # attention needs no scores of the vocabulary
        self._forward = hidden if checkpoint.translates else self.model.outputs

    def read(self, number: int, source: str, target: str | None) -> TokenizedLine:
        """Both lines as ids, a target with its end token; an InputError says why one cannot be read."""
        config, reader, alone = self.model.config, self.sides[0].tokenizer, len(self.sides) == 1
        ids = reader.encoder_ids(source) if alone else reader.source_ids(source)  # special tokens of the family
        texts = source, "" if alone or target is None else target
        found = TokenizedLine(number, texts, _checked(ids, reader, config.max_length))
        if alone or target is None:
            return found
        writer = self.sides[1].tokenizer
        return replace(found, target=_checked(writer.source_ids(target), writer, written_length(config)))

    def run(self, readings: Sequence[TokenizedLine]) -> tuple[Sequence[TokenizedLine], list[Observed]]:
        """Pass a batch through the model and measure all of its attention; readings come back with their targets.

        Row t of a decoder is where token t is read, and token t + 1 is written.
        """
        config, readings = self.model.config, self._completed(readings)
        inputs = [pad([one.source for one in readings], config.pad_id if self.mixed else 0)]
        if len(self.sides) > 1:
            rows = [(config.bos_id, *one.target[:-1]) for one in readings]
            inputs.append(pad(rows, written_pad(config)))
        with recording(whole=True) as seen:
            self._forward(*inputs)
        lengths = [len(one.source) for one in readings], [len(one.target) for one in readings]
        found = []
        for group in dict.fromkeys(site.group for site in seen.sites):
            queries, keys = self._sides_of(group)
            let_others()
            maps, tables = maps_of(seen, group, lengths[queries], lengths[keys]), self.sides[keys]
            found.append(_observed(maps, tables, inputs[keys], lengths[keys]))
        return readings, found

    def labels(self, reading: TokenizedLine, group: str) -> tuple[tuple[str, ...], ...]:
        """Tokens of queries and keys: a row of a decoder is the token that it writes; its keys were read by then."""
        start = self.model.config.bos_id if len(self.sides) > 1 else 0
        ids = (reading.source, reading.source), (reading.target, (start, *reading.target[:-1]))
        sides = enumerate(self._sides_of(group))
        return tuple(tuple(self.sides[side].tokenizer.labels(ids[side][is_key])) for is_key, side in sides)

    def tokens(self, group: str) -> Sequence[str]:
        """The vocabulary that keys of a kind are counted by."""
        return self.sides[self._sides_of(group)[1]].texts

    def _sides_of(self, group: str) -> tuple[int, int]:
        """Of queries and of keys: 0 for what is read, 1 for what is written."""
        if len(self.sides) == 1 or group == "encoder.self":
            return 0, 0
        return 1, int(group == "decoder.self")

    def _completed(self, readings: Sequence[TokenizedLine]) -> Sequence[TokenizedLine]:
        """The readings with greedy translations, where there are no references."""
        if len(self.sides) == 1 or readings[0].target:
            return readings
        source = pad([reading.source for reading in readings], self.model.config.pad_id)
        longest = min(GREEDY_TOKENS, written_length(self.model.config))
        found = decode(self.model, source, DecodingOptions(beam=1, max_length=longest), between=let_others)
        complete = []
        for one, new in zip(readings, found, strict=True):
            ids = tuple(new.ids) or (self.model.config.eos_id,)
            complete.append(replace(one, texts=(one.texts[0], self.sides[1].tokenizer.decode(ids)), target=ids))
        return complete


class SequenceSubject:
    """A classifier of sequences, whose windows have no words."""

    mixed, shown = False, range(1, MAX_SET_LETTERS + 1)

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.model, self.task = classifier(checkpoint)

    def read(self, number: int, source: str, target: str | None) -> TokenizedLine:
        """The letters as ids; an InputError says why they cannot be read."""
        ids = read(self.checkpoint, source, MAX_SET_LETTERS).ids
        return TokenizedLine(number, (source, target or ""), tuple(ids))

    def run(self, readings: Sequence[TokenizedLine]) -> tuple[Sequence[TokenizedLine], list[Observed]]:
        """All attention over the windows; places are compared where sequences have the trained length."""
        letters, alphabet = torch.tensor([reading.source for reading in readings]), self.task.alphabet.letters
        spans, usual = tuple(self.model.windows(letters.shape[1])), letters.shape[1] == self.task.length
        with recording(whole=True) as seen:
            self.model(letters)
        found = []
        for group in dict.fromkeys(site.group for site in seen.sites):
            n_queries = next(seen.source(site).n_queries for site in seen.sites if site.group == group)
            maps = maps_of(seen, group, [n_queries] * len(letters), [len(spans)] * len(letters))
            tallies = window_tallies(maps, letters, spans, alphabet) if usual else {}
            found.append(Observed(maps, window_totals(maps, spans, letters, len(alphabet), usual), tallies))
        return readings, found

    def labels(self, reading: TokenizedLine, group: str) -> tuple[tuple[str, ...], ...]:
        """None."""
        return ()

    def tokens(self, group: str) -> Sequence[str]:
        """None."""
        return ()


Subject = TextSubject | SequenceSubject
"""A model that a pass can watch."""


def subject_of(checkpoint: Checkpoint, counts: TokenCounts) -> Subject:
    """What a pass runs for a checkpoint that `corpus.survey` let pass."""
    return SequenceSubject(checkpoint) if checkpoint.reads_sequences else TextSubject(checkpoint, counts)


def _checked(ids: Sequence[int], tokenizer: Tokenizer, longest: int) -> tuple[int, ...]:
    """Ids of a line of a length that can be run.

    Raises:
        InputError: it is empty or too long.
    """
    if all(map(tokenizer.is_special, ids)):
        raise InputError("atlas_line_empty")
    if len(ids) > longest:
        raise InputError("atlas_line_tokens", found=len(ids), most=longest)
    return tuple(ids)


def _observed(maps: Maps, vocabulary: Vocabulary, ids: Tensor, lengths: Sequence[int]) -> Observed:
    """The totals of text; keys past the end of the source, which location attention has, are padding."""
    width, n_tokens = maps.weights.shape[-1], len(vocabulary.texts)
    ids = torch.nn.functional.pad(ids, (0, width - ids.shape[1]))
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    classes, words = vocabulary.classes(ids, real)
    if maps.n_keys.tolist() != list(lengths):
        classes["padding"] = torch.arange(width) == torch.tensor(lengths)[:, None]
    totals = text_totals(maps, TextKeys(classes, words, vocabulary.rarest(ids, real)))
    return Observed(maps, totals, {WORDS: word_tally(maps, ids.masked_fill(~real, n_tokens), n_tokens)})

"""What is read by a pass: one class for each kind of model, from a line of text to the totals of a batch.

A reading is what one line became: its ids, ready to be run together with others of like length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from transformer.atlas.looks import WORDS, Tally, window_tallies, word_tally
from transformer.atlas.maps import Maps, groups_of, maps_of
from transformer.atlas.statistics import SHARES, TextKeys, text_totals
from transformer.atlas.vocabulary import Vocabulary
from transformer.atlas.windows import WindowKeys, window_totals
from transformer.attention.capture import Recording, recording
from transformer.attention.measures import Totals
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import CheckpointError, InputError
from transformer.nn.protocols import written_length, written_pad
from transformer.nn.search import DecodingOptions, decode
from transformer.runs.concurrency import let_others
from transformer.runs.sequences.classify import MAX_SET_LETTERS, classifier, read
from transformer.text.batch import pad

SHOWN_TOKENS = range(5, 41)
"""How many tokens source and target of an example may have: shorter ones show nothing, longer ones are hard to see."""

GREEDY_TOKENS = 100
"""Most tokens that a model writes where no reference is given."""


@dataclass(frozen=True)
class Reading:
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


Labels = tuple[tuple[str, ...], tuple[str, ...]]


@runtime_checkable
class Subject(Protocol):
    """A model that a pass can watch."""

    mixed: bool
    """Whether sentences of different lengths may share a forward pass."""
    shown: range
    """How long an example may be."""

    def read(self, number: int, source: str, target: str | None) -> Reading:
        """A line as ids.

        Raises:
            InputError: it cannot be read.
        """

    def completed(self, readings: Sequence[Reading]) -> list[Reading]:
        """The readings with what the model writes for them, where that is not given."""

    def run(self, readings: Sequence[Reading]) -> list[Observed]:
        """Pass a batch through the model and measure all of its attention."""

    def labels(self, reading: Reading, group: str) -> Labels | None:
        """The tokens of the queries and keys of a kind of attention; None for windows, which have no words."""

    def tokens(self, group: str) -> Sequence[str]:
        """The vocabulary that keys of a kind are counted by."""


def subject_of(checkpoint: Checkpoint, counts: "Counts") -> Subject:
    """What a pass runs for a checkpoint.

    Raises:
        CheckpointError: the checkpoint brings no way to read a text.
    """
    if checkpoint.translates:
        return TranslatorSubject(checkpoint, counts)
    if checkpoint.reads_sequences:
        return SequenceSubject(checkpoint)
    return ReaderSubject(checkpoint, counts)


@dataclass(frozen=True)
class Counts:
    """How often each token stands in the sources and in the targets of a corpus; None where that is not known.

    Integers of 64 bits as bytes, since plain values can be sent, compared and remembered.
    """

    source: bytes | None = None
    target: bytes | None = None


class TranslatorSubject:
    """An encoder-decoder that is told what to write (teacher forcing), or writes greedily first."""

    shown = SHOWN_TOKENS

    def __init__(self, checkpoint: Checkpoint, counts: Counts) -> None:
        self.model, reader, writer = checkpoint.translator()
        self.reader, self.writer = Vocabulary(reader, counts.source), Vocabulary(writer, counts.target)
        self.mixed = self.model.config.pad_id >= 0
        self._forward: Any = getattr(self.model, "hidden", self.model)  # attention needs no scores of the vocabulary

    def read(self, number: int, source: str, target: str | None) -> Reading:
        """Both lines as ids; a target ends with its end token, as what the model writes does."""
        config = self.model.config
        ids = _checked(self.reader.tokenizer.source_ids(source), self.reader, config.max_length)
        written: tuple[int, ...] = ()
        if target is not None:
            written = _checked(self.writer.tokenizer.source_ids(target), self.writer, written_length(config))
        return Reading(number, (source, target or ""), ids, written)

    def completed(self, readings: Sequence[Reading]) -> list[Reading]:
        """Greedy translations, where there are no references."""
        if not readings or readings[0].target:
            return list(readings)
        source = pad([reading.source for reading in readings], self.model.config.pad_id)
        longest = min(GREEDY_TOKENS, written_length(self.model.config))
        found = decode(self.model, source, DecodingOptions(beam=1, max_length=longest), between=let_others)
        written = [one.ids or (self.model.config.eos_id,) for one in found]
        return [
            Reading(one.number, (one.texts[0], self.writer.tokenizer.decode(ids)), one.source, tuple(ids))
            for one, ids in zip(readings, written, strict=True)
        ]

    def recorded(self, readings: Sequence[Reading]) -> tuple[Recording, Tensor, Tensor]:
        """Teacher forcing: row t of the decoder is where token t is read, and token t + 1 is written.

        Returns the recording, and the padded ids that the encoder and the decoder read.
        """
        config = self.model.config
        source = pad([reading.source for reading in readings], config.pad_id)
        target = pad([(config.bos_id, *reading.target[:-1]) for reading in readings], written_pad(config))
        with recording(whole=True) as seen:
            self._forward(source, target)
        return seen, source, target

    def run(self, readings: Sequence[Reading]) -> list[Observed]:
        """One pass with the references forced, and all of its attention measured."""
        seen, source, target = self.recorded(readings)
        n_source, n_target = (
            [len(reading.source) for reading in readings],
            [len(reading.target) for reading in readings],
        )
        lengths = {"encoder.self": (n_source, n_source), "decoder.self": (n_target, n_target)}
        sides = {"encoder.self": (self.reader, source), "decoder.self": (self.writer, target)}
        found = []
        for group, sites in groups_of(seen).items():
            maps = maps_of(seen, group, sites, *lengths.get(group, (n_target, n_source)))
            vocabulary, ids = sides.get(group, (self.reader, source))
            let_others()
            found.append(_observed(maps, vocabulary, ids, lengths.get(group, (n_target, n_source))[1]))
        return found

    def labels(self, reading: Reading, group: str) -> Labels:
        """A row of the decoder is the token that it writes; it looks at those that were read by then."""
        source = self.reader.tokenizer.labels(reading.source)
        target = self.writer.tokenizer.labels((self.model.config.bos_id, *reading.target))
        keys = target[:-1] if group == "decoder.self" else source
        return tuple(source if group == "encoder.self" else target[1:]), tuple(keys)

    def tokens(self, group: str) -> Sequence[str]:
        """Those of the language that is read there."""
        return (self.writer if group == "decoder.self" else self.reader).texts


class ReaderSubject:
    """An encoder or a decoder alone; only sentences of one length share a pass, so none is padded."""

    mixed, shown = False, SHOWN_TOKENS

    def __init__(self, checkpoint: Checkpoint, counts: Counts) -> None:
        if checkpoint.tokenizer is None:
            raise CheckpointError("no_tokenizer", name=checkpoint.name)
        self.model: Any = checkpoint.model
        self.vocabulary = Vocabulary(checkpoint.tokenizer, counts.source)

    def read(self, number: int, source: str, target: str | None) -> Reading:
        """A line as ids, among the special tokens of the model's family."""
        ids = self.vocabulary.tokenizer.encoder_ids(source)
        return Reading(number, (source, ""), _checked(ids, self.vocabulary, self.model.config.max_length))

    def completed(self, readings: Sequence[Reading]) -> list[Reading]:
        """It writes nothing."""
        return list(readings)

    def run(self, readings: Sequence[Reading]) -> list[Observed]:
        """All attention over the tokens."""
        ids = torch.tensor([reading.source for reading in readings])
        with recording(whole=True) as seen:
            self.model.outputs(ids)
        lengths = [ids.shape[1]] * len(ids)
        return [
            _observed(maps_of(seen, group, sites, lengths, lengths), self.vocabulary, ids, lengths)
            for group, sites in groups_of(seen).items()
        ]

    def labels(self, reading: Reading, group: str) -> Labels:
        """The tokens, on both sides."""
        tokens = tuple(self.vocabulary.tokenizer.labels(reading.source))
        return tokens, tokens

    def tokens(self, group: str) -> Sequence[str]:
        """The one vocabulary."""
        return self.vocabulary.texts


class SequenceSubject:
    """A classifier of sequences; only sequences of one length share a pass."""

    mixed, shown = False, range(1, MAX_SET_LETTERS + 1)

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.model, self.task = classifier(checkpoint)

    def read(self, number: int, source: str, target: str | None) -> Reading:
        """The letters as ids."""
        if len(source) > MAX_SET_LETTERS:
            raise InputError("letters_many", found=len(source), most=MAX_SET_LETTERS)
        return Reading(number, (source, target or ""), tuple(read(self.checkpoint, source).ids))

    def completed(self, readings: Sequence[Reading]) -> list[Reading]:
        """It writes nothing."""
        return list(readings)

    def run(self, readings: Sequence[Reading]) -> list[Observed]:
        """All attention over the windows."""
        letters = torch.tensor([reading.source for reading in readings])
        spans = tuple(self.model.windows(letters.shape[1]))
        usual = letters.shape[1] == self.task.length
        keys = WindowKeys(spans, letters, len(self.task.alphabet.letters), usual)
        with recording(whole=True) as seen:
            self.model(letters)
        n_keys = [len(spans)] * len(letters)
        found = []
        for group, sites in groups_of(seen).items():
            n_queries = [_queries(seen, sites[0])] * len(letters)
            maps = maps_of(seen, group, sites, n_queries, n_keys)
            tallies = window_tallies(maps, letters, spans, "".join(self.task.alphabet.letters)) if usual else {}
            found.append(Observed(maps, window_totals(maps, keys), tallies))
        return found

    def labels(self, reading: Reading, group: str) -> None:
        """Windows are no words."""

    def tokens(self, group: str) -> Sequence[str]:
        """Windows are no words."""
        return ()


def _queries(seen: Recording, site: str) -> int:
    return seen.source(site).n_queries


def _checked(ids: Sequence[int], vocabulary: Vocabulary, longest: int) -> tuple[int, ...]:
    """Ids of a line of a length that can be run.

    Raises:
        InputError: it is empty or too long.
    """
    if all(vocabulary.tokenizer.is_special(i) for i in ids):
        raise InputError("atlas_line_empty")
    if len(ids) > longest:
        raise InputError("atlas_line_tokens", found=len(ids), most=longest)
    return tuple(ids)


def _observed(maps: Maps, vocabulary: Vocabulary, ids: Tensor, lengths: Sequence[int]) -> Observed:
    """The totals of text; keys past the end of the source, which location attention has, are padding."""
    n_keys = torch.tensor(lengths)
    width = maps.weights.shape[-1]
    if width > ids.shape[1]:
        ids = torch.nn.functional.pad(ids, (0, width - ids.shape[1]))
    real = torch.arange(width) < n_keys[:, None]
    classes, words = vocabulary.classes(ids, real)
    if maps.n_keys.tolist() != list(lengths):
        classes["padding"] = torch.arange(width) == n_keys[:, None]
    keys = TextKeys({name: classes[name] for name in SHARES}, words, vocabulary.rarest(ids, real))
    n_tokens = len(vocabulary.texts)
    return Observed(
        maps, text_totals(maps, keys), {WORDS: word_tally(maps, ids.masked_fill(~real, n_tokens), n_tokens)}
    )

"""Files that someone brings together: weights, perhaps a config, perhaps vocabularies. Nothing here writes to disk."""

import io
import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from transformer.checkpoint.checkpoint import Checkpoint, language_called
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import Recognition, recognise
from transformer.checkpoint.foreign.vocabularies import SENTENCEPIECE, tokenizer_of, with_ids
from transformer.checkpoint.inspect.search import Search, Searching
from transformer.checkpoint.ours.folder import EXAMPLES, task_of
from transformer.checkpoint.weight_files import CONFIG, ENDINGS, HALVES, INDEX_ENDING, LIKE_WEIGHTS, PICKLES, parts_of
from transformer.checkpoint.worker import isolated, vocabularies
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.archives import ARCHIVE_START
from transformer.safe.contents import Contents
from transformer.safe.fingerprints import fingerprint
from transformer.safe.legacy import LEGACY_START
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.refusal import refused
from transformer.text.base import Tokenizer
from transformer.text.vocabulary import SpecialIds

VOCABULARY_ENDINGS = (".model", ".txt", ".vocab", ".json", ".pkl", ".pickle")
"""What files of tokens are called; pickles only to be refused with their remedy."""

SPECIAL_IDS = ("pad_id", "bos_id", "eos_id")
"""Ids that a vocabulary may name, so that they need not be asked for."""

SEARCH_SECONDS = 120.0
"""Seconds of a processor after which a search for answers ends with what it has."""

CONFIG_BYTES = 1024 * 1024
"""The most that a config.json may have: one of ours has a kilobyte."""

_TARGET = re.compile(r"tgt|trg|target|dec(?:oder)?[._-]|(?:^|[._-])(?:out|fr|de)(?:$|[._-])", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Bundle:
    """A checkpoint as it was brought: its weights, and what reads or writes with each vocabulary by its file.

    `fingerprint` is that of the weights, so answers are remembered under it whatever vocabulary stands beside them.
    """

    name: str
    contents: Contents
    n_bytes: int
    fingerprint: str
    vocabularies: Mapping[str, Tokenizer] = field(default_factory=dict)
    limits: ReadLimits = DEFAULT_LIMITS

    def beside(self, files: Mapping[str, BufferedIOBase]) -> "Bundle":
        """The same weights beside more vocabularies, open files by name, or beside these alone where others do not fit.

        Raises:
            CheckpointError: one of them cannot be read, or fits neither source nor target.
        """
        new = {name: read_vocabulary(stream, name, self.limits) for name, stream in files.items()}
        alone = replace(self, vocabularies=new)
        with suppress(CheckpointError):
            both = replace(self, vocabularies={**self.vocabularies, **new})
            both._tokenizers(both.recognised({}).report.config)
            return both
        alone._tokenizers(alone.recognised({}).report.config)
        return alone

    @cached_property
    def special_ids(self) -> dict[str, int]:
        """The special tokens that a vocabulary names; the target's start and end count before the source's."""
        found: dict[str, int] = {}
        for name in sorted(self.vocabularies, key=lambda name: bool(_TARGET.search(name))):
            known = {special: getattr(self.vocabularies[name], special) for special in SPECIAL_IDS}
            found |= {special: i for special, i in known.items() if i >= 0}
        return found

    def recognised(self, answers: Mapping[str, Any]) -> Recognition:
        """What the weights are taken for. Special tokens that a vocabulary names are not asked for.

        Raises:
            CheckpointError: an answer is no possible one, or contradicts the file; or a vocabulary cannot be read.
        """
        first = recognise(self.contents, answers)
        told = self._told(first, answers)
        return recognise(self.contents, {**answers, **told}) if told else first

    def find_answers(
        self, expected: Contents, answers: Mapping[str, Any], on_progress: Callable[[float], None]
    ) -> Search:
        """Try what these `answers` leave open until the model computes what is expected of it.

        `on_progress` hears the share that is done after each run, and may raise.

        Raises:
            CheckpointError: an answer is no possible one.
            InputError: what is expected cannot be compared.
        """
        told = self._told(recognise(self.contents, answers), answers)
        searching = Searching(self.contents, expected, {**answers, **told}, seconds=SEARCH_SECONDS)
        for done in searching:
            on_progress(done)
        return searching.result

    def _told(self, first: Recognition, answers: Mapping[str, Any]) -> dict[str, int]:
        """The special ids that a vocabulary names and a question asks for."""
        asked = {question.name for question in first.report.questions}
        return {name: i for name, i in self.special_ids.items() if name in asked and name not in answers}

    def checkpoint(self, answers: Mapping[str, Any], name: str | None = None) -> Checkpoint:
        """The model, ready to run, with the vocabularies that were brought, or ids instead of tokens.

        Raises:
            CheckpointError: it fits no layout, or a vocabulary fits neither source nor target.
        """
        built = _described(build(self.recognised(answers), name or self.name), self.contents.settings)
        source, target = self._tokenizers(built.model.config)
        if target is None and source is not None and len(source) == getattr(built.model.config, "target_vocab", None):
            return replace(built, tokenizer=source, target_tokenizer=None)  # one vocabulary for both
        written = target or built.target_tokenizer
        return replace(built, tokenizer=source or built.tokenizer, target_tokenizer=written)

    def _tokenizers(self, config: Any) -> tuple[Tokenizer | None, Tokenizer | None]:
        """Which vocabulary reads the source and which writes the target, told by size, then by name."""
        special_ids = SpecialIds(**{name: getattr(config, name, -1) for name in SPECIAL_IDS})
        source_size: int = getattr(config, "source_vocab", 0) or getattr(config, "vocab", 0)
        target_size = getattr(config, "target_vocab", None)
        source: Tokenizer | None = None
        target: Tokenizer | None = None
        by_name = sorted(self.vocabularies, key=lambda name: bool(_TARGET.search(name)))
        for name in by_name:
            vocabulary = self.vocabularies[name]
            count = len(vocabulary)
            aims_at_target = bool(_TARGET.search(name)) and len(self.vocabularies) > 1
            if count == source_size and source is None and not (aims_at_target and target_size):
                source = with_ids(vocabulary, special_ids)
            elif count == target_size and target is None:
                target = with_ids(vocabulary, special_ids)
            else:
                if target_size in {None, source_size}:
                    raise CheckpointError("vocabulary_fits_nothing", name=name, tokens=count, rows=source_size)
                sizes = {"source_rows": source_size, "target_rows": target_size}
                raise CheckpointError("vocabulary_fits_neither", name=name, tokens=count, **sizes)
        return source, target


def _name(weights: Collection[str]) -> str:
    """What a checkpoint is called after its files; shards after what they are shards of."""
    parts = parts_of(weights) or {}
    if len(parts) > 1 and not set(HALVES) <= set(parts):
        return next(iter(parts)).rpartition("-of-")[0].rpartition("-")[0]
    return "-".join(sorted(Path(name).stem for name in weights))


def _described(built: Checkpoint, settings: Mapping[str, Any]) -> Checkpoint:
    """With the languages and the task that a config.json of ours names.

    Raises:
        CheckpointError: the task is none, or one of another model.
    """
    languages = settings.get("languages")
    if isinstance(languages, list) and len(languages) == 2 and all(isinstance(one, str) for one in languages):
        built = replace(built, languages=(language_called(languages[0][:80]), language_called(languages[1][:80])))
    if "task" in settings and ("architecture" in settings or isinstance(settings["task"], dict)):  # no option
        task = task_of(settings["task"], built.model.config, CONFIG, Message("remedy_bring_folder"))
        built = replace(built, task=task)
    return built


def bundle(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Bundle:
    """Sort open files by name: weights (one, or the encoder and decoder of a recurrent pair), config, vocabularies.

    Weights and vocabularies are read in a worker process (see `isolated`).

    Raises:
        CheckpointError: there are no weights or too many, a file is refused, or it is of no use here.
    """
    taken = {*ENDINGS, *LIKE_WEIGHTS}
    weights = {
        name: stream
        for name, stream in files.items()
        if Path(name).suffix.lower() in taken or _saved_by_torch(name, stream)
    }
    if not weights:
        brought = ", ".join(files) or Message("nothing")
        raise CheckpointError("no_weights_brought", files=brought, endings=ENDINGS)
    settings = _config(files[CONFIG]) if CONFIG in files else None
    if settings is not None and "model_type" in settings and "architecture" not in settings:
        raise CheckpointError("config_of_other_library", file=CONFIG)
    contents = isolated.read_files(weights, limits)
    if settings is not None:
        contents = replace(contents, settings={**settings, **contents.settings})
    beside = {name: files[name] for name in files if is_vocabulary(name) and name not in weights}
    lists = {name for name in files if name.endswith(INDEX_ENDING)}
    useless = files.keys() - weights.keys() - beside.keys() - lists - {CONFIG, EXAMPLES}
    if useless:
        raise CheckpointError("file_of_no_use", files=tuple(sorted(useless)), endings=ENDINGS)
    streams = [weights[name] for name in sorted(weights)]
    return Bundle(
        name=_name(weights),
        contents=contents,
        n_bytes=sum(stream.seek(0, io.SEEK_END) for stream in files.values()),
        fingerprint=fingerprint(streams),
        vocabularies={name: read_vocabulary(stream, name, limits) for name, stream in beside.items()},
        limits=limits,
    )


def _saved_by_torch(name: str, stream: BufferedIOBase) -> bool:
    """Whether a file that is called like a pickled vocabulary begins as those of torch.save do."""
    if Path(name).suffix.lower() not in PICKLES:
        return False
    stream.seek(0)
    return stream.read(len(LEGACY_START)).startswith((ARCHIVE_START, LEGACY_START))


def is_vocabulary(name: str) -> bool:
    """Whether a file of this name is taken for a list of tokens."""
    if name.endswith(INDEX_ENDING):
        return False
    return Path(name).suffix.lower() in VOCABULARY_ENDINGS and name not in {CONFIG, EXAMPLES}


def read_vocabulary(stream: BufferedIOBase, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> Tokenizer:
    """A vocabulary, read in a worker process; a SentencePiece model stays there, and cuts texts there.

    Raises:
        CheckpointError: it is too large, no vocabulary, or a pickle.
    """
    length = stream.seek(0, io.SEEK_END)
    if length > limits.vocabulary_bytes:
        raise refused("file_large", name, found=length, most=limits.vocabulary_bytes)
    stream.seek(0)
    data = stream.read()
    if Path(name).suffix == SENTENCEPIECE:
        return vocabularies.sentencepiece(data, name, limits)
    return tokenizer_of(vocabularies.read_tokens(data, name, limits), name)


def _config(stream: BufferedIOBase) -> dict[str, Any]:
    """The table in a config.json."""
    length = stream.seek(0, io.SEEK_END)
    if length > CONFIG_BYTES:
        raise refused("file_large", CONFIG, found=length, most=CONFIG_BYTES)
    stream.seek(0)
    try:
        found = json.loads(stream.read())
    except (ValueError, RecursionError) as error:
        raise refused("no_json", CONFIG, error=type(error).__name__) from error
    if not isinstance(found, dict):
        raise refused("no_table_of_names", CONFIG)
    return found

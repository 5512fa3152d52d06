"""Files that someone brings together: weights, perhaps a config, perhaps vocabularies. Nothing here writes to disk."""

import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...messages import Message
from ...safe.archives import ARCHIVE_START
from ...safe.contents import Contents, fingerprint
from ...safe.limits import DEFAULT_LIMITS, ReadLimits, refused
from ...safe.reading import LEGACY_START
from ...text.base import Tokenizer
from ...text.tokenizers import id_tokenizers
from ..checkpoint import Checkpoint
from ..ours.folder import EXAMPLES, task_of
from ..weight_files import CONFIG, ENDINGS, LIKE_WEIGHTS, PICKLES
from ..worker import isolated, remote_tokenizer
from .recognition import build, recognise
from .report import Report
from .vocabularies import SENTENCEPIECE, SPECIAL_IDS, tokenizer_of, with_ids

VOCABULARY_ENDINGS = (".model", ".txt", ".vocab", ".json", ".pkl", ".pickle")
"""What files of tokens are called; pickles only to be refused with their remedy."""

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
            both._tokenizers(both.recognised({}).config)
            return both
        alone._tokenizers(alone.recognised({}).config)
        return alone

    @cached_property
    def special_ids(self) -> dict[str, int]:
        """The special tokens that a vocabulary names; the target's start and end count before the source's."""
        found: dict[str, int] = {}
        for _, vocabulary in self._by_side:
            known = {special: getattr(vocabulary, special) for special in SPECIAL_IDS}
            found |= {special: i for special, i in known.items() if i >= 0}
        return found

    @property
    def _by_side(self) -> list[tuple[str, Tokenizer]]:
        """The vocabularies by name; those last that are called after a target."""
        return sorted(self.vocabularies.items(), key=lambda one: bool(_TARGET.search(one[0])))

    def recognised(self, answers: Mapping[str, Any]) -> Report:
        """What the weights are taken for. Special tokens that a vocabulary names are not asked for.

        Raises:
            CheckpointError: an answer is no possible one, or contradicts the file; or a vocabulary cannot be read.
        """
        first = recognise(self.contents, answers)
        asked = {question.name for question in first.questions} - answers.keys()
        named = {name: i for name, i in self.special_ids.items() if name in asked}
        return recognise(self.contents, {**answers, **named}) if named else first

    def checkpoint(self, answers: Mapping[str, Any], name: str | None = None) -> Checkpoint:
        """The model, ready to run, with the vocabularies that were brought, or ids instead of tokens.

        Raises:
            CheckpointError: it fits no layout, a vocabulary fits neither source nor target, or the task is another
                model's.
        """
        built = build(self.contents, self.recognised(answers), name or self.name)
        if isinstance(task := self.contents.settings.get("task"), dict):  # of a config.json; else it is an option
            built = replace(built, task=task_of(task, built.model.config, CONFIG))
        source, target = self._tokenizers(built.model.config)
        if target is None and source is not None and built.writer is not None and len(source) == len(built.writer):
            return replace(built, tokenizer=source, target_tokenizer=None)  # one vocabulary for both
        written = target or built.target_tokenizer
        return replace(built, tokenizer=source or built.tokenizer, target_tokenizer=written)

    def _tokenizers(self, config: Any) -> tuple[Tokenizer | None, Tokenizer | None]:
        """Which vocabulary reads the source and which writes the target, told by size, then by name."""
        reader, writer = id_tokenizers(config)
        sizes = len(reader), None if writer is None else len(writer)
        source = target = None
        for name, vocabulary in self._by_side:
            of_source, of_target = (len(vocabulary) == size for size in sizes)
            is_for_target = writer is not None and bool(_TARGET.search(name)) and len(self.vocabularies) > 1
            if of_source and source is None and not is_for_target:
                source = with_ids(vocabulary, reader.special_ids)
            elif writer is not None and of_target and target is None:
                target = with_ids(vocabulary, writer.special_ids)
            elif sizes[1] in {None, sizes[0]}:
                raise CheckpointError("vocabulary_fits_nothing", name=name, tokens=len(vocabulary), rows=sizes[0])
            else:
                rows = {"source_rows": sizes[0], "target_rows": sizes[1]}
                raise CheckpointError("vocabulary_fits_neither", name=name, tokens=len(vocabulary), **rows)
        return source, target


def bundle(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Bundle:
    """Sort open files by name: weights (one, or the encoder and decoder of a recurrent pair), config, vocabularies.

    Weights and vocabularies are read in a worker process (see `isolated`).

    Raises:
        CheckpointError: there are no weights or too many, a file is refused, or it is of no use here.
    """
    taken = {*ENDINGS, *LIKE_WEIGHTS}
    weights = {one: file for one, file in files.items() if Path(one).suffix.lower() in taken or _is_pickled(one, file)}
    if not weights:
        brought = ", ".join(files) or Message("nothing")
        raise CheckpointError("no_weights_brought", files=brought, endings=ENDINGS)
    settings = _config(files[CONFIG]) if CONFIG in files else {}
    contents = isolated.read_files(weights, limits)
    contents = replace(contents, settings={**settings, **contents.settings})
    beside = {name: files[name] for name in files if is_vocabulary(name) and name not in weights}
    useless = files.keys() - weights.keys() - beside.keys() - {CONFIG, EXAMPLES}
    if useless:
        raise CheckpointError("file_of_no_use", files=tuple(sorted(useless)), endings=ENDINGS)
    return Bundle(
        name="-".join(sorted(Path(name).stem for name in weights)),
        contents=contents,
        fingerprint=fingerprint(weights[name] for name in sorted(weights)),
        vocabularies={name: read_vocabulary(stream, name, limits) for name, stream in beside.items()},
        limits=limits,
    )


def _is_pickled(name: str, stream: BufferedIOBase) -> bool:
    """Whether a file that is called like a pickled vocabulary begins as those of torch.save do."""
    if Path(name).suffix.lower() not in PICKLES:
        return False
    stream.seek(0)
    return stream.read(len(LEGACY_START)).startswith((ARCHIVE_START, LEGACY_START))


def is_vocabulary(name: str) -> bool:
    """Whether a file of this name is taken for a list of tokens."""
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
        return remote_tokenizer.sentencepiece(data, name)
    return tokenizer_of(remote_tokenizer.read_tokens(data, name, limits), name)


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

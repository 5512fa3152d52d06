"""What a worker process does with an untrusted file. Each job yields tables and blocks of bytes (see `wire_format`)."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformer.attention.record_files.reading import read as read_contents
from transformer.attention.record_files.writing import blocks as record_blocks
from transformer.checkpoint.foreign.vocabularies import parse_sentencepiece, read_tokens
from transformer.checkpoint.load import load, read, read_folder_tokenizer, read_uploads
from transformer.checkpoint.worker import trial, wire_format
from transformer.checkpoint.worker.tokenizer_facts import About
from transformer.errors import InputError
from transformer.safe import arrays
from transformer.safe.contents import Contents
from transformer.safe.limits import ReadLimits
from transformer.safe.zips import zip_bytes, zip_entries
from transformer.text.base import Tokenizer

Part = tuple[dict[str, Any], Sequence[memoryview | bytes]]
"""A table and its blocks."""

Answerer = Callable[[Mapping[str, Any]], dict[str, Any]]
"""What answers requests about what is kept."""

PROBES = (
    "a",
    "A man is riding a bicycle.",
    "Zwei Männer, 12 Fahrräder!",
    "你好 世界",
    "😀\u200d👩 \t\n<s></s>▁##Ġ",
    "x" * 200,
)
"""Texts that a tokenizer must survive before the server loads it."""

PROBED_IDS = 1_000
"""So many of a vocabulary's first and last ids are written as labels."""


def read_files(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:
    """The tensors of uploads (`names`, their bytes as blocks), or of the file or folder at `path`."""
    limits = ReadLimits(**request["limits"])
    if "path" in request:
        found = read(Path(request["path"]), limits)
    else:
        streams = {name: io.BytesIO(block) for name, block in zip(request["names"], blocks, strict=True)}
        blocks.clear()
        found = read_uploads(streams, limits)
    yield from _packed(found)


def read_arrays(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:
    """The arrays of the file called `name`, to compare with."""
    stream = io.BytesIO(blocks.pop())
    yield from _packed(arrays.read_arrays(stream, request["name"], ReadLimits(**request["limits"])))


def read_vocabulary(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:
    """The tokens of the list called `name`, as JSON."""
    tokens = read_tokens(bytes(blocks[0]), request["name"], ReadLimits(**request["limits"]))
    yield {"tokens": len(tokens)}, [json.dumps(tokens).encode()]


def read_record(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:
    """The record in the file called `name`, written anew from what was read of it: the server meets only that."""
    stream = io.BytesIO(blocks.pop())
    found = read_contents(stream, request["name"], ReadLimits(**request["limits"]))
    yield {}, list(record_blocks(found))


def unzip(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:
    """The files of a model's folder in a ZIP called `name`, one after the other; before them how large they are."""
    stream, size = io.BytesIO(blocks[0]), len(blocks.pop())
    source = request["name"]
    entries = zip_entries(stream, size, source, ReadLimits(**request["limits"]))
    yield {"bytes": sum(entry.n_bytes for entry in entries)}, []
    for entry in entries:
        yield {"name": entry.name}, [b"".join(zip_bytes(stream, entry, source))]


def try_folder(request: Mapping[str, Any], blocks: list[bytearray]) -> Iterator[Part]:  # noqa: ARG001  (as the others)
    """Load the folder at `path` and run its model once. Its tokenizers are tried where they are kept."""
    limits = ReadLimits(**request["limits"])
    yield trial.measured(lambda: load(Path(request["path"]), limits=limits))[1], []


JOBS: dict[str, Callable[[Mapping[str, Any], list[bytearray]], Iterator[Part]]] = {
    "read": read_files,
    "arrays": read_arrays,
    "vocabulary": read_vocabulary,
    "folder": try_folder,
    "unzip": unzip,
    "record": read_record,
}
"""Every job by name."""


def keep_tokenizer(request: Mapping[str, Any], blocks: list[bytearray]) -> tuple[dict[str, Any], Answerer]:
    """Keep the tokenizer of the folder or file at `path`, or in the bytes of the file called `name`, once it was tried.

    Each request names a `side`, a `call` of the tokenizer and its `value`.
    """
    if "path" in request:
        path = Path(request["path"])
        name, found = path.name, read_folder_tokenizer(path)
    else:
        name = request["name"]
        found = parse_sentencepiece(bytes(blocks[0]), name, ReadLimits(**request["limits"]))
    sides = {"source": found, "target": found.as_target()}
    for tokenizer in sides.values():
        probe(tokenizer)

    def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
        call = getattr(sides[asked["side"]], asked["call"])
        return {"found": call(asked["value"])}

    return {side: About.of(tokenizer).packed() for side, tokenizer in sides.items()}, answer


KEEPERS: dict[str, Callable[[Mapping[str, Any], list[bytearray]], tuple[dict[str, Any], Answerer]]] = {
    "tokenizer": keep_tokenizer,
}
"""What a worker may keep, by name: it answers what was kept in a few words, and then requests."""


def probe(tokenizer: Tokenizer) -> None:
    """Use every way into a tokenizer, so that one that fails does so here. A refused text is no failure."""
    count = len(tokenizer)
    ids = [*range(min(count, PROBED_IDS)), *range(max(0, count - PROBED_IDS), count)]
    tokenizer.labels(ids)
    tokenizer.decode(ids)
    for text in PROBES:
        with suppress(InputError):
            tokenizer.pieces(text)
            tokenizer.target_ids(text)
            tokenizer.decode(tokenizer.source_ids(text))


def _packed(found: Contents) -> Iterator[Part]:
    described, memory = wire_format.packed(found.tensors)
    about = {"source": found.source, "place": found.place, "format": found.format, "settings": dict(found.settings)}
    about["dropped"], about["others"] = list(found.dropped), list(found.others)
    about["vocabularies"] = {name: list(tokens) for name, tokens in found.vocabularies.items()}
    yield {**about, "tensors": described}, memory

"""Vocabularies and tokenizers of untrusted files: lists of tokens come here, whatever cuts texts stays in a worker."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformer.checkpoint.foreign.vocabularies import MOST_TOKENS
from transformer.checkpoint.huggingface.folder import VOCABULARIES
from transformer.checkpoint.worker import jobs
from transformer.checkpoint.worker.answers import answers_of, garbled, only
from transformer.checkpoint.worker.pool import POSSIBLE, Budget
from transformer.checkpoint.worker.remote_tokenizer import RemoteTokenizer, started
from transformer.checkpoint.worker.resident import Here, Resident
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.safe.limits import DEFAULT_LIMITS, MEGABYTE, ReadLimits

LIBRARY_MEMORY, SECONDS = 1024 * MEGABYTE, 4
"""The floor of what reading a tokenizer of the transformers library may take; its seconds are those of any tokenizer,
which has one more for each megabyte."""

JSON_GROWTH, FRAME_BYTES = 6, 1024
"""How many times as long as in its file a token may be as JSON (\\u0001), and what an empty list takes."""


def read_tokens(data: bytes, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> list[str]:
    """As `vocabularies.read_tokens`.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    request = {"name": name, "limits": asdict(limits)}
    most = len(data) * JSON_GROWTH + FRAME_BYTES
    answer = only(answers_of("vocabulary", name, request, [data], budget=Budget.of(len(data)), most_bytes=most), name)
    try:
        tokens = json.loads(b"".join(answer.blocks))
    except (ValueError, RecursionError) as error:
        raise garbled(name, GarbledError("no list of tokens")) from error
    if not isinstance(tokens, list) or not 0 < len(tokens) <= MOST_TOKENS:
        raise garbled(name, GarbledError("no list of tokens"))
    if not all(isinstance(token, str) and 0 < len(token) <= limits.name_characters for token in tokens):
        raise garbled(name, GarbledError("no list of tokens"))
    return tokens


def sentencepiece(data: bytes, name: str, limits: ReadLimits = DEFAULT_LIMITS) -> RemoteTokenizer:
    """The SentencePiece model in the bytes of a file.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    request = {"name": name, "limits": asdict(limits)}
    return _kept("tokenizer", name, request, [data], budget=_budget(len(data)))


def folder_tokenizer(path: Path) -> RemoteTokenizer:
    """The tokenizer at a path: a file of SentencePiece, or a folder of the transformers library.

    Raises:
        CheckpointError: it is refused, or takes too much memory or time.
    """
    request = {"path": str(path.resolve())}
    if path.is_file():
        name = f"{path.parent.name}/{path.name}"
        return _kept("tokenizer", name, request, budget=_budget(path.stat().st_size))
    size = sum(file.stat().st_size for name in VOCABULARIES if (file := path / name).is_file())
    budget = _budget(size, floor_bytes=LIBRARY_MEMORY)
    return _kept("tokenizer", path.name, request, budget=budget, other_library=True)


def _budget(n_bytes: int, **floor: int) -> Budget:
    return Budget.of(n_bytes, floor_seconds=SECONDS + n_bytes // MEGABYTE, **floor)


def _kept(
    keeper: str,
    source: str,
    request: Mapping[str, Any],
    blocks: Sequence[bytes] = (),
    *,
    budget: Budget,
    other_library: bool = False,
) -> RemoteTokenizer:
    """A tokenizer that stays in a worker where the system has them, else here."""
    if POSSIBLE:
        return started(Resident(keeper, source, request, blocks, budget=budget, other_library=other_library))
    about, answer = jobs.KEEPERS[keeper](request, [bytearray(block) for block in blocks])
    return started(Here(source, about, answer))

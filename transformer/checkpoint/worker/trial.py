"""What a model costs: it is built and run once where that is bounded, before the server does either.

A few kilobytes can ask for a lot (layers that share their weights, tables that are computed), so a file's size tells
little. A worker measures (`measured`), the server checks the numbers and refuses what is too slow (`Trial`).
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transformer.attention.capture import recording
from transformer.checkpoint.checkpoint import ARCHITECTURES, HUGGING_FACE, Checkpoint
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.errors import HeedmapError
from transformer.messages import Message
from transformer.nn.search import DecodingOptions, decode
from transformer.safe.limits import MEGABYTE
from transformer.safe.refusal import refused

KNOWN_ARCHITECTURES = {*ARCHITECTURES, *(f"{HUGGING_FACE}{kind}" for kind in ("seq2seq", "decoder", "encoder"))}

READ, WRITTEN = 32, 8
"""Tokens of the short text that is read, and tokens that an encoder-decoder writes for it."""

LOAD_SECONDS, RUN_SECONDS = 3.0, 1.0
"""Seconds of a processor for building a model, and for its run over the short text."""

MEGABYTES_A_SECOND = 20
"""Both may take a second more for so many megabytes of files."""

USUAL_GROWTH = 128 * MEGABYTE
"""How much a worker may grow without counting: the code of a family, and what is let go of while it loads."""

MOST_HELD = 2.0**45
"""No process holds more bytes: the answer of a worker that says so is not understood."""


@dataclass(frozen=True)
class Trial:
    """What building and running a checkpoint once took: seconds of a processor, and the bytes that it then held."""

    architecture: str
    load_seconds: float
    run_seconds: float
    held_bytes: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Trial":
        """What a worker told.

        Raises:
            GarbledError: it is none of what `measured` says.
        """
        architecture = told.get("architecture")
        if not isinstance(architecture, str) or architecture not in KNOWN_ARCHITECTURES:
            raise GarbledError("no known architecture")
        load, run = (_number(told.get(name), float, math.inf) for name in ("load_seconds", "run_seconds"))
        weights, grown = (_number(told.get(name), int, MOST_HELD) for name in ("weight_bytes", "grown_bytes"))
        return cls(architecture, load, run, max(weights, grown - USUAL_GROWTH))

    def check(self, source: str, n_bytes: int) -> None:
        """Refuse what the server should not do, for a checkpoint of `n_bytes` of files.

        Raises:
            CheckpointError: building it, or its run over a short text, took too long.
        """
        spare = n_bytes / (MEGABYTES_A_SECOND * MEGABYTE)
        remedy = Message("remedy_smaller_model")
        if self.load_seconds > LOAD_SECONDS + spare:
            raise refused("trial_load", source, remedy, seconds=self.load_seconds, most=LOAD_SECONDS + spare)
        if self.run_seconds > RUN_SECONDS + spare:
            raise refused("trial_run", source, remedy, seconds=self.run_seconds, most=RUN_SECONDS + spare)


def measured(load: Callable[[], Checkpoint]) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint, once it was loaded and run, and what both took, as `Trial.of` reads it."""
    grown, start = _own_bytes(), time.process_time()
    found = load()
    built = time.process_time()
    run_once(found)
    done = time.process_time()
    tensors = (*found.model.parameters(), *found.model.buffers())
    return found, {
        "architecture": found.architecture,
        "load_seconds": built - start,
        "run_seconds": done - built,
        "weight_bytes": sum({one.data_ptr(): one.nbytes for one in tensors}.values()),
        "grown_bytes": max(0, _own_bytes() - grown),
    }


def run_once(found: Checkpoint) -> None:
    """Run a checkpoint over a short text of ordinary tokens, recorded as the dashboard's runs are.

    An encoder-decoder also writes a few tokens first. A text that the model refuses is no failure.
    """
    model: Any = found.model
    with suppress(HeedmapError), torch.inference_mode(), recording():
        ids = torch.tensor([_ordinary_ids(model.config)])
        if found.translates:
            written = decode(model, ids, DecodingOptions(beam=1, max_length=WRITTEN))[0].ids
            model(ids, torch.tensor([[model.config.bos_id, *written[:-1]]]))
        else:
            model.outputs(ids)


def _number(told: Any, kind: type, most: float) -> Any:
    is_kind = type(told) is kind  # a bool is an int to isinstance
    if not is_kind or not 0 <= told < most:
        raise GarbledError("no numbers of a trial")
    return told


def _ordinary_ids(config: Any) -> list[int]:
    """Ids that stand for no padding and no mark, as many as the model has positions for, `READ` at most."""
    vocab = getattr(config, "source_vocab", None) or config.vocab
    marks = {getattr(config, name, -1) for name in ("pad_id", "bos_id", "eos_id")}
    some = [i for i in range(min(vocab, READ + len(marks))) if i not in marks] or [0]
    return [some[i % len(some)] for i in range(max(1, min(READ, config.max_length - 1)))]


def _own_bytes() -> int:
    """Memory that is this process's alone, so that files and shared pages do not count; 0 where nothing tells."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

"""Read mutated files, each in a process of its own with little memory and time: `python -m tests.safe.fuzz`.

Every file must be refused in a sentence that names it and says why, or be read correctly: as `torch.load` and
safetensors read what was accepted here, byte for byte; and a file of zeros gives zeros.
"""

import argparse
import io
import os
import signal
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from tests.checkpoint.forked import in_a_process
from tests.safe.mutated_files import Mutant, Mutants
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.inspect.tensors import inspect_contents
from transformer.errors import CheckpointError, HeedmapError
from transformer.safe.contents import Contents
from transformer.safe.reading import read_stream

SECONDS = 20
NAME = "mutated.pt"

REPORTED = 1000
"""Files after which the counts so far are written."""

BAD = "bad"
REFUSED, READ, ONLY_OURS = "refused", "read as others read it", "read, but refused by the other reader"


@dataclass(frozen=True)
class Outcome:
    """What became of one file: one of the good ends, or a sentence about a bad one."""

    mutant: Mutant
    end: str

    @property
    def is_good(self) -> bool:
        """Whether it was refused or read correctly."""
        return self.end in {REFUSED, READ, ONLY_OURS}


def tried(mutant: Mutant) -> Outcome:
    """Read one file in a process of its own."""
    status, said = in_a_process(lambda: examined(mutant).encode(), SECONDS)
    if os.WIFSIGNALED(status):
        return Outcome(mutant, f"ended by signal {signal.Signals(os.WTERMSIG(status)).name}")
    return Outcome(mutant, said.decode(errors="replace"))


def examined(mutant: Mutant) -> str:
    """A good end.

    Raises:
        AssertionError: it was read otherwise than others read it, or refused without saying why.
    """
    try:
        contents = read_stream(io.BytesIO(mutant.data), NAME)
    except CheckpointError as error:
        message = str(error)
        assert message.startswith(f"{NAME} is refused: "), message
        assert "Remedy: " in message, message
        assert len(message) < 800, message
        message.encode()
        return REFUSED
    for name, tensor in contents.tensors.items():
        assert not mutant.holds_zeros or not bool(tensor.any()), f"{name} holds what the file does not"
    inspect_contents(contents, len(mutant.data)).text.encode()
    with suppress(HeedmapError):  # it is no model that is known; what is told of that is tested elsewhere
        recognise(contents, {})
    others = _others(mutant, contents)
    if others is None:
        return ONLY_OURS
    assert others.keys() == contents.tensors.keys()
    for name, tensor in others.items():
        ours = contents.tensors[name]
        assert (ours.shape, ours.dtype) == (tensor.shape, tensor.dtype), name
        assert _raw(ours) == _raw(tensor), f"{name} is read otherwise"
    return READ


def _others(mutant: Mutant, contents: Contents) -> dict[str, Tensor] | None:
    """What torch or safetensors read from a file that was accepted; None if they refuse it."""
    if mutant.file_format == "safetensors":
        try:
            found = safetensors.torch.load(mutant.data)
        except safetensors.SafetensorError:
            return None
        return {name: found.get(name, contents.tensors[name]) for name in contents.tensors}
    try:
        with torch.serialization.safe_globals([Namespace]):
            root: Any = torch.load(io.BytesIO(mutant.data), weights_only=True)
    except (UnpicklingError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError):
        return None
    for part in contents.place.split(".") if contents.place else ():
        root = root[part]
    if not any(isinstance(value, Tensor) for value in root.values()):  # an encoder and a decoder
        root = {f"{half}.{name}": tensor for half in ("encoder", "decoder") for name, tensor in root[half].items()}
    return {name: tensor.detach() for name, tensor in root.items() if name in contents.tensors}


def _raw(tensor: Tensor) -> bytes:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).numpy().tobytes()


def outcomes(first: int, count: int) -> Iterator[Outcome]:
    """What becomes of so many mutants, from the first on."""
    mutants = Mutants()
    return (tried(mutants.number(index)) for index in range(first, first + count))


def main(arguments: list[str] | None = None) -> int:
    """Count the ends of `--files` mutants; 1 if one of them is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000, help="how many files are made and read")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    counts: Counter[tuple[str, str]] = Counter()
    start = time.monotonic()
    for done, outcome in enumerate(outcomes(given.first, given.files), 1):
        counts[outcome.mutant.file_format, outcome.end if outcome.is_good else BAD] += 1
        if not outcome.is_good:
            mutant = outcome.mutant
            sys.stdout.write(f"{given.first + done - 1} ({mutant.file_format}, {mutant.change}): {outcome.end}\n")
        if done % REPORTED == 0 or done == given.files:
            ends = (f"{count:,} {end} ({file_format})" for (file_format, end), count in sorted(counts.items()))
            sys.stdout.write("\n".join(["", *ends]))
            bad = sum(count for (_, end), count in counts.items() if end == BAD)
            sys.stdout.write(f"\n{done:,} files, {bad} bad, {time.monotonic() - start:.0f} s\n")
            sys.stdout.flush()
    return 1 if any(end == BAD for _, end in counts) else 0


if __name__ == "__main__":
    sys.exit(main())

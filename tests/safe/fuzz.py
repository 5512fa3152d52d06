"""Read mutated files, each in a process of its own with little memory and time: `python -m tests.safe.fuzz`.

Of every format something is changed: bytes, steps of a pickle, fields of an archive, values of a header. Every file
must be refused in a sentence that names it and says why, or be read correctly: as `torch.load` and safetensors read
what was accepted here, byte for byte; and a file of zeros gives zeros.
"""

import io
import pickletools
import struct
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pickle import UnpicklingError
from random import Random
from typing import Any

import safetensors.torch
import torch
from safetensors.torch import save
from torch import Tensor

from heedmap.checkpoint.foreign.recognition import recognise
from heedmap.checkpoint.inspect import inspect_contents
from heedmap.errors import CheckpointError, HeedmapError
from heedmap.safe.contents import Contents
from heedmap.safe.reading import read_stream
from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import encoder_only
from tests.fuzzing import count_ends, damaged, flipped, moved, other_header, tried
from tests.safe.archives import LIES, Part, parts_of, zipped
from tests.safe.hostile import STRANGE_JSON, STRANGE_OBJECTS, saved

NAME = "mutated.pt"
REFUSED, READ, ONLY_OURS = GOOD = "refused", "read as others read it", "read, but refused by the other reader"


def examined(base: str, data: bytes) -> str:
    """A good end.

    Raises:
        AssertionError: it was read otherwise than others read it, or refused without saying why.
    """
    try:
        contents = read_stream(io.BytesIO(data), NAME)
    except CheckpointError as error:
        message = str(error)
        assert message.startswith(f"{NAME} is refused: "), message
        assert "Remedy: " in message, message
        assert len(message) < 800, message
        message.encode()
        return REFUSED
    for name, tensor in contents.tensors.items():
        assert base != ZEROS or not bool(tensor.any()), f"{name} holds what the file does not"
    inspect_contents(contents, len(data)).text.encode()
    with suppress(HeedmapError):  # it is no model that is known; what is told of that is tested elsewhere
        recognise(contents, {})
    others = _others(base, data, contents)
    if others is None:
        return ONLY_OURS
    assert others.keys() == contents.tensors.keys()
    for name, tensor in others.items():
        ours = contents.tensors[name]
        assert (ours.shape, ours.dtype) == (tensor.shape, tensor.dtype), name
        assert _raw(ours) == _raw(tensor), f"{name} is read otherwise"
    return READ


def _others(base: str, data: bytes, contents: Contents) -> dict[str, Tensor] | None:
    """What torch or safetensors read from a file that was accepted; None if they refuse it."""
    if base == "safetensors":
        try:
            found = safetensors.torch.load(data)
        except safetensors.SafetensorError:
            return None
        return {name: found.get(name, contents.tensors[name]) for name in contents.tensors}
    try:
        with torch.serialization.safe_globals([Namespace]):
            root: Any = torch.load(io.BytesIO(data), weights_only=True)
    except (UnpicklingError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError):
        return None
    for part in contents.place.split(".") if contents.place else ():
        root = root[part]
    if not any(isinstance(value, Tensor) for value in root.values()):  # an encoder and a decoder
        root = {f"{half}.{name}": tensor for half in ("encoder", "decoder") for name, tensor in root[half].items()}
    return {name: tensor.detach() for name, tensor in root.items() if name in contents.tensors}


def _raw(tensor: Tensor) -> bytes:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).numpy().tobytes()


ZEROS = "archive of zeros"
"""The file whose mutants can only hold zeros."""


@cache
def _bases() -> dict[str, bytes]:
    torch.manual_seed(0)
    weights = scramble(encoder_only(5, 1, 4, 2, 3)).state_dict()
    views = {"whole": torch.arange(24.0).reshape(4, 6), "flags": torch.tensor([True, False]), "none": torch.ones(0)}
    views |= {"turned": views["whole"].T, "tied": views["whole"], "half": views["whole"][1:3, ::2].half()}
    kept = {"epoch": 3, "settings": Namespace(n_head=2, name="x"), "model": weights, "views": views}
    zeros = {"a": torch.zeros(40, 25), "b": {"c": torch.zeros(7, dtype=torch.int64)}, "d": torch.zeros(300)}
    return {
        "archive": saved(kept),
        "archive of views": saved(views),
        ZEROS: saved(zeros),
        "old": saved(kept, _use_new_zipfile_serialization=False),
        "old views": saved(views, _use_new_zipfile_serialization=False),
        "safetensors": save(weights, {"format": "pt", "other": "encoder.layers.0.norm1.weight"}),
    }


def outcome(number: int) -> tuple[str, str]:
    """Of which file the mutant of this number is and how it was changed, and what became of it."""
    draw = Random(number)
    base = draw.choice(list(_bases()))
    changes: list[Callable[[Random, bytes], bytes]] = [damaged, damaged, moved]
    if base == ZEROS:
        changes = [_fields, _end_bytes, _pickle_steps]
    elif base.startswith("archive"):
        changes += [_fields, _fields, _pickle_bytes, _pickle_steps, _pickle_steps, _block_bytes]
    elif base.startswith("old"):
        changes += [_old_steps, _old_steps]
    else:
        changes += [_values, _values, _header_bytes]
    change = draw.choice(changes)
    data = change(draw, _bases()[base])
    return f"{base}, {change.__name__.strip('_')}", tried(lambda: examined(base, data))


def _end_bytes(draw: Random, data: bytes) -> bytes:
    """Only the table of contents is changed, so what the blocks hold is known."""
    start = data.index(b"PK\x01\x02")
    return data[:start] + flipped(draw, data[start:])


def _fields(draw: Random, data: bytes) -> bytes:
    """One to three fields of an archive's entries are lies, of the kinds that are known or of any kind."""
    parts = parts_of(data)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(parts))
        change, _reason = draw.choice(list(LIES.values()))
        if draw.random() < 0.5:
            name = draw.choice(["flags", "outside", "inside", "method", "local_flags", "checksum", "n_bytes"])
            change = {name: draw.choice([0, 1, 2, 8, 16, 32, 0x800, 0x808, 0xFFFF, draw.randrange(2**16)])}
        if draw.random() < 0.2:
            change = {"name": draw.choice(parts).name}
        parts[place] = replace(parts[place], **change)
    if draw.random() < 0.2:
        draw.shuffle(parts)
    if draw.random() < 0.2:
        parts.append(Part("archive/extra/more", bytes(40), outside=draw.choice([0, 0x10])))
    return zipped(parts, large_end=draw.random() < 0.8)


def _pickle_bytes(draw: Random, data: bytes) -> bytes:
    return _repacked(data, "data.pkl", lambda program: flipped(draw, program))


def _block_bytes(draw: Random, data: bytes) -> bytes:
    """Other numbers, with the checksum that belongs to them; sometimes a byte more or less."""
    key = draw.choice([part.name for part in parts_of(data) if "/data/" in part.name and part.data])
    return _repacked(data, key, lambda block: flipped(draw, block)[: len(block) - draw.choice([0, 0, 0, 1])])


def _pickle_steps(draw: Random, data: bytes) -> bytes:
    return _repacked(data, "data.pkl", lambda program: _steps(draw, program))


def _repacked(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    return zipped(
        replace(part, data=change(part.data)) if part.name.endswith(name) else part for part in parts_of(data)
    )


def _steps(draw: Random, program: bytes) -> bytes:
    """Steps of a pickle are replaced by objects that do not belong there, or by other steps; or moved, or left out."""
    places = [place for _, _, place in pickletools.genops(program)] + [len(program)]
    steps = [program[a:b] for a, b in pairwise(places)]
    if draw.random() < 0.5:
        return b"".join(_other_numbers(draw, steps))
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(1, max(2, len(steps) - 1))
        way = draw.random()
        if way < 0.4:
            steps[at : at + 1] = [draw.choice(list(STRANGE_OBJECTS.values()))]
        elif way < 0.6:
            steps[at : at + 1] = [draw.choice(steps[1:])]
        elif way < 0.7:
            steps[at:at] = [draw.choice(steps[1:])]
        elif way < 0.8:
            del steps[at]
        elif way < 0.9:
            number = draw.choice([0, 1, 2, 5, 23, 24, 25, 2**16 - 1])
            steps[at : at + 1] = [b"M" + struct.pack("<H", number)]
        else:
            other = draw.randrange(1, len(steps))
            steps[at], steps[other] = steps[other], steps[at]
    return b"".join(steps)


def _other_numbers(draw: Random, steps: list[bytes]) -> list[bytes]:
    """One or two of the small numbers (shapes, strides, starts) are others; many of these files can be read."""
    numbers = [at for at, step in enumerate(steps) if step[:1] == b"K"]
    for at in draw.sample(numbers, min(len(numbers), draw.randint(1, 2))):
        value = steps[at][1]
        steps[at] = bytes([*b"K", draw.choice([0, 1, 2, max(0, value - 1), value + 1 & 255, value // 2])])
    return steps


def _old_steps(draw: Random, data: bytes) -> bytes:
    """As `_steps`, in one of the pickles of the old format."""
    stream = io.BytesIO(data)
    ends = [0]
    for _ in range(5):
        for _step in pickletools.genops(stream):
            pass
        ends.append(stream.tell())
    which = draw.choice([1, 2, 3, 3, 4, 4])
    a, b = ends[which], ends[which + 1]
    return data[:a] + _steps(draw, data[a:b]) + data[b:]


def _header_bytes(draw: Random, data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = flipped(draw, data[8 : 8 + length])
    return data[:8] + header + data[8 + length :]


def _values(draw: Random, data: bytes) -> bytes:
    return other_header(draw, data, STRANGE_JSON)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(count_ends(__doc__, outcome, GOOD))

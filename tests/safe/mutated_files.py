"""Files of every format with something changed: bytes, steps of a pickle, fields of an archive, values of a header."""

import io
import json
import pickletools
import random
import struct
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from safetensors.torch import save

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import EncoderOnly
from tests.safe.hostile import saved
from tests.safe.hostile_archives import LIES
from tests.safe.hostile_archives import STRANGE as STRANGE_JSON
from tests.safe.hostile_programs import STRANGE as STRANGE_OBJECTS
from tests.safe.zips import Part, parts_of, zipped


@dataclass(frozen=True)
class Mutant:
    """A changed file: of which format, how it was changed, and whether it can only hold zeros."""

    file_format: str
    change: str
    data: bytes
    holds_zeros: bool = False


class Mutants:
    """Any number of mutants; the n-th is always the same."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        weights = scramble(EncoderOnly(5, 1, 4, 2, 3)).state_dict()
        views = {"whole": torch.arange(24.0).reshape(4, 6), "flags": torch.tensor([True, False]), "none": torch.ones(0)}
        views |= {"turned": views["whole"].T, "tied": views["whole"], "half": views["whole"][1:3, ::2].half()}
        kept = {"epoch": 3, "settings": Namespace(n_head=2, name="x"), "model": weights, "views": views}
        zeros = {"a": torch.zeros(40, 25), "b": {"c": torch.zeros(7, dtype=torch.int64)}, "d": torch.zeros(300)}
        self._bases = {
            "archive": saved(kept),
            "archive of views": saved(views),
            "archive of zeros": saved(zeros),
            "old": saved(kept, _use_new_zipfile_serialization=False),
            "old views": saved(views, _use_new_zipfile_serialization=False),
            "safetensors": save(weights, {"format": "pt", "other": "encoder.layers.0.norm1.weight"}),
        }

    def number(self, index: int) -> Mutant:
        """The mutant of this number."""
        chance = random.Random(index)
        base = chance.choice(list(self._bases))
        changes: list[Callable[[random.Random, bytes], bytes]] = [_bytes, _first_bytes, _parts_moved]
        if base.startswith("archive"):
            changes += [_fields, _fields, _pickle_bytes, _pickle_steps, _pickle_steps, _block_bytes]
        elif base.startswith("old"):
            changes += [_old_steps, _old_steps]
        else:
            changes += [_values, _values, _header_bytes]
        change = chance.choice(changes)
        if base == "archive of zeros":
            change = chance.choice([_fields, _end_bytes, _pickle_steps])
        data = change(chance, self._bases[base])
        return Mutant(base, change.__name__.strip("_"), data, holds_zeros=base == "archive of zeros")


def _bytes(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        changed[chance.randrange(len(data))] = chance.choice([0, 1, 0x10, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    return bytes(changed)


def _first_bytes(chance: random.Random, data: bytes) -> bytes:
    return _bytes(chance, data[:1500]) + data[1500:]


def _end_bytes(chance: random.Random, data: bytes) -> bytes:
    """Only the table of contents is changed, so what the blocks hold is known."""
    start = data.index(b"PK\x01\x02")
    return data[:start] + _bytes(chance, data[start:])


def _parts_moved(chance: random.Random, data: bytes) -> bytes:
    a, b = chance.randrange(len(data)), chance.randrange(len(data))
    part = data[a : a + chance.randint(1, 300)]
    rest = data if chance.random() < 0.5 else data[:a] + data[a + len(part) :]
    return rest[:b] + part + rest[b:] if chance.random() < 0.7 else rest[:b]


def _fields(chance: random.Random, data: bytes) -> bytes:
    """One to three fields of an archive's entries are lies, of the kinds that are known or of any kind."""
    parts = parts_of(data)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(parts))
        change, _reason = chance.choice(list(LIES.values()))
        if chance.random() < 0.5:
            name = chance.choice(["flags", "outside", "inside", "method", "local_flags", "checksum", "n_bytes"])
            change = {name: chance.choice([0, 1, 2, 8, 16, 32, 0x800, 0x808, 0xFFFF, chance.randrange(2**16)])}
        if chance.random() < 0.2:
            change = {"name": chance.choice(parts).name}
        parts[place] = replace(parts[place], **change)
    if chance.random() < 0.2:
        chance.shuffle(parts)
    if chance.random() < 0.2:
        parts.append(Part("archive/extra/more", bytes(40), outside=chance.choice([0, 0x10])))
    return zipped(parts, large_end=chance.random() < 0.8)


def _pickle_bytes(chance: random.Random, data: bytes) -> bytes:
    return _repacked(data, "data.pkl", lambda program: _bytes(chance, program))


def _block_bytes(chance: random.Random, data: bytes) -> bytes:
    """Other numbers, with the checksum that belongs to them; sometimes a byte more or less."""
    key = chance.choice([part.name for part in parts_of(data) if "/data/" in part.name and part.data])
    return _repacked(data, key, lambda block: _bytes(chance, block)[: len(block) - chance.choice([0, 0, 0, 1])])


def _pickle_steps(chance: random.Random, data: bytes) -> bytes:
    return _repacked(data, "data.pkl", lambda program: _steps(chance, program))


def _repacked(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    return zipped(
        replace(part, data=change(part.data)) if part.name.endswith(name) else part for part in parts_of(data)
    )


def _steps(chance: random.Random, program: bytes) -> bytes:
    """Steps of a pickle are replaced by objects that do not belong there, or by other steps; or moved, or left out."""
    places = [place for _, _, place in pickletools.genops(program)] + [len(program)]
    steps = [program[a:b] for a, b in pairwise(places)]
    if chance.random() < 0.5:
        return b"".join(_other_numbers(chance, steps))
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(1, max(2, len(steps) - 1))
        way = chance.random()
        if way < 0.4:
            steps[at : at + 1] = [chance.choice(list(STRANGE_OBJECTS.values()))]
        elif way < 0.6:
            steps[at : at + 1] = [chance.choice(steps[1:])]
        elif way < 0.7:
            steps[at:at] = [chance.choice(steps[1:])]
        elif way < 0.8:
            del steps[at]
        elif way < 0.9:
            number = chance.choice([0, 1, 2, 5, 23, 24, 25, 2**16 - 1])
            steps[at : at + 1] = [b"M" + struct.pack("<H", number)]
        else:
            other = chance.randrange(1, len(steps))
            steps[at], steps[other] = steps[other], steps[at]
    return b"".join(steps)


def _other_numbers(chance: random.Random, steps: list[bytes]) -> list[bytes]:
    """One or two of the small numbers (shapes, strides, starts) are others; many of these files can be read."""
    numbers = [at for at, step in enumerate(steps) if step[:1] == b"K"]
    for at in chance.sample(numbers, min(len(numbers), chance.randint(1, 2))):
        value = steps[at][1]
        steps[at] = bytes([*b"K", chance.choice([0, 1, 2, max(0, value - 1), value + 1 & 255, value // 2])])
    return steps


def _old_steps(chance: random.Random, data: bytes) -> bytes:
    """As `_steps`, in one of the pickles of the old format."""
    stream = io.BytesIO(data)
    ends = [0]
    for _ in range(5):
        for _step in pickletools.genops(stream):
            pass
        ends.append(stream.tell())
    which = chance.choice([1, 2, 3, 3, 4, 4])
    a, b = ends[which], ends[which + 1]
    return data[:a] + _steps(chance, data[a:b]) + data[b:]


def _header_bytes(chance: random.Random, data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = _bytes(chance, data[8 : 8 + length])
    return data[:8] + header + data[8 + length :]


def _values(chance: random.Random, data: bytes) -> bytes:
    """Values of a safetensors header are replaced by JSON of any kind, or by each other."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for _ in range(chance.randint(1, 3)):
        holder: Any = header
        while True:
            key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            if not isinstance(holder[key], dict | list) or not holder[key] or chance.random() < 0.2:
                break
            holder = holder[key]
        way = chance.random()
        if way < 0.6:
            holder[key] = chance.choice(STRANGE_JSON)
        elif way < 0.8:
            holder[key] = holder[chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))]
        elif isinstance(holder[key], int):
            holder[key] += chance.choice([-1, 1, 4])
        elif isinstance(holder, dict):
            holder[chance.choice(["__metadata__", "x", "." * 70, "\ud800"])] = holder.pop(key)
    written = json.dumps(header).encode()
    return struct.pack("<Q", len(written)) + written + data[8 + length :]

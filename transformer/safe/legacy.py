"""The format that torch wrote before version 1.6: five pickles in a row, then the blocks of numbers.

Files from 2017 to 2020 are in it, the first edition of The Annotated Transformer among them.
"""

import io
from io import BufferedIOBase
from typing import Any

from transformer.safe.blocks import Place
from transformer.safe.pickles import Structure
from transformer.safe.refusal import refused, shown

LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""A pickle of the number that marks these files."""

_VERSION = 1001
_COUNT_BYTES = 8


def check_legacy(handle: BufferedIOBase, size: int, structure: Structure) -> tuple[Any, dict[str, Place]]:
    """What the file would build, and where each block of numbers lies, once each is as long as it is said to be.

    Raises:
        CheckpointError: the file is damaged, asks for code, or claims more than it holds.
    """
    source = structure.source
    handle.seek(0)
    programs = io.BytesIO(handle.read(structure.limits.pickle_bytes))
    programs.seek(len(LEGACY_START))
    version = structure.read(programs)
    if type(version) is not int or version != _VERSION:
        raise refused("legacy_version", source)
    structure.read(programs)  # the sizes of the machine that wrote it
    declared = structure.read(programs)
    keys = structure.read(programs)
    if type(keys) is not list or not all(isinstance(key, str) for key in keys):
        raise refused("legacy_keys", source)
    if len(keys) != len(structure.storages) or set(keys) != structure.storages.keys():
        raise refused("legacy_blocks", source)
    places: dict[str, Place] = {}
    at = programs.tell()
    for key in keys:
        block = structure.storages[key]
        handle.seek(at)
        written = int.from_bytes(handle.read(_COUNT_BYTES), "little")
        at += _COUNT_BYTES
        if written != block.numel or at + block.n_bytes > size:
            raise refused("legacy_block_size", source, block=shown(key), needed=block.numel, written=written)
        places[key] = Place(at, block.n_bytes)
        at += block.n_bytes
    return declared, places

"""The format that torch wrote before version 1.6: five pickles in a row, then the blocks of numbers.

Files from 2017 to 2020 are in it, the first edition of The Annotated Transformer among them.
"""

import io
from typing import Any

from transformer.checkpoint.safe.pickles import Structure
from transformer.checkpoint.safe.refusal import refusal

LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""A pickle of the number that marks these files."""

_VERSION = 1001
_COUNT_BYTES = 8


def check_legacy(whole: io.BytesIO, size: int, structure: Structure) -> Any:
    """What the file would build, once every block of numbers is found to be as long as it is said to be.

    Raises:
        CheckpointError: the file is damaged, asks for code, or claims more than it holds.
    """
    whole.seek(len(LEGACY_START))
    if structure.read(whole) != _VERSION:
        raise refusal(structure.source, "it is of a version of torch's old format that is not known")
    structure.read(whole)  # the sizes of the machine that wrote it
    claimed = structure.read(whole)
    keys = structure.read(whole)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(structure.storages):
        raise refusal(structure.source, "its list of blocks is not the list of blocks that its tensors use")
    for key in keys:
        block = structure.storages[key]
        written = int.from_bytes(whole.read(_COUNT_BYTES), "little")
        if written != block.numel or whole.tell() + block.n_bytes > size:
            reason = f"block {key!r:.40} should hold {block.numel:,} numbers, the file has fewer, or says {written:,}"
            raise refusal(structure.source, reason)
        whole.seek(block.n_bytes, io.SEEK_CUR)
    return claimed

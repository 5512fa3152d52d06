"""Folders of the transformers library whose weights are `pytorch_model.bin`: read as any pickle is, and never run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import save

from transformer.checkpoint.huggingface.folder import INDEX
from transformer.checkpoint.weight_files import WEIGHTS
from transformer.messages import Message
from transformer.safe.contents import Contents
from transformer.safe.limits import ReadLimits
from transformer.safe.paths import check_inside
from transformer.safe.reading import read_file
from transformer.safe.refusal import refused
from transformer.safe.unpacked import PrivateFolder, check_room
from transformer.safe.zips import PICKLED

Reader = Callable[[Path, ReadLimits], Contents]

BESIDE = (".json", ".txt", ".model", ".spm")
"""What else of such a folder is read."""


def pickles_of(path: Path) -> list[Path]:
    """The pickles that hold a folder's weights; none where they are there as safetensors."""
    there = (path / WEIGHTS).is_file() or (path / INDEX).is_file()
    return [] if there else sorted(file for file in path.glob(PICKLED) if file.is_file())


@contextmanager
def as_safetensors(path: Path, limits: ReadLimits, reader: Reader = read_file) -> Iterator[Path]:
    """The folder; where its weights are pickles alone, one like it with the same weights as safetensors, until the end.

    `reader` reads one of the pickles. Costs the weights in memory, and as much again in a place of its own.

    Raises:
        CheckpointError: a pickle is refused, leads out of the folder, or all together are too large.
    """
    pickles = pickles_of(path)
    if not pickles:
        yield path
        return
    beside = [file for file in sorted(path.iterdir()) if file.suffix in BESIDE and file.is_file()]
    for file in (*pickles, *beside):
        check_inside(file, path)
    n_bytes = sum(file.stat().st_size for file in (*pickles, *beside))
    if n_bytes > limits.file_bytes:
        raise refused(
            "file_large", path.name, Message("remedy_raise_file_bytes"), found=n_bytes, most=limits.file_bytes
        )
    check_room(n_bytes, path.name)
    made = PrivateFolder(path.name)
    try:
        read = [reader(file, limits).tensors for file in pickles]
        tensors = {name: tensor.contiguous().clone() for part in read for name, tensor in part.items()}
        made.put(WEIGHTS, [save(tensors, {"format": "pt"})])
        for file in beside:
            if not file.name.endswith(".bin.index.json"):
                made.put(file.name, [file.read_bytes()])
        yield made.path
    finally:
        made.remove()

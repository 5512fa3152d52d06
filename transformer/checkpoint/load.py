"""From a path to a model that is ready to run.

A path is a folder of the transformers library, one of our own (either may come as a ZIP), or files of weights.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.checkpoint import weight_files
from transformer.checkpoint.checkpoint import HUGGING_FACE, Checkpoint
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.huggingface import folder as hugging_face
from transformer.checkpoint.huggingface.kinds import described_kind
from transformer.checkpoint.huggingface.loading import load_hugging_face, report_hugging_face
from transformer.checkpoint.huggingface.pickled import as_safetensors, pickles_of
from transformer.checkpoint.huggingface.tokenizer import read_tokenizer
from transformer.checkpoint.ours.folder import TOKENIZER, described_architecture, is_folder, load_folder
from transformer.checkpoint.ours.validate import checked_folder
from transformer.checkpoint.weight_files import CONFIG, CONFIG_BYTES, is_hugging_face
from transformer.distribution import located
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.paths import check_inside
from transformer.safe.reading import read_file, read_stream
from transformer.safe.refusal import refused, shown
from transformer.safe.unpacked import unpacked
from transformer.safe.zips import ZIP_ENDING
from transformer.text.base import FolderTokenizer
from transformer.text.text import TextTokenizer

Answers = Mapping[str, Any]

TokenizerAt = Callable[[Path], FolderTokenizer]
"""What reads the tokenizer at a path: a SentencePiece file, or a folder of the transformers library."""


def read_folder_tokenizer(path: Path) -> FolderTokenizer:
    """The tokenizer at `path`, in this process.

    Raises:
        CheckpointError: it cannot be read.
    """
    return TextTokenizer.read(path) if path.is_file() else read_tokenizer(path)


@contextmanager
def _in_folder(path: Path, limits: ReadLimits) -> Iterator[Path]:
    """The path itself; of a folder that came as a ZIP, a place of its own until the end."""
    if path.suffix.lower() != ZIP_ENDING or not path.is_file():
        yield path
        return
    with path.open("rb") as stream:
        found = unpacked(stream, path.name, path.stat().st_size, path.stem, limits)
    try:
        yield found.path
    finally:
        found.remove()


def load(
    path: str | Path,
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = None,
    **answers: Any,
) -> Checkpoint:
    """Load the checkpoint at `path` (a file, a folder, or the name of a shipped one), ready to run and be recorded.

    Names and shapes tell what it is. What they cannot tell is answered by keyword (`n_heads=8`, `activation="gelu"`,
    `norm_first=True`, `pad_id=0` ...); `report(path).questions` lists the questions, `Checkpoint.assumptions` what was
    assumed for want of an answer. `ignore="aux.*"` leaves tensors out. Nothing in the file is ever run. Folders of the
    transformers library (config.json with a `model_type`, safetensors) are read through it, if it is installed. A
    folder may come as a ZIP. `device` and `dtype` say where and how exactly the model computes: see
    `Checkpoint.placed`.

    Raises:
        CheckpointError: it is missing, cannot be read, is refused, or fits no layout (the message is the report); or
            the device is not here.
    """
    found = load_with(located(path), limits, answers, read_folder_tokenizer)
    return found if str(device) == "cpu" and dtype is None else found.placed(device, dtype)


def load_with(path: Path, limits: ReadLimits, answers: Answers, tokenizer_at: TokenizerAt) -> Checkpoint:
    """As `load`, on the CPU; `tokenizer_at` reads the tokenizer of a folder.

    Raises:
        CheckpointError: as `load`.
    """
    with _in_folder(path, limits) as place:
        if answers and says_all(place):
            raise CheckpointError("folder_says_all", folder=place.name, answers=tuple(answers))
        if is_hugging_face(place):
            with as_safetensors(place, limits) as folder:
                found = replace(load_hugging_face(folder, limits, tokenizer_at), folder=place.resolve())
        elif is_folder(place):
            found = _with_whole_vocabulary(load_folder(checked_folder(place, limits), tokenizer_at))
        else:
            found = build(recognise(read(place, limits), answers), place.name if place.is_dir() else place.stem)
    return found if place == path else replace(found, folder=None)  # what lay beside the weights is gone


def listed_architecture(path: Path) -> str | None:
    """What kind of model a folder's config describes, without a look at its weights; None where it has no config.

    Whether it can be loaded is another matter, which whoever chooses it from a list is told.

    Raises:
        CheckpointError: the config is refused, or describes no model that is known here.
    """
    if is_hugging_face(path):
        return f"{HUGGING_FACE}{described_kind(path)}"
    if not is_folder(path):
        return None
    check_inside(path / CONFIG, path)
    size = (path / CONFIG).stat().st_size
    if size > CONFIG_BYTES:
        raise refused("file_large", f"{path.name}/{CONFIG}", found=size, most=CONFIG_BYTES)
    return described_architecture(path)


def vocabulary_files(path: Path) -> tuple[Path, ...] | None:
    """The files of the tokenizers of a folder that says all of itself, by name; None of another checkpoint.

    Raises:
        CheckpointError: one of them leads out of the folder.
    """
    if is_hugging_face(path):
        names: tuple[str, ...] = hugging_face.VOCABULARIES
    elif is_folder(path):
        names = (TOKENIZER,)
    else:
        return None
    found = tuple(path / name for name in names if (path / name).is_file())
    for file in found:
        check_inside(file, path)
    return found


def report(path: str | Path, *, limits: ReadLimits = DEFAULT_LIMITS, **answers: Any) -> Report:
    """Recognise the file or folder at `path`: its layout, how certain that is and why, and which tensors do not fit.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    with _in_folder(located(path), limits) as place:
        if not is_hugging_face(place):
            return recognise(read(place, limits), answers).report
        with as_safetensors(place, limits) as folder:
            return report_hugging_face(folder, limits)


def read(path: Path, limits: ReadLimits) -> Contents:
    """The weights of one file, of a folder's encoder and decoder together, or of the parts of a Hugging Face folder.

    Raises:
        CheckpointError: as `load`.
    """
    with _in_folder(path, limits) as place:
        files = find_files(place)
        if is_hugging_face(place):
            parts = (read_file(file, limits) for file in files.values())
            tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
            return Contents(place.name, tensors, format="torch archive" if pickles_of(place) else "safetensors")
        check_together({file.name: file.stat().st_size for file in files.values()}, limits)
        return _joined({part: read_file(file, limits) for part, file in files.items()}, place.name)


def find_files(path: Path) -> dict[str, Path]:
    """The files of weights at `path` by the part that they hold; a lone one has no name.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    if not is_hugging_face(path):
        return weight_files.find_files(path)
    found = pickles_of(path) or hugging_face.weight_files(path)
    return {file.stem if len(found) > 1 else "": file for file in found}


def read_uploads(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """The weights of open files by name: one, the encoder and decoder of a pair, or shards. Nothing is stored.

    Raises:
        CheckpointError: as `load`; or there are several files that are no pair.
    """
    parts = weight_files.parts_of(files)
    if parts is None:
        raise CheckpointError("no_pair", files=", ".join(files) or Message("nothing"))
    check_together({name: stream.seek(0, os.SEEK_END) for name, stream in files.items()}, limits)
    return _joined({part: read_stream(files[name], name, limits) for part, name in parts.items()}, " and ".join(files))


def _joined(parts: Mapping[str, Contents], source: str) -> Contents:
    """One file's contents, those of a pair with the half's name before each tensor's, or those of shards.

    Raises:
        CheckpointError: two shards hold a tensor of one name.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    is_pair = set(parts) == set(weight_files.HALVES)
    tensors: dict[str, Tensor] = {}
    for part, contents in parts.items():
        named = {f"{part}.{name}" if is_pair else name: tensor for name, tensor in contents.tensors.items()}
        twice = next(iter(named.keys() & tensors.keys()), None)
        if twice is not None:
            raise CheckpointError("shards_repeat", name=shown(twice), source=source)
        tensors |= named
    return Contents(source, tensors, format=" and ".join(sorted({contents.format for contents in parts.values()})))


def check_together(sizes: Mapping[str, int], limits: ReadLimits) -> None:
    """Refuse files that together are larger than one may be.

    Raises:
        CheckpointError: says how large they are, and the limit.
    """
    found = sum(sizes.values())
    if len(sizes) > 1 and found > limits.file_bytes:
        raise refused(
            "file_large", " + ".join(sizes), Message("remedy_raise_limit"), found=found, most=limits.file_bytes
        )


def says_all(path: Path) -> bool:
    """Whether the folder at `path` says all of itself, so that nothing is asked about it."""
    return is_hugging_face(path) or is_folder(path)


def _with_whole_vocabulary(found: Checkpoint) -> Checkpoint:
    """The checkpoint, whose vocabulary has a token for every row of its embeddings.

    Raises:
        CheckpointError: it has fewer or more.
    """
    if found.tokenizer is None or found.task is not None:
        return found
    sizes = [getattr(found.model.config, name, None) for name in ("source_vocab", "target_vocab", "vocab")]
    other = next((size for size in sizes if size is not None and size != len(found.tokenizer)), None)
    if other is not None:
        raise CheckpointError(
            "vocabulary_of_other_size", name=f"{found.name}/{TOKENIZER}", tokens=len(found.tokenizer), rows=other
        )
    return found

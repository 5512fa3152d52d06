"""From a path to a model that is ready to run, or to a folder of ours that says all of itself.

A path is a folder of the transformers library, one of our own (either may come as a ZIP), or files of weights.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch

from ..distribution import located
from ..errors import CheckpointError
from ..messages import Message
from ..safe.contents import Contents, fingerprint_of
from ..safe.limits import DEFAULT_LIMITS, ReadLimits, check_inside, refused
from ..safe.reading import opened, read_stream
from ..safe.zips import ZIP_ENDING, unpacked
from ..text.base import Tokenizer
from ..text.tokenizers import TextTokenizer
from . import weight_files
from .checkpoint import Checkpoint
from .foreign.recognition import build, recognise
from .foreign.report import Report
from .huggingface import folder as hugging_face
from .huggingface.folder import described_kind
from .huggingface.loading import load_hugging_face, report_hugging_face
from .huggingface.model import HUGGING_FACE
from .huggingface.tokenizer import read_tokenizer
from .ours.folder import CARD, TOKENIZER, described_architecture, is_folder, load_folder, save_folder
from .weight_files import CONFIG, is_hugging_face

Answers = Mapping[str, Any]

TokenizerAt = Callable[[Path], Tokenizer]
"""What reads the tokenizer at a path: a SentencePiece file, or a folder of the transformers library."""


def read_folder_tokenizer(path: Path) -> Tokenizer:
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
    assumed for want of an answer. Nothing in the file is ever run. Folders of the
    transformers library (config.json with a `model_type`, safetensors) are read through it, if it is installed. A
    folder may come as a ZIP. `device` and `dtype` say where and how exactly the model computes: see
    `Checkpoint.placed`.

    Raises:
        CheckpointError: it is missing, cannot be read, is refused, or fits no layout (the message is the report); or
            the device is not here.
    """
    found = load_with(located(path), limits, answers, read_folder_tokenizer, read)
    return found if str(device) == "cpu" and dtype is None else found.placed(device, dtype)


def load_with(
    path: Path, limits: ReadLimits, answers: Answers, tokenizer_at: TokenizerAt, reader: hugging_face.Reader
) -> Checkpoint:
    """As `load`, on the CPU; `tokenizer_at` reads the tokenizer of a folder, `reader` the library's weights.

    Raises:
        CheckpointError: as `load`.
    """
    with _in_folder(path, limits) as place:
        if answers and says_all(place):
            raise CheckpointError("folder_says_all", folder=place.name, answers=tuple(answers))
        if is_hugging_face(place):
            found = load_hugging_face(place, limits, tokenizer_at, reader)
        elif is_folder(place):
            found = load_folder(place, tokenizer_at, limits)
        else:
            contents = read(place, limits)
            found = build(contents, recognise(contents, answers), place.name if place.is_dir() else place.stem)
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
    return described_architecture(path)


def vocabulary_files(path: Path) -> tuple[Path, ...] | None:
    """The files of the tokenizers of a folder that says all of itself, by name; None of another checkpoint.

    Raises:
        CheckpointError: one of them leads out of the folder.
    """
    if not says_all(path):
        return None
    names = hugging_face.VOCABULARIES if is_hugging_face(path) else (TOKENIZER,)
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
        if is_hugging_face(place):
            return report_hugging_face(place, limits, read)
        return recognise(read(place, limits), answers)


def read(path: Path, limits: ReadLimits) -> Contents:
    """The weights of one file, of a folder's encoder and decoder together, or of the parts of a Hugging Face folder.

    Raises:
        CheckpointError: as `load`.
    """
    with _in_folder(path, limits) as place, ExitStack() as until_read:
        files = find_files(place)
        if not is_hugging_face(place):
            return read_uploads({file.name: until_read.enter_context(opened(file)) for file in files}, limits)
        n_bytes = sum(file.stat().st_size for file in files)
        if files[0].suffix == ".bin" and n_bytes > limits.file_bytes:
            raise refused(
                "file_large", place.name, Message("remedy_raise_limit"), found=n_bytes, most=limits.file_bytes
            )
        parts = [
            read_stream(until_read.enter_context(opened(file)), f"{place.name}/{file.name}", limits) for file in files
        ]
        return Contents(place.name, {k: v for part in parts for k, v in part.tensors.items()}, format=parts[0].format)


def find_files(path: Path) -> list[Path]:
    """The files of weights at `path`: one, an encoder's and a decoder's, or the parts of a Hugging Face folder.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    if is_hugging_face(path):
        return hugging_face.weight_files(path)
    return weight_files.find_files(path)


def read_uploads(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """The weights of open files by name: one, or the encoder and decoder of a pair. Nothing is stored.

    The names of tensors in a pair begin with the half's.

    Raises:
        CheckpointError: as `load`; or there are several files that are no pair.
    """
    parts = weight_files.parts_of(files)
    if parts is None:
        raise CheckpointError("no_pair", files=", ".join(files) or Message("nothing"))
    n_bytes = sum(stream.seek(0, os.SEEK_END) for stream in files.values())
    if len(files) > 1 and n_bytes > limits.file_bytes:  # a lone file says so itself
        remedy = Message("remedy_raise_limit")
        raise refused("file_large", " + ".join(files), remedy, found=n_bytes, most=limits.file_bytes)
    found = {part: read_stream(files[name], name, limits) for part, name in parts.items()}
    if "" in found:
        return found[""]
    tensors = {f"{part}.{name}": one for part, contents in found.items() for name, one in contents.tensors.items()}
    formats = sorted({contents.format for contents in found.values()})
    return Contents(" and ".join(files), tensors, format=" and ".join(formats))


def says_all(path: Path) -> bool:
    """Whether the folder at `path` says all of itself, so that nothing is asked about it."""
    return is_hugging_face(path) or is_folder(path)


def convert(
    path: str | Path, out: str | Path, *, half: bool = False, limits: ReadLimits = DEFAULT_LIMITS, **answers: Any
) -> Checkpoint:
    """Write the checkpoint at `path` as a folder at `out`, which `load` reads without asking; and return it.

    `answers` are those of `load`. Weights are stored as they are, or as float16 with `half`.

    Raises:
        CheckpointError: it cannot be loaded, or `out` holds something already.
        OSError: the folder cannot be written; what was written of it is taken away.
    """
    path, out = Path(path), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CheckpointError("folder_not_empty", folder=str(out))
    if is_hugging_face(path):
        raise CheckpointError("hugging_face_is_read_as_it_is", folder=path.name)
    contents = read(path, limits)
    found = recognise(contents, answers)
    checkpoint, was_there = build(contents, found, out.name), out.exists()
    model: Any = checkpoint.model
    card = (
        f"# {out.name}\n",
        f"Converted from `{path.name}` ({found.format}), recognised as {found.title}.",
        f"SHA-256 of the original: `{fingerprint_of(find_files(path))}`.",
        f"Weights are stored {'as float16' if half else 'as they were'}.\n",
        "Assumed for want of an answer:\n",
        *([f"- {assumption}" for assumption in found.assumptions] or ["- nothing"]),
        "\nData, training and licence: see the original.\n",
    )
    try:
        save_folder(out, checkpoint.architecture, model, half=half, assumptions=checkpoint.assumptions)
        (out / CARD).write_text("\n".join(card), encoding="utf-8")
    except BaseException:  # half a folder would be in the way of the next try, and look like a whole one
        shutil.rmtree(out, ignore_errors=True)
        if was_there:
            out.mkdir(exist_ok=True)
        raise
    return checkpoint

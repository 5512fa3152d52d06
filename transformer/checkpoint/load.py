"""From a path to a model that is ready to run: our own folders, and files of every layout that is recognised."""

from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer.attention.capture import watch
from transformer.checkpoint.checkpoint import ARCHITECTURES, Checkpoint, Model
from transformer.checkpoint.foreign.layouts import Fit
from transformer.checkpoint.foreign.recognition import Recognition, recognise
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.huggingface.folder import is_hugging_face
from transformer.checkpoint.huggingface.loading import load_hugging_face, report_hugging_face
from transformer.checkpoint.ours.folder import TOKENIZER, fill, in_precision_of, is_folder, load_folder
from transformer.checkpoint.ours.validate import checked_folder
from transformer.checkpoint.safe.contents import Contents
from transformer.checkpoint.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.checkpoint.safe.reading import read_file, read_stream
from transformer.checkpoint.weight_files import find_files
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.tokens.vocabulary import id_tokenizers


def load(path: str | Path, *, limits: ReadLimits = DEFAULT_LIMITS, **answers: Any) -> Checkpoint:
    """The checkpoint at `path` (a file, or a folder that holds the files), ready to run and watched.

    Names and shapes tell what it is. What they cannot tell is answered by keyword (`n_heads=8`, `activation="gelu"`,
    `norm_first=True`, `pad_id=0` ...); `report(path).questions` lists the questions, `Checkpoint.assumptions` what was
    assumed for want of an answer. `ignore="aux.*"` leaves tensors out. Nothing in the file is ever run. Folders of the
    transformers library (config.json with a `model_type`, safetensors) are read through it, if it is installed.

    Raises:
        CheckpointError: it is missing, cannot be read, is refused, or fits no layout; the message is the report.
    """
    path = Path(path)
    if is_folder(path) or is_hugging_face(path):
        if answers:
            raise CheckpointError("folder_says_all", folder=path.name, answers=tuple(answers))
        if is_hugging_face(path):
            return load_hugging_face(path, limits)
        return _with_whole_vocabulary(load_folder(checked_folder(path, limits)))
    return build(_recognised(path, limits, answers), name=path.name if path.is_dir() else path.stem)


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


def report(path: str | Path, *, limits: ReadLimits = DEFAULT_LIMITS, **answers: Any) -> Report:
    """What the file or folder at `path` is taken for, how surely and why, and what does not fit.

    Raises:
        CheckpointError: it is missing, cannot be read, or is refused.
    """
    if is_hugging_face(Path(path)):
        return report_hugging_face(Path(path), limits)
    return _recognised(Path(path), limits, answers).report


def build(recognition: Recognition, name: str) -> Checkpoint:
    """The model that was recognised. Its text is typed and shown as ids, until a vocabulary is brought.

    Raises:
        CheckpointError: it fits no layout; the message is the report.
    """
    if recognition.fit is None or not recognition.report.fits:
        raise CheckpointError("no_fit", report=recognition.report.message)
    tokenizer, target_tokenizer = id_tokenizers(recognition.fit.config)
    return Checkpoint(
        name=name,
        model=model_of(recognition.fit, recognition.contents.tensors, recognition.contents.source),
        tokenizer=tokenizer,
        target_tokenizer=target_tokenizer,
        assumptions=recognition.report.assumptions,
    )


def read(path: Path, limits: ReadLimits) -> Contents:
    """The weights of one file, of a folder's encoder and decoder together, or of the parts of a Hugging Face folder.

    Raises:
        CheckpointError: as `load`.
    """
    files = find_files(path)
    if is_hugging_face(path):
        tensors = {name: t for file in files.values() for name, t in read_file(file, limits).tensors.items()}
        return Contents(path.name, tensors, format="safetensors")
    return _joined({part: read_file(file, limits) for part, file in files.items()}, path.name)


def read_uploads(files: Mapping[str, BufferedIOBase], limits: ReadLimits = DEFAULT_LIMITS) -> Contents:
    """The weights of open files by name: one, or the `encoder` and `decoder` of a recurrent pair. Nothing is stored.

    Raises:
        CheckpointError: as `load`; or there are several files that are no pair.
    """
    parts = {Path(name).stem: read_stream(stream, name, limits) for name, stream in files.items()}
    if len(files) != 1 and parts.keys() != {"encoder", "decoder"}:
        raise CheckpointError("no_pair", files=", ".join(files) or Message("nothing"))
    return _joined(parts, " and ".join(files))


def _joined(parts: Mapping[str, Contents], source: str) -> Contents:
    """One file's contents, or those of several with the file's name before each tensor's."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    tensors = {f"{part}.{name}": t for part, contents in parts.items() for name, t in contents.tensors.items()}
    return Contents(source, tensors, format=" and ".join(sorted({contents.format for contents in parts.values()})))


def _recognised(path: Path, limits: ReadLimits, answers: Mapping[str, Any]) -> Recognition:
    return recognise(read(path, limits), answers)


def model_of(fit: Fit, tensors: Mapping[str, Tensor], source: str) -> Model:
    """Our model with the foreign weights, in double precision if that is how they were kept."""
    model_type, _ = ARCHITECTURES[fit.architecture]
    with torch.random.fork_rng(devices=[]):
        model: Any = model_type(fit.config)
    model = in_precision_of(model, tensors)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    fill(model, {name: place.take(tensors, shapes[name]) for name, place in fit.sources.items()}, source)
    return watch(model.eval())

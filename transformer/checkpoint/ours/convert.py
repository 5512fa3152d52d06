"""From any layout to one of our own folders: safetensors, a config that says everything, and a card."""

import shutil
from pathlib import Path
from typing import Any

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign.build import build
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.load import find_files, read
from transformer.checkpoint.ours.folder import CARD, save_folder
from transformer.checkpoint.weight_files import is_hugging_face
from transformer.errors import CheckpointError
from transformer.safe.fingerprints import fingerprint_of
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits


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
    recognition = recognise(read(path, limits), answers)
    checkpoint = build(recognition, out.name)
    model: Any = checkpoint.model
    was_there = out.exists()
    try:
        save_folder(out, checkpoint.architecture, model, half=half, assumptions=checkpoint.assumptions)
        (out / CARD).write_text(_card(path, out, recognition.report, half), encoding="utf-8")
    except BaseException:  # half a folder would be in the way of the next try, and look like a whole one
        shutil.rmtree(out, ignore_errors=True)
        if was_there:
            out.mkdir(exist_ok=True)
        raise
    return checkpoint


def _card(path: Path, out: Path, report: Report, half: bool) -> str:
    """Where the folder comes from, so that nobody need guess."""
    assumed = [f"- {assumption}" for assumption in report.assumptions] or ["- nothing"]
    return "\n".join([
        f"# {out.name}",
        "",
        f"Converted from `{path.name}` ({report.format}), recognised as {report.title}.",
        f"SHA-256 of the original: `{fingerprint_of(find_files(path).values())}`.",
        f"Weights are stored {'as float16' if half else 'as they were'}.",
        "",
        "Assumed for want of an answer:",
        "",
        *assumed,
        "",
        "Data, training and licence: see the original.",
        "",
    ])  # fmt: skip

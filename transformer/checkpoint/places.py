"""Which files a checkpoint folder is made of; none of them may lie outside it."""

from pathlib import Path

from transformer.checkpoint.folder import WEIGHTS
from transformer.checkpoint.headers import check_header
from transformer.checkpoint.limits import ReadLimits
from transformer.checkpoint.refusal import refusal
from transformer.errors import CheckpointError

ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt", ".chkpt", ".bin")
"""What files of weights are called."""

SMALL_FILE_BYTES = 8 * 1024 * 1024
"""The most that a file beside the weights may have: a config, examples, a tokenizer, a card."""


def find_files(path: Path) -> dict[str, Path]:
    """The file at `path`; in a folder, `encoder` and `decoder`, or `model`, or the only file of weights.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError(f"{path} is not there: give the path of a checkpoint file or folder")
        return {"": path}
    found = [file for file in sorted(path.iterdir()) if file.suffix in ENDINGS]
    by_stem = {file.stem: file for file in reversed(found)}
    if {"encoder", "decoder"} <= by_stem.keys():
        chosen = {part: by_stem[part] for part in ("encoder", "decoder")}
    elif "model" in by_stem:
        chosen = {"": by_stem["model"]}
    elif len(found) == 1:
        chosen = {"": found[0]}
    else:
        names = ", ".join(file.name for file in found[:5]) or "none"
        raise CheckpointError(
            f"{path.name} holds no single file of weights (found: {names}): name one model{ENDINGS[1]}, the pair of a "
            "recurrent model encoder and decoder, or give the path of the file itself"
        )
    for file in chosen.values():
        _check_inside(file, path)
    return chosen


def checked_folder(path: Path, limits: ReadLimits) -> Path:
    """One of our own folders, once its files are found to lie in it and to have the sizes that they claim.

    Raises:
        CheckpointError: a link leads out of the folder, or a file is too large or damaged.
    """
    for file in path.iterdir():
        _check_inside(file, path)
        size = file.stat().st_size
        if file.is_file() and file.name != WEIGHTS and size > SMALL_FILE_BYTES:
            raise refusal(f"{path.name}/{file.name}", f"it has {size:,} bytes, at most {SMALL_FILE_BYTES:,} are read")
    weights = path / WEIGHTS
    size = weights.stat().st_size
    if size > limits.file_bytes:
        raise refusal(f"{path.name}/{WEIGHTS}", f"it has {size:,} bytes, at most {limits.file_bytes:,} are read")
    with weights.open("rb") as handle:
        check_header(handle, size, f"{path.name}/{WEIGHTS}", limits)
    return path


def _check_inside(file: Path, folder: Path) -> None:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise refusal(f"{folder.name}/{file.name}", "it is a link that leads out of its folder", "copy the file itself")

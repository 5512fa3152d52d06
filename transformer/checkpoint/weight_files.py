"""What kind of folder a checkpoint lies in, and which files it is made of; none of them may lie outside it."""

import json
from pathlib import Path

from transformer.checkpoint.safe.paths import check_inside
from transformer.errors import CheckpointError
from transformer.messages import Message

ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt", ".chkpt", ".bin")
"""What files of weights are called."""

LIKE_WEIGHTS = (".tar", ".onnx", ".gguf", ".h5", ".hdf5", ".keras", ".npz", ".npy")
"""What else people bring for weights: read where it is a file of torch.save, else refused for what it is."""


CONFIG, WEIGHTS = "config.json", "model.safetensors"
"""What our own folders and those of the transformers library call their two main files."""

CONFIG_BYTES = 8 * 1024 * 1024
"""The most that a config may have before it is none."""


def is_hugging_face(path: Path) -> bool:
    """Whether `path` is laid out as the transformers library saves a model: config.json names a `model_type`."""
    file = path / CONFIG
    if not file.is_file() or file.stat().st_size > CONFIG_BYTES:
        return False
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and isinstance(about.get("model_type"), str) and "architecture" not in about


def find_files(path: Path) -> dict[str, Path]:
    """The file at `path`; in a folder, `encoder` and `decoder`, or `model`, or the only file of weights.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError("path_not_there", path=str(path))
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
        names = ", ".join(file.name for file in found[:5]) or Message("none_of_them")
        raise CheckpointError("no_single_file", folder=path.name, found=names, ending=ENDINGS[1])
    for file in chosen.values():
        check_inside(file, path)
    return chosen

"""What kind of folder a checkpoint lies in, and which files it is made of; none of them may lie outside it."""

import json
import re
from collections.abc import Collection
from pathlib import Path

from ..errors import CheckpointError
from ..messages import Message
from ..safe.limits import check_inside

HALVES = ("encoder", "decoder")
"""The parts of a recurrent pair, whose names are put before those of its tensors."""

_HALF = re.compile(r"(?<![a-z])(?P<half>enc|dec)(?:oder)?(?:rnn)?(?![a-z])", re.IGNORECASE)

ENDINGS = (".safetensors", ".pt", ".pth", ".th", ".ckpt", ".chkpt", ".bin")
"""What files of weights are called."""

PICKLES = (".pkl", ".pickle")
"""What some call files of torch.save, and others their vocabularies."""

LIKE_WEIGHTS = (".tar", ".onnx", ".gguf", ".h5", ".hdf5", ".keras", ".npz", ".npy")
"""What else people bring for weights: read where it is a file of torch.save, else refused for what it is."""


CONFIG, WEIGHTS = "config.json", "model.safetensors"
"""What our own folders and those of the transformers library call their two main files."""

CONFIG_BYTES = 8 * 1024 * 1024
"""The most that a config may have before it is none."""


def is_hugging_face(path: Path) -> bool:
    """Whether `path` is laid out as the transformers library saves a model: config.json names a `model_type`.

    Our own name an `architecture` with its `config`; some of the library's name one alone.
    """
    file = path / CONFIG
    if not file.is_file() or file.stat().st_size > CONFIG_BYTES:
        return False
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(about, dict)
        and isinstance(about.get("model_type"), str)
        and not {"architecture", "config"} <= about.keys()
    )


def parts_of(names: Collection[str]) -> dict[str, str] | None:
    """Which of the files called `names` holds which part of one model; None where they are no parts of one.

    One file is all of it and has no name. Two may be an encoder's and a decoder's, called alike beside these words.
    """
    if len(names) == 1:
        return {"": next(iter(names))}
    halves = {half["half"].lower(): name for name in names if (half := _HALF.search(Path(name).stem))}
    if len(names) == len(halves) == 2 and len({_HALF.sub("", Path(name).stem) for name in names}) == 1:
        return {half: halves[half[:3]] for half in HALVES}
    return None


def find_files(path: Path) -> list[Path]:
    """The file at `path`; in a folder, a pair, or `model`, or the only file.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError("path_not_there", path=str(path))
        return [path]
    inside = sorted(path.iterdir())
    found = [file for file in inside if file.suffix in ENDINGS] or [file for file in inside if file.suffix in PICKLES]
    by_name = {file.stem: file for file in reversed(found)}
    if usual := next((one for one in (HALVES, ("model",)) if by_name.keys() >= set(one)), None):
        found = sorted(by_name[name] for name in usual)
    if parts_of([file.name for file in found]) is None:
        names = ", ".join(file.name for file in found[:5]) or Message("none_of_them")
        raise CheckpointError("no_single_file", folder=path.name, found=names, ending=ENDINGS[1])
    for file in found:
        check_inside(file, path)
    return found

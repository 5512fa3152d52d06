"""What kind of folder a checkpoint lies in, and which files it is made of; none of them may lie outside it."""

import json
import re
from collections.abc import Collection
from pathlib import Path

from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.paths import check_inside

HALVES = ("encoder", "decoder")
"""The parts of a recurrent pair, whose names are put before those of its tensors."""

INDEX_ENDING = ".index.json"
"""How a list of which tensor lies in which shard is called; the shards say it themselves."""

_HALF = re.compile(r"(?<![a-z])(?P<half>enc|dec)(?:oder)?(?:rnn)?(?![a-z])", re.IGNORECASE)
_SHARD = re.compile(r"(?P<whole>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})")

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

    One file is all of it and has no name. Two may be an encoder's and a decoder's, called alike beside these words. Any
    number may be shards (`model-00002-of-00003.safetensors`), each a part called like its file.

    Raises:
        CheckpointError: shards are missing.
    """
    stems = {Path(name).stem: name for name in names}
    if len(names) == 1 and not _SHARD.fullmatch(next(iter(stems))):
        return {"": next(iter(names))}
    if len(stems) < len(names):
        return None
    shards = {stem: shard for stem in stems if (shard := _SHARD.fullmatch(stem))}
    if shards and len(shards) == len(names):
        if len({(shard["whole"], shard["count"]) for shard in shards.values()}) > 1:
            return None
        whole, count = next((shard["whole"], int(shard["count"])) for shard in shards.values())
        if {int(shard["number"]) for shard in shards.values()} != set(range(1, count + 1)):
            raise CheckpointError("shards_missing", name=whole, found=len(shards), count=count)
        return {stem: stems[stem] for stem in sorted(shards)}
    halves = {half["half"].lower(): stem for stem in stems if (half := _HALF.search(stem))}
    alike = {_HALF.sub("", stem) for stem in stems}
    if len(names) == len(halves) == 2 and len(alike) == 1:
        return {half: stems[halves[half[:3]]] for half in HALVES}
    return None


def find_files(path: Path) -> dict[str, Path]:
    """The file at `path`, or all shards with it; in a folder, a pair, or `model`, the only file, or the only shards.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, shards are missing, or a link leads out
            of the folder.
    """
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError("path_not_there", path=str(path))
        return _with_other_shards(path)
    inside = sorted(path.iterdir())
    found = [file for file in inside if file.suffix in ENDINGS] or [file for file in inside if file.suffix in PICKLES]
    by_stem = {file.stem: file for file in reversed(found)}
    if {"encoder", "decoder"} <= by_stem.keys():
        chosen = {part: by_stem[part] for part in ("encoder", "decoder")}
    elif "model" in by_stem:
        chosen = {"": by_stem["model"]}
    elif parts := parts_of([file.name for file in found]):
        chosen = {part: path / name for part, name in parts.items()}
    else:
        names = ", ".join(file.name for file in found[:5]) or Message("none_of_them")
        raise CheckpointError("no_single_file", folder=path.name, found=names, ending=ENDINGS[1])
    for file in chosen.values():
        check_inside(file, path)
    return chosen


def _with_other_shards(path: Path) -> dict[str, Path]:
    """The file at `path`; where it is a shard, all of its model."""
    shard = _SHARD.fullmatch(path.stem)
    if shard is None or path.suffix not in ENDINGS:
        return {"": path}
    pattern = re.compile(rf"{re.escape(shard['whole'])}-\d{{5}}-of-{shard['count']}")
    beside = [
        file.name for file in path.parent.iterdir() if file.suffix == path.suffix and pattern.fullmatch(file.stem)
    ]
    parts = parts_of(beside) or {}
    for name in parts.values():
        check_inside(path.parent / name, path.parent)
    return {part: path.parent / name for part, name in parts.items()}

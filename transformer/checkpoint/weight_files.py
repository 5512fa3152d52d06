"""Which files a checkpoint folder is made of; none of them may lie outside it."""

from pathlib import Path

from transformer.checkpoint.safe.paths import check_inside
from transformer.errors import CheckpointError
from transformer.messages import Message

ENDINGS = (".safetensors", ".pt", ".pth", ".ckpt", ".chkpt", ".bin")
"""What files of weights are called."""


def find_files(path: Path) -> dict[str, Path]:
    """The file at `path`; in a folder, `encoder` and `decoder`, or `model`, or the only file of weights.

    Of a Hugging Face folder, the parts that its index names.

    Raises:
        CheckpointError: nothing is there, it is not clear which file is meant, or a link leads out of the folder.
    """
    from transformer.checkpoint.huggingface.folder import (  # it looks for links with `check_inside`
        is_hugging_face,
        weight_files,
    )

    if is_hugging_face(path):
        files = weight_files(path)
        return {file.stem if len(files) > 1 else "": file for file in files}
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

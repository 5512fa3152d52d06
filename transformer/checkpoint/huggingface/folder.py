"""Hugging Face folders: recognised by their config.json, and checked like a stranger's file before they are built."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.checkpoint.safe.contents import Shape
from transformer.checkpoint.safe.headers import check_header
from transformer.checkpoint.safe.limits import ReadLimits
from transformer.checkpoint.safe.paths import check_inside
from transformer.checkpoint.safe.refusal import refusal
from transformer.errors import CheckpointError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TOKENIZER_CONFIG, GENERATION_CONFIG = "tokenizer_config.json", "generation_config.json"

JSON_BYTES = 8 * 1024 * 1024
"""The most that a config may have; vocabularies may have more."""

VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "vocab.json",
    "vocab.txt",
)  # fmt: skip
"""Files that hold a vocabulary: one of them is there where the folder brings a tokenizer."""

REFUSED_KEYS = {
    "auto_map": "it names Python code that comes with the folder (auto_map), and no code of a folder is ever run",
    "quantization_config": "its weights are quantised (quantization_config), which this reader does not undo",
    "custom_pipelines": "it names Python code that comes with the folder (custom_pipelines)",
    "custom_generate": "it names Python code that comes with the folder (custom_generate)",
    "init_inputs": "it hands its tokenizer arguments of its own (init_inputs), which may name any file",
}
"""What a JSON file of the folder must not hold, and why."""

REPEATED, MOST_REPEATED = ("block", "depth", "expert", "stack", "group"), 10_000
"""Words in a config that may stand for parts built one by one, and how many are; sizes of a table are far below."""


LABELS = "label2id"
"""A table whose keys are a model's own words."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


VALUES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "architectures": (
        "a list of names", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value)
    ),
    "dropout": ("a share from 0 to 1", lambda value: not _is_number(value) or 0 <= value <= 1),
    "chunk_size_feed_forward": ("0: other sizes fit some texts alone", lambda value: _is_number(value) and value == 0),
    "relative_attention_max_distance": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "relative_attention_num_buckets": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "model_max_length": ("a number above 0", lambda value: _is_number(value) and value > 0),
}  # fmt: skip
"""Parts of a key's name, and what its value should be where there is one."""

REMEDY = "save the model in full precision, of an architecture that transformers knows itself, with save_pretrained"


@dataclass(frozen=True)
class FolderContents:
    """What a folder says of itself: its config, its generation settings, and the shapes of its weights by name."""

    name: str
    config: dict[str, Any]
    generation: dict[str, Any]
    shapes: dict[str, Shape]
    has_tokenizer: bool

    @property
    def family(self) -> str:
        """The library's name for the architecture."""
        return str(self.config["model_type"])


def is_hugging_face(path: Path) -> bool:
    """Whether `path` is laid out as the transformers library saves a model: config.json names a `model_type`."""
    file = path / CONFIG
    if not file.is_file() or file.stat().st_size > JSON_BYTES:
        return False
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(about, dict) and isinstance(about.get("model_type"), str) and "architecture" not in about


def checked_contents(path: Path, limits: ReadLimits) -> FolderContents:
    """What the folder holds, once its files are found to lie in it, to ask for no code, and to be what they claim.

    Raises:
        CheckpointError: one of them is not; or the weights are there as a pickle alone.
    """
    for file in path.iterdir():
        check_inside(file, path)
        if file.suffix == ".safetensors" or not file.is_file():
            continue
        most = JSON_BYTES if file.name in {CONFIG, TOKENIZER_CONFIG, GENERATION_CONFIG} else limits.vocabulary_bytes
        if file.suffix in {".json", ".txt", ".model", ".spm"} and file.stat().st_size > most:
            raise refusal(
                f"{path.name}/{file.name}", f"it has {file.stat().st_size:,} bytes, at most {most:,} are read", REMEDY
            )
    if (path / "adapter_config.json").exists():
        raise refusal(path.name, "it holds an adapter, which is no model by itself", "merge it into its model first")
    config, generation, tokenizer = (_settings(path / name) for name in (CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG))
    shapes: dict[str, Shape] = {}
    for file in weight_files(path):
        with file.open("rb") as handle:
            shapes |= check_header(handle, _size(file, limits), f"{path.name}/{file.name}", limits).shapes
    _check_sizes(config, f"{path.name}/{CONFIG}", len(shapes))
    _check_values(config, f"{path.name}/{CONFIG}")
    _check_values(tokenizer, f"{path.name}/{TOKENIZER_CONFIG}")
    has_tokenizer = any((path / name).is_file() for name in VOCABULARIES)
    return FolderContents(path.name, config, generation, shapes, has_tokenizer)


def weight_files(path: Path) -> list[Path]:
    """The files of weights of a folder: one, or the parts that its index names.

    Raises:
        CheckpointError: there is none, or the index names a file that is not in the folder.
    """
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    if not (path / INDEX).is_file():
        pickles = sorted(
            file.name for file in path.iterdir() if file.suffix in {".bin", ".pt", ".pth", ".h5", ".msgpack"}
        )
        raise refusal(
            path.name,
            f"its weights are there as {', '.join(pickles[:3]) or 'no file at all'}, and only safetensors are read",
            "load it once where you trust it and save it again: model.save_pretrained(folder)",
        )
    names = _settings(path / INDEX).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise refusal(f"{path.name}/{INDEX}", "it has no table of names and files (weight_map)")
    files = []
    for name in dict.fromkeys(names.values()):
        if not isinstance(name, str) or Path(name).name != name or not (path / name).is_file():
            raise refusal(f"{path.name}/{INDEX}", f"it names {name!r:.80}, which is no file of this folder")
        check_inside(path / name, path)
        files.append(path / name)
    return files


def _size(file: Path, limits: ReadLimits) -> int:
    size = file.stat().st_size
    if size > limits.file_bytes:
        reason = f"it has {size:,} bytes, at most {limits.file_bytes:,} are read"
        raise refusal(f"{file.parent.name}/{file.name}", reason, "raise ReadLimits.file_bytes")
    return size


def _settings(file: Path) -> dict[str, Any]:
    """The JSON object in a file, if it asks for nothing that is refused; empty where there is no such file."""
    name = f"{file.parent.name}/{file.name}"
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise refusal(name, f"it cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise refusal(name, "it is no table of names")
    for key, reason in REFUSED_KEYS.items():
        if found.get(key):
            raise refusal(name, reason, REMEDY)
    return found


def _check_sizes(config: dict[str, Any], name: str, n_tensors: int) -> None:
    """Refuse numbers beyond reason, before anything is built after them."""
    for key, value in config.items():
        if isinstance(value, dict):
            _check_sizes(value, name, n_tensors)
        if type(value) is not int:
            continue
        if abs(value) >= 2**31:
            raise refusal(name, f"it gives {key} as {value:,}")
        if "layer" in key and value > n_tensors:
            raise refusal(name, f"it describes {value:,} layers ({key}), the weights hold {n_tensors:,} tensors")
        if any(part in key for part in REPEATED) and value > MOST_REPEATED:
            raise refusal(name, f"it asks for {value:,} parts of one kind ({key}), at most {MOST_REPEATED:,} are built")


def _check_values(config: dict[str, Any], name: str) -> None:
    """Refuse values of a wrong kind that the library believes until the model runs."""
    for key, value in config.items():
        if isinstance(value, dict):
            if key != LABELS:
                _check_values(value, name)
            continue
        wanted = next((wanted for part, wanted in VALUES.items() if part in key), None)
        if wanted is not None and value is not None and not wanted[1](value):
            raise refusal(name, f"it gives {key} as {value!r:.80}, which should be {wanted[0]}", REMEDY)


def unreadable(source: str, error: Exception) -> CheckpointError:
    """How a failure of the library is told: by its own first line."""
    first = next(iter(str(error).splitlines()), "")[:300] or type(error).__name__
    return refusal(source, f"the transformers library cannot read it ({first})", REMEDY)

"""Hugging Face folders: recognised by their config.json, and checked like any untrusted file before they are built."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer.checkpoint.weight_files import CONFIG, CONFIG_BYTES, WEIGHTS
from transformer.errors import CheckpointError
from transformer.messages import Message
from transformer.safe.contents import Shape
from transformer.safe.headers import check_header
from transformer.safe.limits import ReadLimits
from transformer.safe.paths import check_inside
from transformer.safe.refusal import refused, refused_because

INDEX = "model.safetensors.index.json"
TOKENIZER_CONFIG, GENERATION_CONFIG = "tokenizer_config.json", "generation_config.json"

VOCABULARIES = (
    "tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm",
    "vocab.json", "vocab.txt",
)  # fmt: skip
"""Files that hold a vocabulary: one of them is there where the folder brings a tokenizer."""

REFUSED_KEYS = {
    "auto_map": Message("names_code_that_never_runs", key="auto_map"),
    "quantization_config": Message("weights_quantised"),
    "custom_pipelines": Message("names_code", key="custom_pipelines"),
    "custom_generate": Message("names_code", key="custom_generate"),
    "init_inputs": Message("tokenizer_arguments"),
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
        Message("wanted_names"), lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value)
    ),
    "dropout": (Message("wanted_share"), lambda value: not _is_number(value) or 0 <= value <= 1),
    "chunk_size_feed_forward": (Message("wanted_zero"), lambda value: _is_number(value) and value == 0),
    "relative_attention_max_distance": (Message("wanted_positive"), lambda value: _is_number(value) and value > 0),
    "relative_attention_num_buckets": (Message("wanted_positive"), lambda value: _is_number(value) and value > 0),
    "model_max_length": (Message("wanted_positive"), lambda value: _is_number(value) and value > 0),
}  # fmt: skip
"""Parts of a key's name, and what its value should be where there is one."""

REMEDY = Message("remedy_save_pretrained")


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


def checked_contents(path: Path, limits: ReadLimits) -> FolderContents:
    """What the folder holds, once its files are found to lie in it, to ask for no code, and to be what they claim.

    Raises:
        CheckpointError: one of them is not; or the weights are there as a pickle alone.
    """
    for file in path.iterdir():
        check_inside(file, path)
        if file.suffix == ".safetensors" or not file.is_file():
            continue
        most = CONFIG_BYTES if file.name in {CONFIG, TOKENIZER_CONFIG, GENERATION_CONFIG} else limits.vocabulary_bytes
        if file.suffix in {".json", ".txt", ".model", ".spm"} and file.stat().st_size > most:
            raise refused("file_large", f"{path.name}/{file.name}", REMEDY, found=file.stat().st_size, most=most)
    if (path / "adapter_config.json").exists():
        raise refused("adapter", path.name, Message("remedy_merge_adapter"))
    config, generation, tokenizer = (settings_in(path / name) for name in (CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG))
    shapes: dict[str, Shape] = {}
    for file in weight_files(path):
        with file.open("rb") as handle:
            shapes |= check_header(handle, _size(file, limits), f"{path.name}/{file.name}", limits).shapes
    check_sizes(config, f"{path.name}/{CONFIG}", len(shapes), limits)
    _check_values(config, f"{path.name}/{CONFIG}")
    _check_values(tokenizer, f"{path.name}/{TOKENIZER_CONFIG}")
    has_tokenizer = any((path / name).is_file() for name in VOCABULARIES)
    return FolderContents(path.name, config, generation, shapes, has_tokenizer)


def checked_config(path: Path) -> dict[str, Any]:
    """The config of the folder alone, once it is found to lie in it, and to ask for no code.

    Raises:
        CheckpointError: it does not; or what it says is none of what a config says.
    """
    file = path / CONFIG
    check_inside(file, path)
    if file.is_file() and file.stat().st_size > CONFIG_BYTES:
        raise refused("file_large", f"{path.name}/{CONFIG}", REMEDY, found=file.stat().st_size, most=CONFIG_BYTES)
    config = settings_in(file)
    _check_values(config, f"{path.name}/{CONFIG}")
    return config


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
        there = ", ".join(pickles[:3]) or Message("no_file_at_all")
        raise refused("weights_no_safetensors", path.name, Message("remedy_save_pretrained_again"), files=there)
    names = settings_in(path / INDEX).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise refused("index_without_table", f"{path.name}/{INDEX}")
    files = []
    for name in dict.fromkeys(names.values()):
        if not isinstance(name, str) or Path(name).name != name or not (path / name).is_file():
            raise refused("index_names_no_file", f"{path.name}/{INDEX}", name=f"{name!r:.80}")
        check_inside(path / name, path)
        files.append(path / name)
    return files


def _size(file: Path, limits: ReadLimits) -> int:
    size = file.stat().st_size
    if size > limits.file_bytes:
        source, remedy = f"{file.parent.name}/{file.name}", Message("remedy_raise_file_bytes")
        raise refused("file_large", source, remedy, found=size, most=limits.file_bytes)
    return size


BOUNDS = frozenset({"max_window_layers"})
"""Numbers of layers that only bound which of them do something, and may be more than there are."""


def settings_in(file: Path) -> dict[str, Any]:
    """The JSON object in a file, if it asks for nothing that is refused; empty where there is no such file."""
    name = f"{file.parent.name}/{file.name}"
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise refused("no_json", name, error=type(error).__name__) from error
    if not isinstance(found, dict):
        raise refused("no_table_of_names", name)
    for key, reason in REFUSED_KEYS.items():
        if found.get(key):
            raise refused_because(reason, name, REMEDY)
    return found


def check_sizes(config: dict[str, Any], name: str, n_tensors: int, limits: ReadLimits) -> None:
    """Refuse numbers beyond reason, before anything is built after them; a list says as much as it has entries.

    `n_tensors` is how many tensors the file holds; or, once that is known, how many of them the model uses.

    Raises:
        CheckpointError: names the key, its number, and how much is allowed.
    """
    for key, value in config.items():
        if isinstance(value, dict):
            check_sizes(value, name, n_tensors, limits)
        numbers = [one for one in (value if isinstance(value, list) else [value]) if type(one) is int]
        largest, beyond = max(numbers, default=0), next((one for one in numbers if abs(one) >= 2**31), None)
        if beyond is not None:
            raise refused("number_beyond_reason", name, key=key, value=beyond)
        if "layer" in key.replace("per_layer", "") and key not in BOUNDS:
            layers = max(largest, len(value) if isinstance(value, list) else 0)
            if layers > limits.layers:
                remedy = Message("remedy_raise_layers")
                raise refused("layers_beyond_reason", name, remedy, layers=layers, key=key, most=limits.layers)
            if layers > n_tensors and layers == value:  # a list may speak of more layers than there are
                raise refused("layers_beyond_weights", name, layers=layers, key=key, tensors=n_tensors)
        if any(part in key for part in REPEATED) and largest > MOST_REPEATED:
            raise refused("parts_beyond_reason", name, parts=largest, key=key, most=MOST_REPEATED)


def _check_values(config: dict[str, Any], name: str) -> None:
    """Refuse values of a wrong kind that the library believes until the model runs."""
    for key, value in config.items():
        if isinstance(value, dict):
            if key != LABELS:
                _check_values(value, name)
            continue
        wanted = next((wanted for part, wanted in VALUES.items() if part in key), None)
        if wanted is not None and value is not None and not wanted[1](value):
            raise refused("value_of_wrong_kind", name, REMEDY, key=key, value=f"{value!r:.80}", wanted=wanted[0])


def unreadable(source: str, error: Exception) -> CheckpointError:
    """How a failure of the library is told: by its own first line."""
    first = next(iter(str(error).splitlines()), "")[:300] or type(error).__name__
    return refused("library_cannot_read", source, REMEDY, error=first)

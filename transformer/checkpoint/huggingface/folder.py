"""Folders that the `transformers` library saves, and what they describe.

A folder is checked like any untrusted file before a model is built.

Weights are read as those of any other file, whether they are safetensors or pickles (`pytorch_model.bin`).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ...errors import CheckpointError
from ...messages import Message
from ...safe.contents import Contents, Shape
from ...safe.limits import ReadLimits, check_inside, refused, refused_because
from ...safe.zips import OTHERS, PICKLED
from ..foreign.report import RECORD_FILE, record_lines
from ..weight_files import CONFIG, CONFIG_BYTES, WEIGHTS
from .library import REMEDY, TABLES, library
from .model import Head, Kind

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

Reader = Callable[[Path, ReadLimits], Contents]
"""What reads the weights of a folder."""


@dataclass(frozen=True)
class FolderContents:
    """What a folder says of itself: its config, its generation settings, and its weights by name.

    Of tensors that are one, `shapes` has the first alone.
    """

    name: str
    config: dict[str, Any]
    generation: dict[str, Any]
    tensors: Mapping[str, Tensor]
    shapes: dict[str, Shape]
    has_tokenizer: bool

    @property
    def family(self) -> str:
        """The library's name for the architecture."""
        return str(self.config["model_type"])

    @property
    def saved_by(self) -> str:
        """The class that saved it; empty where its config names none."""
        return next(iter(self.config.get("architectures") or ()), "")


def checked_contents(path: Path, limits: ReadLimits, reader: Reader) -> FolderContents:
    """What the folder holds, once its files are found to lie in it, to ask for no code, and to be what they claim.

    `reader` reads its weights.

    Raises:
        CheckpointError: one of them is not.
    """
    for file in path.iterdir():
        check_inside(file, path)
        if file.suffix in {".json", ".txt", ".model", ".spm"} and file.is_file():
            is_config = file.name in {CONFIG, TOKENIZER_CONFIG, GENERATION_CONFIG}
            found, most = file.stat().st_size, CONFIG_BYTES if is_config else limits.vocabulary_bytes
            if found > most:
                raise refused("file_large", f"{path.name}/{file.name}", REMEDY, found=found, most=most)
    if (path / "adapter_config.json").exists():
        raise refused("adapter", path.name, Message("remedy_merge_adapter"))
    config, generation, tokenizer = (settings_in(path / name) for name in (CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG))
    _check_values(config, f"{path.name}/{CONFIG}")
    _check_values(tokenizer, f"{path.name}/{TOKENIZER_CONFIG}")
    tensors = reader(path, limits).tensors
    first: dict[Any, str] = {}
    for name, one in tensors.items():
        first.setdefault((one.data_ptr(), one.shape), name)
    shapes = {name: tuple(tensors[name].shape) for name in first.values()}
    check_sizes(config, f"{path.name}/{CONFIG}", len(shapes), limits)
    has_tokenizer = any((path / name).is_file() for name in VOCABULARIES)
    return FolderContents(path.name, config, generation, tensors, shapes, has_tokenizer)


def weight_files(path: Path) -> list[Path]:
    """The files of weights of a folder: one, the parts that its index names, or its pickles.

    Raises:
        CheckpointError: there is none, or one is not in the folder.
    """
    if (path / WEIGHTS).is_file():
        files = [path / WEIGHTS]
    elif (path / INDEX).is_file():
        names = settings_in(path / INDEX).get("weight_map")
        if not isinstance(names, dict) or not names:
            raise refused("index_without_table", f"{path.name}/{INDEX}")
        for name in names.values():
            if not isinstance(name, str) or Path(name).name != name or not (path / name).is_file():
                raise refused("index_names_no_file", f"{path.name}/{INDEX}", name=f"{name!r:.80}")
        files = [path / name for name in dict.fromkeys(names.values())]
    else:
        files = sorted(file for file in path.glob(PICKLED) if file.is_file())
        if not files:
            others = sorted(file.name for file in path.iterdir() if file.suffix in OTHERS)
            there = ", ".join(others[:3]) or Message("no_file_at_all")
            raise refused("weights_no_safetensors", path.name, Message("remedy_save_pretrained_again"), files=there)
    for file in files:
        check_inside(file, path)
    return files


BOUNDS = frozenset({"max_window_layers"})
"""Numbers of layers that only bound which of them do something, and may be more than there are."""


def settings_in(file: Path) -> dict[str, Any]:
    """The JSON object in a file, if it asks for nothing that is refused; empty where there is no such file."""
    name = f"{file.parent.name}/{file.name}"
    if not file.is_file():
        return {}
    if file.stat().st_size > CONFIG_BYTES:
        raise refused("file_large", name, REMEDY, found=file.stat().st_size, most=CONFIG_BYTES)
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


MAKERS: Final[dict[Head | Kind, str]] = {
    "seq2seq": "AutoModelForSeq2SeqLM",
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModel",
    "words": "AutoModelForMaskedLM",
    "classes": "AutoModelForSequenceClassification",
    "scores": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
}
"""The library's class for each kind of model without a head of its own, and for each head."""

OF_WORDS, OF_TEXT, OF_TOKENS = ("ForMaskedLM", "ForPreTraining"), "ForSequenceClassification", "ForTokenClassification"
"""How the names of classes end that save an encoder with a head that fills hidden words in, one answer for a text, and
one for each token."""

MANY, NUMBERS = "multi_label_classification", "regression"
"""What a config calls a problem whose classes do not exclude one another, and one of numbers."""

MOST_LABELS = 10_000
"""Classes whose names are taken from a config; more of them are numbered."""


def described_kind(path: Path) -> Kind:
    """What the config of the folder at `path` describes; neither its weights nor its tokenizer is looked at.

    Raises:
        CheckpointError: the library is not installed, the config is refused, or describes no model of text.
    """
    auto = library(TABLES)
    check_inside(path / CONFIG, path)
    config = settings_in(path / CONFIG)
    _check_values(config, f"{path.name}/{CONFIG}")
    contents = FolderContents(path.name, config, {}, {}, {}, has_tokenizer=False)
    both = config.get("is_encoder_decoder")
    if both is None:
        both = contents.family in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return kind_of(contents, bool(both))


def kind_of(contents: FolderContents, both: bool) -> Kind:
    """Which stacks a model has, by the class that saved it; `both` says that it has two.

    Raises:
        CheckpointError: it is no model of text.
    """
    auto, family = library(TABLES), contents.family
    if both and family in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "seq2seq"
    reads_alone = family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    writes_alone = family in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if not both and writes_alone and (not reads_alone or contents.saved_by.endswith(("ForCausalLM", "LMHeadModel"))):
        return "decoder"
    if not both and reads_alone:
        return "encoder"
    raise no_model_of_text(contents)


def no_model_of_text(contents: FolderContents) -> CheckpointError:
    """The refusal of a family that is not run here, with the lines that record it."""
    image, patch = (contents.config.get(key) for key in ("image_size", "patch_size"))
    grid = (image // patch,) * 2 if isinstance(image, int) and isinstance(patch, int) and image > patch > 0 else None
    first, second, third = record_lines(contents.name, "**inputs", grid)
    remedy = Message("remedy_record", file=RECORD_FILE, first=first, second=second, third=third)
    return refused("no_model_of_text", contents.name, remedy, family=contents.family)


def head_of(contents: FolderContents, kind: Kind, settings: Any) -> Head:
    """What stands on the states: nothing that is known here, scores of words, of classes or tokens, or numbers."""
    auto, saved, family = library(TABLES), contents.saved_by, contents.family
    if kind == "seq2seq":
        return ""
    if kind == "encoder" and saved.endswith(OF_WORDS) and family in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "words"
    if saved.endswith(OF_TOKENS) and family in auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES:
        return "tokens"
    if not saved.endswith(OF_TEXT) or family not in auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        return ""
    problem = settings.problem_type
    if problem == NUMBERS or (problem is None and settings.num_labels == 1):  # as the library itself decides
        return "scores"
    return "classes"


def labels_of(settings: Any) -> tuple[str, ...]:
    """What the classes are called, in the order of their ids."""
    named, count = getattr(settings, "id2label", None) or {}, int(getattr(settings, "num_labels", 0) or 0)
    return tuple(str(named.get(i, i)) for i in range(min(count, MOST_LABELS)))

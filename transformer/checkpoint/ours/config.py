"""The config of one of our folders, which anyone can write: checked before memory is taken for what it describes."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...messages import Message
from ...nn.positions import FORMULAS
from ...safe.contents import Shape
from ...safe.limits import ReadLimits, check_inside, refused, said
from ...safe.reading import check_header
from ..checkpoint import ARCHITECTURES, Model
from ..weight_files import CONFIG, WEIGHTS

REMEDY = Message("remedy_convert_again")

SMALL_FILE_BYTES = 8 * 1024 * 1024
"""The most that a file beside the weights may have: a config, examples, a tokenizer, a card."""

RETIRED = {
    "rotary": False, "rotary_halves": False, "norm_after_embedding": False, "attention_dropout": 0.0,
    "head_activation": "relu", "head_reads": "each", "without_norm": "",
}  # fmt: skip
"""Options of earlier configs that may still stand in one, where they have these values."""

SPARE_NUMBERS = 10_000_000
"""A config may describe so many numbers more than its weights hold before it is refused outright, not name by name.

Those of a table of positions that a formula gives count too, although no file holds them.
"""

LARGEST = 1e30
"""Real numbers of a config lie below; a comparison refuses NaN, and whole numbers that no float can be."""

LONGEST_WORD = 100
"""Characters of a word in a config; the longest that means something has under 20."""


def checked_folder(path: Path, limits: ReadLimits) -> tuple[dict[str, Any], type[Model], Any]:
    """What the folder's config says, its model's class and config, once its files are as large as they claim."""
    for file in path.iterdir():
        check_inside(file, path)
        most = limits.file_bytes if file.name == WEIGHTS else SMALL_FILE_BYTES
        if file.is_file() and file.stat().st_size > most:
            raise refused("file_large", f"{path.name}/{file.name}", REMEDY, found=file.stat().st_size, most=most)
    weights, name = path / WEIGHTS, f"{path.name}/{WEIGHTS}"
    with weights.open("rb") as handle:
        header = check_header(handle, weights.stat().st_size, name, limits)
    about = read_json(path / CONFIG)
    return about, *_checked_config(about, f"{path.name}/{CONFIG}", header.shapes, limits)


def _checked_config(about: Any, name: str, shapes: Mapping[str, Shape], limits: ReadLimits) -> tuple[type[Model], Any]:
    """The class and the config of the model that a config.json describes, for weights of these shapes.

    A config whose model would take more than its weights is refused; a wrong one of the right size is told by name.
    """
    try:
        model_type, config_type = ARCHITECTURES[about["architecture"]]
        values = {key: value for key, value in about["config"].items() if key not in RETIRED or value != RETIRED[key]}
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise refused("config_without_model", name, REMEDY, known=tuple(ARCHITECTURES)) from error
    kinds = {name: one.type for name, (one, _) in config_type.flat().items()}
    for key, value in values.items():
        if key not in kinds:
            raise refused("config_key_unknown", name, REMEDY, key=f"{key!r:.80}")
        if not _is_plain(value, kinds[key]):
            raise refused("config_value", name, REMEDY, key=key, value=f"{value!r:.80}")
    layers = max((value for key, value in values.items() if key.endswith("layers")), default=0)
    if layers > limits.layers:
        raise refused("config_many_layers", name, Message("remedy_raise_layers"), layers=layers, most=limits.layers)
    if layers > len(shapes):
        raise refused("config_layers", name, layers=layers, tensors=len(shapes))
    kept = sum(math.prod(shape) for shape in shapes.values())
    most = 2 * kept + SPARE_NUMBERS
    try:
        config = config_type.of(**values)
        options = config.options
        rows = max(options["max_length"], options.get("target_length", 0))
        if rows * options.get("d_model", 1) > most:
            raise refused("config_positions", name, REMEDY, positions=rows)
        described = sum(math.prod(shape) for shape in meta_shapes(model_type, config).values())
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # torch's own for sizes beyond any memory
        raise refused("config_impossible", name, REMEDY, error=said(error)) from error
    if described > most:
        raise refused("config_numbers", name, REMEDY, described=described, kept=kept)
    return model_type, config


def read_json(file: Path) -> Any:
    """What a JSON file of a folder holds.

    Raises:
        CheckpointError: it is too large, or cannot be read as JSON.
    """
    name = f"{file.parent.name}/{file.name}"
    try:
        if (size := file.stat().st_size) > SMALL_FILE_BYTES:
            raise refused("file_large", name, REMEDY, found=size, most=SMALL_FILE_BYTES)
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise refused("no_json", name, REMEDY, error=type(error).__name__) from error


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of the kind that a config's field has, and no number beyond reason."""
    if kind == int | None:
        return value is None or _is_plain(value, int)
    if kind is int:
        return type(value) is int and abs(value) < 2**31
    if kind is float:
        return type(value) in {int, float} and -LARGEST < value < LARGEST
    if kind in {bool, str}:
        return isinstance(value, kind) and len(str(value)) <= LONGEST_WORD
    number = float if kind == Sequence[float] else int
    return isinstance(value, list) and len(value) < 1000 and all(_is_plain(item, number) for item in value)


class _Unfilled(TorchFunctionMode):
    """Skips `nn.init.normal_`, as a meta tensor has nothing to fill."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        return options["tensor"] if func is nn.init.normal_ else func(*args, **options)


def meta_shapes(model: type[nn.Module], config: Any) -> dict[str, Shape]:
    """The shape of each parameter of our model, without taking memory for it.

    Arithmetic on the meta device would make torch import its compiler (3 s). So nothing is filled, and a formula's
    table, which is no parameter, is not computed.
    """
    computed = config.options.get("positions") in FORMULAS
    lean = config.changed(positions="stored", max_length=1) if computed else config
    with torch.device("meta"), _Unfilled():
        shapes = {name: tuple(p.shape) for name, p in model(lean).named_parameters()}
    return {name: shape for name, shape in shapes.items() if not (computed and name.endswith("positions.table"))}

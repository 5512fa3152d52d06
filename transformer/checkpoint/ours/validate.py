"""Our own folders are checked like any untrusted file, since anyone can write one: sizes first, then memory."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.meta_shapes import meta_shapes
from transformer.checkpoint.ours.retired import current_options
from transformer.checkpoint.weight_files import CONFIG, WEIGHTS
from transformer.messages import Message
from transformer.safe.contents import Shape
from transformer.safe.headers import check_header
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.paths import check_inside
from transformer.safe.refusal import refused, said

SMALL_FILE_BYTES = 8 * 1024 * 1024
"""The most that a file beside the weights may have: a config, examples, a tokenizer, a card."""

SPARE_NUMBERS = 10_000_000
"""A config may describe so many numbers more than its weights hold before it is refused outright, not name by name.

Those of a table of positions that a formula gives count too, although no file holds them.
"""

REMEDY = Message("remedy_convert_again")

LARGEST = 1e30
"""Real numbers of a config lie below; a comparison refuses NaN, and whole numbers that no float can be."""

LONGEST_WORD = 100
"""Characters of a word in a config; the longest that means something has under 20."""


def checked_folder(path: Path, limits: ReadLimits) -> Path:
    """The folder, once its files are found to lie in it and to be as large as they, and its config, claim.

    Raises:
        CheckpointError: a link leads out of it, a file is too large or damaged, or the config describes a model that
            its weights cannot be.
    """
    for file in path.iterdir():
        check_inside(file, path)
        most = limits.file_bytes if file.name == WEIGHTS else SMALL_FILE_BYTES
        if file.is_file() and file.stat().st_size > most:
            raise refused("file_large", f"{path.name}/{file.name}", REMEDY, found=file.stat().st_size, most=most)
    weights, name = path / WEIGHTS, f"{path.name}/{WEIGHTS}"
    with weights.open("rb") as handle:
        header = check_header(handle, weights.stat().st_size, name, limits)
    checked_config(_read(path / CONFIG, f"{path.name}/{CONFIG}"), f"{path.name}/{CONFIG}", header.shapes, limits)
    return path


def checked_config(
    about: Any, name: str, shapes: Mapping[str, Shape], limits: ReadLimits = DEFAULT_LIMITS
) -> tuple[str, Any]:
    """The architecture and the config that a config.json describes, for weights of these shapes.

    A config whose model would take more than its weights is refused; a wrong one of the right size is told by name.

    Raises:
        CheckpointError: it describes no known model, or one that the weights cannot be.
    """
    try:
        model_type, config_type = ARCHITECTURES[about["architecture"]]
        values = current_options(about["architecture"], about["config"])
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise refused("config_without_model", name, REMEDY, known=tuple(ARCHITECTURES)) from error
    kinds = {field.name: field.type for field in fields(config_type)}
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
    held = sum(math.prod(shape) for shape in shapes.values())
    most = 2 * held + SPARE_NUMBERS
    try:
        config = config_type(**values)
        rows = max(getattr(config, key, 0) for key in ("max_length", "target_length"))
        if rows * getattr(config, "d_model", 1) > most:
            raise refused("config_positions", name, REMEDY, positions=rows)
        described = sum(math.prod(shape) for shape in meta_shapes(model_type, config).values())
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # torch's own for sizes beyond any memory
        raise refused("config_impossible", name, REMEDY, error=said(error)) from error
    if described > most:
        raise refused("config_numbers", name, REMEDY, described=described, held=held)
    return about["architecture"], config


def _read(file: Path, name: str) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise refused("no_json", name, REMEDY, error=type(error).__name__) from error


def _is_plain(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of the kind that a config's field has, and no number beyond reason."""
    if kind == int | None:
        return value is None or _is_plain(value, int)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return type(value) is int and abs(value) < 2**31
    if kind is float:
        return type(value) in {int, float} and -LARGEST < value < LARGEST
    if kind is str:
        return isinstance(value, str) and len(value) <= LONGEST_WORD
    number = float if kind == Sequence[float] else int
    return isinstance(value, list) and len(value) < 1000 and all(_is_plain(item, number) for item in value)

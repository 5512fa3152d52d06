"""Vectors that someone brings for a model that has no embedding, instead of those that are drawn for it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from transformer.checkpoint.foreign.layouts.base import Drawn, Fit, Given
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.checkpoint.safe.contents import shape_text
from transformer.errors import CheckpointError
from transformer.messages import Message

ENDING = ".npz"
_CALLED = re.compile(r"(?:.*[-_.])?(?:vectors?|inputs?|memory)", re.IGNORECASE)

MOST = 4096
"""Vectors of a table: a text names as many at most."""

NAMES = {
    "source": ("source", "src", "inputs", "input", "x", "keys"),
    "embedding.weight": ("source", "src", "inputs", "input", "x"),
    "target": ("target", "tgt", "trg", "targets", "y", "queries"),
    "memory": ("memory", "encoder_output", "encoder_outputs"),
}
"""What arrays are called, by the table of ours that they fill."""

SIZES = {"source": "source_vocab", "embedding.weight": "vocab", "target": "target_vocab", "memory": "memory_vectors"}
"""Where the config says how many rows a table has."""


def is_vectors(name: str) -> bool:
    """Whether a file of this name holds vectors to read: any .npz, and .safetensors that are called so."""
    path = Path(name)
    called = path.suffix.lower() == ".safetensors" and _CALLED.fullmatch(path.stem) is not None
    return path.suffix.lower() == ENDING or called


def with_vectors(found: Recognition, vectors: Mapping[str, Tensor], file: str) -> Recognition:
    """The same, reading the vectors of `file` where they were drawn: (position, width), or batches of such.

    A lone array is read on every side but the memory's; one that nothing is called after is refused.

    Raises:
        CheckpointError: the model has an embedding of its own, or the vectors are of another width, too many or none.
    """
    fit = found.fit
    drawn = [key for key, source in fit.sources.items() if isinstance(source, Drawn)] if fit is not None else []
    if fit is None or not drawn:
        raise CheckpointError("brought_vectors_not_read", file=file)
    given = {key: name for key in drawn for name in NAMES[key] if name in vectors}
    if not given and len(vectors) == 1:
        given = dict.fromkeys([key for key in drawn if key != "memory"] or drawn, next(iter(vectors)))
    if "source" in given and "target" in drawn and vectors[given["source"]].shape[-1:] == (fit.config.d_model,):
        given.setdefault("target", given["source"])
    if not given:
        wanted = tuple(name for key in drawn for name in NAMES[key])
        raise CheckpointError("brought_vectors_not_named", file=file, found=tuple(vectors), names=wanted)
    rows = {key: _rows(vectors[name], _width(fit.config, key), name, file) for key, name in given.items()}
    return _reading(found, fit, rows, file)


def _width(config: Any, key: str) -> int:
    """How wide the vectors of one table are: what cross-attention reads may be of another width than the model."""
    of_memory = key == "memory" or (key == "source" and getattr(config, "kind", "") == "cross")
    return getattr(config, "d_memory", 0) * of_memory or config.d_model


def _reading(found: Recognition, fit: Fit, rows: Mapping[str, Tensor], file: str) -> Recognition:
    config = replace(fit.config, **{SIZES[key]: len(values) for key, values in rows.items()})
    sources = {**fit.sources, **{key: Given(None, rows=values) for key, values in rows.items()}}
    all_brought = all(key in rows or not isinstance(source, Drawn) for key, source in fit.sources.items())
    kept = () if all_brought else fit.assumed
    brought = Message("reason_brought", file=file, counts=tuple(f"{len(values)}" for values in rows.values()))
    fit = replace(fit, config=config, sources=sources, assumed=kept, reasons=(*fit.reasons, brought))
    told = tuple(one for one in found.report.assumptions if one not in found.report.drawn or one in kept)
    report = replace(found.report, config=config, reasons=(*found.report.reasons, brought), assumptions=told)
    return replace(found, fit=fit, report=report)


def _rows(values: Tensor, d_model: int, name: str, file: str) -> Tensor:
    """The vectors of all sequences, one below the other."""
    if not values.is_floating_point() or values.dim() not in {2, 3} or values.shape[-1] != d_model:
        raise CheckpointError(
            "brought_vectors_of_other_kind",
            file=file,
            name=name,
            found=shape_text(tuple(values.shape)),
            d_model=d_model,
        )
    rows = values.reshape(-1, d_model)
    if not 0 < len(rows) <= MOST or not bool(rows.isfinite().all()):
        raise CheckpointError("brought_vectors_many", file=file, name=name, found=len(rows), most=MOST)
    return rows

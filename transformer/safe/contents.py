"""What a checkpoint file holds: the tensors by name, and the options that stood beside them; and its fingerprint."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..messages import Message

Shape = tuple[int, ...]
"""The size of a tensor along each axis."""


def shape_text(shape: Shape) -> str:
    """A shape as it is written: `12 x 64`."""
    return " x ".join(map(str, shape)) if shape else Message("one_number")


@dataclass(frozen=True, eq=False)
class Contents:
    """The weights of one checkpoint, and the options that stood beside them.

    `settings` are these options by place and name (`model_args.n_head`); those of a config.json by their name alone.
    `place` says where in the file the weights lay (`model`, `state_dict`, or nothing for the top), `format` how it was
    written, `dropped` which kinds of values beside the weights were passed over. A folder of two files has one
    `Contents`, whose names start with the file's (`encoder.embedding.weight`). `others` names other sets of the same
    weights; `vocabularies` are tokens in the order of their ids, by the name under which they lay beside the weights.
    """

    source: str
    tensors: Mapping[str, Tensor]
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    format: str = ""
    dropped: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Every name with its shape; layouts are recognised from these alone."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def same(self, first: str, second: str) -> bool:
        """Whether two tensors hold the same numbers: then the original shares, or once shared, one matrix."""
        a, b = self.tensors.get(first), self.tensors.get(second)
        return a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)


def fingerprint(streams: Iterable[BufferedIOBase]) -> str:
    """SHA-256 of one file, or of several one after the other (a recurrent pair), in hexadecimal."""
    digest = hashlib.sha256()
    for stream in streams:
        stream.seek(0)
        hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def fingerprint_of(paths: Iterable[Path]) -> str:
    """As `fingerprint`, for files on disk; one is open at a time."""

    def opened() -> Iterator[BufferedIOBase]:
        for path in paths:
            with path.open("rb") as file:
                yield file

    return fingerprint(opened())

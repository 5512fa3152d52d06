"""A proof that a checkpoint is read right: what the original computed is held against what is computed here.

Names and shapes cannot tell everything (the number of heads, where a norm stands, what is scaled), and a wrong answer
gives maps that look plausible. Whoever has the original saves what it made of a few ids; `check` says how far the two
are apart, and where, in the order in which the model runs, that begins.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformer.attention.capture import recording
from transformer.attention.record import AttentionMap
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.safe.arrays import read_arrays_file
from transformer.checkpoint.safe.contents import Contents, shape_text
from transformer.errors import InputError
from transformer.messages import Message
from transformer.runs.changed import run_of
from transformer.runs.parity import TokenIds, token_ids

INPUTS = (
    *("input", "inputs", "ids", "input_ids", "source", "sources", "src", "source_ids"),
    *("pixels", "pixel_values", "images"),
)
TARGETS = ("target", "targets", "tgt", "trg", "target_ids", "decoder_input_ids")
"""What the ids (or the pixels) may be called in a file of what is expected."""

SCORES = ("logits", "scores", "output", "outputs", "out")
"""Other names for what a decoder ends with: compared as log-probabilities, whatever was added to a row."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-1}
"""How far two computations may be apart, by the precision in which the original was saved."""

MOST_IDS = 16_384
"""Ids of a batch, source and target each: what is expected is for a few sentences."""

MOST_PIXELS = 4_000_000
"""Numbers of a batch of pictures, of all channels."""


@dataclass(frozen=True)
class Difference:
    """One array that was compared. `place` is where the largest difference lies; `unseen` counts rows that see no key.

    Such rows are left out: originals spread them evenly or leave them undefined, and here they are zero.
    """

    name: str
    shape: tuple[int, ...]
    largest: float
    place: tuple[int, ...]
    found: float
    expected: float
    tolerance: float
    unseen: int = 0

    @property
    def agrees(self) -> bool:
        """Whether the two are no further apart than rounding."""
        return self.largest <= self.tolerance


@dataclass(frozen=True, eq=False)
class Check:
    """Differences between a checkpoint's arrays and the expected ones, in the order in which the model computes them.

    `other` names what the file holds beside them, which this model has not.
    """

    checkpoint: str
    differences: tuple[Difference, ...]
    other: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all that was expected is what was computed."""
        return all(one.agrees for one in self.differences)

    @property
    def begins(self) -> Difference | None:
        """The first array that differs; None where all agree."""
        return next((one for one in self.differences if not one.agrees), None)

    @property
    def largest(self) -> Difference:
        """The array that differs most."""
        return max(self.differences, key=lambda one: one.largest)

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        most, first = self.largest, self.begins
        said: dict[str, Any] = {"checkpoint": self.checkpoint, "largest": most.largest, "name": most.name}
        if first is None:
            return Message("check_agrees", count=len(self.differences), **said)
        place = ", ".join(map(str, first.place))
        where: dict[str, Any] = {"begins": first.name, "place": place, "found": first.found, "expected": first.expected}
        return Message("check_differs", **said, **where)


def check(
    checkpoint: Checkpoint,
    inputs: TokenIds,
    expected: Mapping[str, Any],
    targets: TokenIds | None = None,
    *,
    tolerance: float | None = None,
) -> Check:
    """Run `checkpoint` on a batch of ids in double precision and compare with the original implementation's output.

    `expected` has arrays by name: attention under its site (`encoder.0.self`, `decoder.2.cross`), (batch, head, query,
    key) or its mean over heads, and outputs under the names that `attention_maps` gives them. Of a decoder, `logits`
    will do for `log_probs`. Of one sentence, the axis of the batch may be left out. An array agrees within `tolerance`,
    which follows from its precision if it is not given.

    Raises:
        InputError: nothing of what is expected is of this model, an array has another shape, or the ids are none that
            it reads.
    """
    asked = {name: _array(name, values) for name, values in expected.items()}
    with run_of(checkpoint), recording() as seen:
        model = copy.deepcopy(checkpoint.model).double()
        outputs = model.outputs(*(token_ids(ids) for ids in (inputs, targets) if ids is not None))
    batch = len(token_ids(inputs))
    found: list[Difference] = []
    for site in seen.sites:
        if site in asked:
            maps = [seen.map(site, batch=row) for row in range(batch)]
            found.append(_compared_maps(site, maps, *asked.pop(site), tolerance))
    for name, values in outputs.items():
        for alias in (name, *(SCORES if name == "log_probs" else ())):
            if alias in asked:
                wanted, usual = asked.pop(alias)
                if alias != name:  # scores, to which anything may have been added row by row
                    wanted = torch.from_numpy(wanted).log_softmax(-1).numpy()
                found.append(_compared_output(alias, values.numpy(), wanted, usual, tolerance))
    if not found:
        known = (*map(str, seen.sites), *outputs)
        raise InputError("check_nothing_known", found=tuple(expected) or Message("nothing"), known=known)
    return Check(checkpoint.name, tuple(found), tuple(asked))


def check_file(checkpoint: Checkpoint, path: str | Path, *, tolerance: float | None = None) -> Check:
    """As `check`, with ids (`input`, or `source` and `target`) and expected arrays from one .npz or .safetensors file.

    Raises:
        CheckpointError: the file is refused.
        InputError: as `check`; or it holds no ids (no pixels, for a model of pictures), or too many.
    """
    return check_contents(checkpoint, read_arrays_file(Path(path)), tolerance=tolerance)


def check_contents(checkpoint: Checkpoint, contents: Contents, *, tolerance: float | None = None) -> Check:
    """As `check_file`, of a file that was read.

    Raises:
        InputError: as `check_file`.
    """
    arrays = dict(contents.tensors)
    inputs, targets = _taken(arrays, INPUTS), _taken(arrays, TARGETS)
    if inputs is None:
        raise InputError("check_no_ids", file=contents.source, found=tuple(arrays), names=INPUTS)
    if checkpoint.model.abilities.reads_pictures:
        if not inputs.is_floating_point() or inputs.dim() != 4 or not 0 < inputs.numel() <= MOST_PIXELS:
            raise InputError("check_pixels_of_no_kind", file=contents.source, most=MOST_PIXELS)
        return check(checkpoint, inputs, arrays, tolerance=tolerance)
    for ids in (inputs, targets):
        if ids is not None and not _can_be_read(ids):
            raise InputError("check_ids_of_no_kind", file=contents.source, most=MOST_IDS)
    written = None if targets is None else targets.long()
    return check(checkpoint, inputs.long(), arrays, written, tolerance=tolerance)


def _can_be_read(given: torch.Tensor) -> bool:
    """Whether these are ids."""
    return not given.is_floating_point() and given.dim() in {1, 2} and 0 < given.numel() <= MOST_IDS


def _taken(arrays: dict[str, torch.Tensor], names: Sequence[str]) -> torch.Tensor | None:
    """The first of `names` that is there, which then is there no more."""
    return next((arrays.pop(name) for name in names if name in arrays), None)


def _array(name: str, values: Any) -> tuple[np.ndarray, float]:
    """What is expected, in double precision, and how far it may be from what is computed."""
    array = values if isinstance(values, torch.Tensor) else torch.as_tensor(np.asarray(values))
    if array.is_complex():
        raise InputError("check_no_numbers", name=name)
    return array.double().numpy(), TOLERANCES.get(str(array.dtype).removeprefix("torch."), TOLERANCES["float32"])


def _compared_maps(
    site: str, maps: Sequence[AttentionMap], expected: np.ndarray, usual: float, tolerance: float | None
) -> Difference:
    """One attention, sentence by sentence; of rows that see no key, how many there are."""
    shape = (len(maps), maps[0].n_heads, *maps[0].shape)
    averaged = (shape[0], *shape[2:])
    wanted = _in_batch(site, expected, (shape, averaged))
    mean = wanted.ndim == len(averaged)
    found = np.stack([one.head_average() if mean else one.all_weights() for one in maps])
    seen = np.stack([one.mask().any(-1) for one in maps])
    unseen = int((~seen).sum())
    compared = seen[:, :, None] if mean else seen[:, None, :, None]
    wanted = np.where(compared, wanted, 0)
    return _difference(site, found, wanted, usual if tolerance is None else tolerance, unseen)


def _compared_output(
    name: str, found: np.ndarray, expected: np.ndarray, usual: float, tolerance: float | None
) -> Difference:
    wanted = _in_batch(name, expected, (found.shape,))
    return _difference(name, found, wanted, usual if tolerance is None else tolerance)


def _in_batch(name: str, expected: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """What is expected, with the axis of the batch, which one sentence may lack."""
    for shape in shapes:
        if expected.shape == shape or (shape[0] == 1 and expected.shape == shape[1:]):
            return expected.reshape(shape)
    wanted, found = shape_text(shapes[0]), shape_text(expected.shape)
    raise InputError("check_other_shape", name=name, needed=wanted, found=found)


def _difference(name: str, found: np.ndarray, wanted: np.ndarray, tolerance: float, unseen: int = 0) -> Difference:
    apart = np.nan_to_num(abs(found - wanted), nan=np.inf)  # what is undefined on one side agrees with nothing
    place = np.unravel_index(apart.argmax(), apart.shape) if apart.size else ()
    first, second = (float(values[place]) if apart.size else 0.0 for values in (found, wanted))
    largest = float(apart[place]) if apart.size else 0.0
    return Difference(name, found.shape, largest, tuple(map(int, place)), first, second, tolerance, unseen)

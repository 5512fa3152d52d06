"""What an original computed from a few ids, array by array, held against what a model computes here.

Attention is compared under its site; maps under other names (the paths of the original's modules, as a recording of it
has them) are compared with the sites of their shape, in the order in which both models run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer.attention.capture import recording
from transformer.attention.record import AttentionMap
from transformer.errors import InputError
from transformer.messages import Message
from transformer.safe.contents import Contents, shape_text
from transformer.sites import Site

INPUTS = ("input", "inputs", "ids", "input_ids", "source", "sources", "src", "source_ids")
TARGETS = ("target", "targets", "tgt", "trg", "target_ids", "decoder_input_ids")
"""What the ids may be called in a file of what is expected."""

SCORES = ("logits", "scores", "output", "outputs", "out")
"""Other names for what a decoder ends with: compared as log-probabilities, whatever was added to a row."""

OUTPUT = ("output", "outputs", "out")
"""Other names for what a model ends with that writes no tokens."""

OUTPUTS = ("log_probs", "hidden")
"""What models here call their outputs, besides `SCORES`: no maps."""

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-1}
"""How far two computations may be apart, by the precision in which the original was saved."""

MOST_IDS = 16_384
"""Ids of a batch, source and target each: what is expected is for a few sentences."""


@dataclass(frozen=True)
class Difference:
    """One array that was compared. `place` is where the largest difference lies; `unseen` counts rows that see no key.

    Such rows are left out: originals spread them evenly or leave them undefined, and here they are zero. `given` is
    what the array is called in the file, where that is not its `name` here.
    """

    name: str
    shape: tuple[int, ...]
    largest: float
    place: tuple[int, ...]
    found: float
    expected: float
    tolerance: float
    unseen: int = 0
    given: str = ""

    @property
    def title(self) -> str:
        """What was compared with what: the name, or where names differ both."""
        return Message("check_matched", name=self.name, given=self.given) if self.given else self.name

    @property
    def agrees(self) -> bool:
        """Whether the two are no further apart than rounding."""
        return self.largest <= self.tolerance


@dataclass(frozen=True, eq=False)
class Check:
    """How far a checkpoint is from what was expected of it, array by array in the order in which the model runs.

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
        said: dict[str, Any] = {"checkpoint": self.checkpoint, "largest": most.largest, "name": most.title}
        if first is None:
            return Message("check_agrees", count=len(self.differences), **said)
        place = ", ".join(map(str, first.place))
        said |= {"begins": first.title, "place": place, "found": first.found, "expected": first.expected}
        return Message("check_differs", **said)


class Asked(NamedTuple):
    """What the original read, and what it made of that, by name. Files of arrays that keep no order match by name."""

    inputs: Tensor
    targets: Tensor | None
    arrays: Mapping[str, Any]
    in_order: bool = True

    @classmethod
    def of(cls, contents: Contents) -> "Asked":
        """What is in a file.

        Raises:
            InputError: it holds no ids, or too many.
        """
        arrays = dict(contents.tensors)
        inputs, targets = _taken(arrays, INPUTS), _taken(arrays, TARGETS)
        if inputs is None:
            raise InputError("check_no_ids", file=contents.source, found=tuple(arrays), names=INPUTS)
        in_order = contents.format == "npz"
        for ids in (inputs, targets):
            if ids is not None and not _can_be_read(ids):
                raise InputError("check_ids_of_no_kind", file=contents.source, most=MOST_IDS)
        return cls(inputs.long(), None if targets is None else targets.long(), arrays, in_order)


def compare(name: str, model: Any, asked: Asked, tolerance: float | None = None, *, maps_only: bool = False) -> Check:
    """Run `model`, which is in double precision, and compare. With `maps_only`, no outputs: there may be no arrays.

    Raises:
        InputError: see `runs.check.check`.
    """
    read = [ids[None] if ids.dim() == 1 else ids for ids in (asked.inputs, asked.targets) if ids is not None]
    left = {name: _array(name, values) for name, values in asked.arrays.items()}
    with torch.inference_mode(), recording() as seen:
        outputs: dict[str, Tensor] = model.outputs(*read)
    maps = {site: [seen.map(site, batch=row) for row in range(len(read[0]))] for site in seen.sites}
    named = _named(maps, {name: array.shape for name, (array, _) in left.items()}, outputs, in_order=asked.in_order)
    found = [_compared_maps(site, maps[site], *left.pop(given), tolerance, given) for site, given in named.items()]
    for output, values in () if maps_only else outputs.items():
        writes = output == "log_probs"
        for alias in (output, *(SCORES if writes else OUTPUT if output == list(outputs)[-1] else ())):
            if alias in left:
                wanted, usual = left.pop(alias)
                if writes and alias != output:  # scores, to which anything may have been added row by row
                    wanted = torch.from_numpy(wanted).log_softmax(-1).numpy()
                found.append(_compared_output(alias, values.numpy(), wanted, usual, tolerance))
    if not found and not maps_only:
        known = (*map(str, seen.sites), *outputs)
        raise InputError("check_nothing_known", found=tuple(asked.arrays) or Message("nothing"), known=known)
    return Check(name, tuple(found), tuple(left))


def _named(
    maps: Mapping[Site, Sequence[AttentionMap]],
    shapes: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, Any],
    *,
    in_order: bool,
) -> dict[Site, str]:
    """Under which name what is expected of each site lies: its own; where no map has a site's name, by order and shape.

    Raises:
        InputError: of one shape there are more maps than sites, or fewer, so that order does not tell.
    """
    known = {site: str(site) for site in maps if site in shapes}
    if known or not in_order:
        return known
    taken = {*outputs, *SCORES, *OUTPUTS}
    others = [name for name, shape in shapes.items() if name not in taken and len(shape) > 1]
    by_order: dict[Site, str] = {}
    for size in dict.fromkeys(several[0].shape for several in maps.values()):
        sites = [site for site, several in maps.items() if several[0].shape == size]
        names = [name for name in others if shapes[name][-2:] == size]
        if names and len(names) != len(sites):
            said = {"queries": size[0], "keys": size[1], "found": tuple(names), "sites": tuple(map(str, sites))}
            raise InputError("check_cannot_match", **said)
        by_order |= dict(zip(sites, names, strict=False))
    return {site: by_order[site] for site in maps if site in by_order}


def _can_be_read(given: Tensor) -> bool:
    """Whether these are ids."""
    return not given.is_floating_point() and given.dim() in {1, 2} and 0 < given.numel() <= MOST_IDS


def _taken(arrays: dict[str, Tensor], names: Sequence[str]) -> Tensor | None:
    """The first of `names` that is there, which then is there no more."""
    return next((arrays.pop(name) for name in names if name in arrays), None)


def _array(name: str, values: Any) -> tuple[np.ndarray, float]:
    """What is expected, in double precision, and how far it may be from what is computed."""
    array = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if array.is_complex():
        raise InputError("check_no_numbers", name=name)
    return array.double().numpy(), TOLERANCES.get(str(array.dtype).removeprefix("torch."), TOLERANCES["float32"])


def _compared_maps(
    site: str, maps: Sequence[AttentionMap], expected: np.ndarray, usual: float, tolerance: float | None, given: str
) -> Difference:
    """One attention, sentence by sentence; of rows that see no key, how many there are."""
    shape = (len(maps), maps[0].n_heads, *maps[0].shape)
    averaged = (shape[0], *shape[2:])
    wanted = _in_batch(given, expected, (shape, averaged))
    mean = wanted.ndim == len(averaged)
    found = np.stack([one.head_average() if mean else one.all_weights() for one in maps])
    seen = np.stack([one.mask().any(-1) for one in maps])
    unseen = int((~seen).sum())
    compared = seen[:, :, None] if mean else seen[:, None, :, None]
    wanted = np.where(compared, wanted, 0)
    difference = _difference(site, found, wanted, usual if tolerance is None else tolerance, unseen)
    return difference if given == site else replace(difference, given=given)


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
    of_map = len(shapes) > 1 and expected.ndim == len(shapes[0])
    if of_map and [i for i, size in enumerate(expected.shape) if size != shapes[0][i]] == [1]:
        raise InputError("check_other_heads", name=name, needed=wanted, found=found, heads=expected.shape[1])
    raise InputError("check_other_shape", name=name, needed=wanted, found=found)


def _difference(name: str, found: np.ndarray, wanted: np.ndarray, tolerance: float, unseen: int = 0) -> Difference:
    apart = np.nan_to_num(abs(found - wanted), nan=np.inf)  # what is undefined on one side agrees with nothing
    place = np.unravel_index(apart.argmax(), apart.shape) if apart.size else ()
    first, second = (float(values[place]) if apart.size else 0.0 for values in (found, wanted))
    largest = float(apart[place]) if apart.size else 0.0
    return Difference(name, found.shape, largest, tuple(map(int, place)), first, second, tolerance, unseen)

"""A proof that a checkpoint is read right: what the original computed is held against what is computed here.

Names and shapes cannot tell everything (the number of heads, where a norm stands, what is scaled), and a wrong answer
gives maps that look plausible. Whoever has the original saves what it made of a few ids (`ModuleRecording.expected`
does it in a line); `check` says how far the two are from each other, and where, in the order in which the model runs,
that begins.

Attention is compared under its site; maps under other names (the paths of the original's modules, as a recording of it
has them) are compared with the sites of their shape, in the order in which both models run.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attention.capture import recording
from ..attention.record import AttentionMap
from ..checkpoint.checkpoint import Checkpoint
from ..errors import InputError
from ..messages import Message
from ..safe.arrays import read_arrays_file
from ..safe.contents import Contents, shape_text
from ..sites import Site
from .concurrency import run_of

TokenIds = Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
"""Token ids, (batch, position) or those of one sentence, in any of the usual containers."""

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
    def verdict(self) -> str:
        """What was found, in a sentence."""
        most, first = max(self.differences, key=lambda one: one.largest), self.begins
        said: dict[str, Any] = {"checkpoint": self.checkpoint, "largest": most.largest, "name": most.title}
        if first is None:
            return Message("check_agrees", count=len(self.differences), **said)
        place = ", ".join(map(str, first.place))
        said |= {"begins": first.title, "place": place, "found": first.found, "expected": first.expected}
        return Message("check_differs", **said)


def check(
    checkpoint: Checkpoint,
    inputs: TokenIds,
    expected: Mapping[str, Any],
    targets: TokenIds | None = None,
    *,
    tolerance: float | None = None,
) -> Check:
    """Run `checkpoint` on a batch of ids in double precision, and hold it against what the original made of them.

    `expected` has arrays by name: attention under its site (`encoder.0.self`, `decoder.2.cross`), (batch, head, query,
    key) or its mean over heads, and outputs under the names that `attention_maps` gives them. Of a decoder, `logits`
    will do for `log_probs`. Where no map has a site's name (`layers.0.self_attn`), maps and sites of one shape are
    compared in order. Of one sentence, the axis of the batch may be left out. An array agrees within `tolerance`,
    which follows from its precision if it is not given.

    Raises:
        InputError: nothing of what is expected is of this model, an array has another shape, order and shape do not
            tell which map is which site's, or the ids are none that it reads.
    """
    return _compared(checkpoint, [token_ids(ids) for ids in (inputs, targets) if ids is not None], expected, tolerance)


def check_file(checkpoint: Checkpoint, path: str | Path, *, tolerance: float | None = None) -> Check:
    """As `check`, with the ids (`input`, or `source` and `target`) and what is expected in one .npz or .safetensors.

    Raises:
        CheckpointError: the file is refused.
        InputError: as `check`; or it holds no ids, or too many.
    """
    return check_contents(checkpoint, read_arrays_file(Path(path)), tolerance=tolerance)


def check_contents(checkpoint: Checkpoint, contents: Contents, *, tolerance: float | None = None) -> Check:
    """As `check_file`, of a file that was read. Files of arrays that keep no order match by name."""
    arrays, read = dict(contents.tensors), list[Tensor]()
    for names in (INPUTS, TARGETS):
        ids = next((arrays.pop(name) for name in names if name in arrays), None)
        if ids is None and names is INPUTS:
            raise InputError("check_no_ids", file=contents.source, found=tuple(arrays), names=INPUTS)
        if ids is not None:
            if ids.is_floating_point() or ids.dim() not in {1, 2} or not 0 < ids.numel() <= MOST_IDS:
                raise InputError("check_ids_of_no_kind", file=contents.source, most=MOST_IDS)
            read.append(token_ids(ids.long()))
    return _compared(checkpoint, read, arrays, tolerance, in_order=contents.format == "npz")


def _compared(
    checkpoint: Checkpoint,
    ids: Sequence[Tensor],
    expected: Mapping[str, Any],
    tolerance: float | None,
    *,
    in_order: bool = True,
) -> Check:
    """Run a copy of the model in double precision, and compare."""
    left = {name: _array(name, values, tolerance) for name, values in expected.items()}
    with run_of(checkpoint), torch.inference_mode(), recording() as seen:
        outputs: dict[str, Tensor] = copy.deepcopy(checkpoint.model).double().outputs(*ids)
    maps = {site: [seen.map(site, batch=row) for row in range(len(ids[0]))] for site in seen.sites}
    named = _named(maps, {name: array.shape for name, (array, _) in left.items()}, outputs, in_order=in_order)
    found = [_compared_maps(site, maps[site], *left.pop(given), given) for site, given in named.items()]
    for output, values in outputs.items():
        writes = output == "log_probs"
        for alias in (output, *(SCORES if writes else OUTPUT if output == list(outputs)[-1] else ())):
            if alias in left:
                wanted, bound = left.pop(alias)
                if writes and alias != output:  # scores, to which anything may have been added row by row
                    wanted = torch.from_numpy(wanted).log_softmax(-1).numpy()
                wanted = _in_batch(alias, wanted, (tuple(values.shape),))
                found.append(_difference(alias, values.numpy(), wanted, bound))
    if not found:
        known = (*map(str, seen.sites), *outputs)
        raise InputError("check_nothing_known", found=tuple(expected) or Message("nothing"), known=known)
    return Check(checkpoint.name, tuple(found), tuple(left))


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


def _array(name: str, values: Any, tolerance: float | None) -> tuple[np.ndarray, float]:
    """What is expected, in double precision, and how far it may be from what is computed."""
    array = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if array.is_complex():
        raise InputError("check_no_numbers", name=name)
    usual = TOLERANCES.get(str(array.dtype).removeprefix("torch."), TOLERANCES["float32"])
    return array.double().numpy(), usual if tolerance is None else tolerance


def _compared_maps(
    site: str, maps: Sequence[AttentionMap], expected: np.ndarray, tolerance: float, given: str
) -> Difference:
    """One attention, sentence by sentence; of rows that see no key, how many there are."""
    shape = (len(maps), maps[0].n_heads, *maps[0].shape)
    averaged = (shape[0], *shape[2:])
    wanted = _in_batch(given, expected, (shape, averaged))
    mean = wanted.ndim == len(averaged)
    found = np.stack([one.head_average() if mean else one.all_weights() for one in maps])
    seen = np.stack([one.mask().any(-1) for one in maps])
    wanted = np.where(seen[:, :, None] if mean else seen[:, None, :, None], wanted, 0)
    return _difference(site, found, wanted, tolerance, int((~seen).sum()), "" if given == site else given)


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


def _difference(
    name: str, found: np.ndarray, wanted: np.ndarray, tolerance: float, unseen: int = 0, given: str = ""
) -> Difference:
    distance = np.nan_to_num(abs(found - wanted), nan=np.inf)  # what is undefined on one side agrees with nothing
    place = tuple(map(int, np.unravel_index(distance.argmax(), distance.shape))) if distance.size else ()
    largest, first, second = (float(values[place]) if distance.size else 0.0 for values in (distance, found, wanted))
    return Difference(name, found.shape, largest, place, first, second, tolerance, unseen, given)


def attention_maps(
    checkpoint: Checkpoint, inputs: TokenIds, targets: TokenIds | None = None, dtype: torch.dtype = torch.float64
) -> dict[str, np.ndarray]:
    """Every attention map and the output for a batch of token ids, to compare with an original implementation.

    `inputs` and `targets` are (batch, position), or the ids of one sentence.

    Returns `{site: array (batch, head, query, key)}` and the output under its own name: `log_probs` of a decoder
    (batch, target, vocab) in nats, `logits` of a classifier, `hidden` of an encoder.

    Raises:
        InputError: a decoder got no `targets`, or an id is not in the vocabulary.
    """
    with run_of(checkpoint), recording() as seen:
        model = copy.deepcopy(checkpoint.model).to(dtype)  # within the slot: many at once would be many copies
        output = model.outputs(*(token_ids(x) for x in (inputs, targets) if x is not None))
    batch = range(len(token_ids(inputs)))
    maps = {site: np.stack([seen.map(site, batch=row).all_weights() for row in batch]) for site in seen.sites}
    return maps | {name: value.numpy() for name, value in output.items()}


def token_ids(ids: TokenIds) -> Tensor:
    """Token ids as (batch, position)."""
    tensor = torch.as_tensor(ids)
    return tensor[None] if tensor.dim() == 1 else tensor

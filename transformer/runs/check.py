"""A proof that a checkpoint is read right: what the original computed is held against what is computed here.

Names and shapes cannot tell everything (the number of heads, where a norm stands, what is scaled), and a wrong answer
gives maps that look plausible. Whoever has the original saves what it made of a few ids (`ModuleRecording.expected`
does it in a line); `check` says how far the two are apart, and where, in the order in which the model runs, that
begins. `find_answers` tries what a file leaves open until the two agree.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.inspect.expected import Asked, Check, compare
from transformer.checkpoint.inspect.search import MOST_TRIED, SECONDS, Search, Searching
from transformer.checkpoint.load import read, says_all
from transformer.errors import CheckpointError
from transformer.explain.attribution.deletion import Progress
from transformer.runs.changed import run_of
from transformer.runs.parity import TokenIds
from transformer.safe.arrays import read_arrays_file
from transformer.safe.contents import Contents
from transformer.safe.limits import DEFAULT_LIMITS


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
    ids = torch.as_tensor(inputs), None if targets is None else torch.as_tensor(targets)
    return _compared(checkpoint, Asked(*ids, expected), tolerance)


def check_file(checkpoint: Checkpoint, path: str | Path, *, tolerance: float | None = None) -> Check:
    """As `check`, with the ids (`input`, or `source` and `target`) and what is expected in one .npz or .safetensors.

    Raises:
        CheckpointError: the file is refused.
        InputError: as `check`; or it holds no ids, or too many.
    """
    return check_contents(checkpoint, read_arrays_file(Path(path)), tolerance=tolerance)


def check_contents(checkpoint: Checkpoint, contents: Contents, *, tolerance: float | None = None) -> Check:
    """As `check_file`, of a file that was read.

    Raises:
        InputError: as `check_file`.
    """
    asked = Asked.of(contents)
    return _compared(checkpoint, asked, tolerance)


def find_answers(
    path: str | Path,
    expected: str | Path,
    *,
    progress: Progress | None = None,
    most: int = MOST_TRIED,
    seconds: float = SECONDS,
    **answers: Any,
) -> Search:
    """Try what the weights at `path` leave open until what is computed is what the file `expected` holds.

    All combinations of answers (heads, scale, order of the norms, activation, causal, positions, what a head reads ...)
    are tried, the likeliest first, at most `most` runs and `seconds` of a processor; `answers` stay as they are given.
    `load(path, **found.answers)` is then the checkpoint. `progress` hears the share that is done, and may raise.

    Raises:
        CheckpointError: a file is refused, or the folder at `path` says all of itself.
        InputError: as `check_file`, whatever is answered.
    """
    path = Path(path)
    if says_all(path):
        raise CheckpointError("folder_says_all", folder=path.name, answers="find")
    searching = Searching(
        read(path, DEFAULT_LIMITS), read_arrays_file(Path(expected)), answers, most=most, seconds=seconds
    )
    for share in searching:
        if progress is not None:
            progress(share)
    return searching.result


def _compared(checkpoint: Checkpoint, asked: Asked, tolerance: float | None) -> Check:
    with run_of(checkpoint):
        return compare(checkpoint.name, copy.deepcopy(checkpoint.model).double(), asked, tolerance)

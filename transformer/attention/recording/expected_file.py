"""The file that a checkpoint is compared with: ids, maps and the output of a run, as NumPy arrays by name."""

from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from torch import Tensor

from transformer.attention.capture import Recording
from transformer.errors import RecordError
from transformer.nn.common import in_single

ArrayLike = Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
"""Ids or numbers in any of the usual containers."""


def save_expected(
    seen: Recording, path: str | Path, inputs: ArrayLike, output: ArrayLike | None, targets: ArrayLike | None
) -> None:
    """Write an .npz of every map of the batch, by site, with what was read and what came of it.

    Raises:
        RecordError: what was seen is of another number of sentences.
    """
    ids = _array(inputs)
    n_batch = 1 if ids.ndim == 1 else len(ids)
    arrays: dict[str, np.ndarray] = {}
    for site in seen.sites:
        source = seen.source(site)
        if source.n_sentences != n_batch:
            raise RecordError("expected_other_batch", site=site, found=source.n_sentences, needed=n_batch)
        arrays[site] = np.stack([seen.map(site, batch=row).all_weights() for row in range(n_batch)])
    arrays |= {"input": ids} if targets is None else {"source": ids, "target": _array(targets)}
    if output is not None:
        arrays["output"] = _array(output)
    with Path(path).open("wb") as file, ZipFile(file, "w") as archive:  # numpy.savez reserves some names
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _array(values: ArrayLike) -> np.ndarray:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    return (in_single(values) if values.is_floating_point() else values).detach().cpu().numpy()

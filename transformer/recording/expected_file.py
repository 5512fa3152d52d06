"""The file that a checkpoint is compared with: NumPy arrays by name."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from transformer.models.common import in_single


def as_array(values: ArrayLike) -> np.ndarray:
    """Numbers of a tensor on any device, or of any container."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    return (in_single(values) if values.is_floating_point() else values).detach().cpu().numpy()


def save_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz, whose arrays may have any names: `numpy.savez` reserves some."""
    with Path(path).open("wb") as file, ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

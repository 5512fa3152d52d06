"""The attention of another run, to be put into this one."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class Donor:
    """What every site of a run weighed and what its heads gave on, kept under a `name` that texts call it by.

    Position i of a donor stands for position i of the run that it is put into. A batch of 1 serves every sentence.
    """

    name: str
    weights: Mapping[Site, Float[Tensor, "batch head query key"]]
    outputs: Mapping[Site, Float[Tensor, "batch head query d_v"]]

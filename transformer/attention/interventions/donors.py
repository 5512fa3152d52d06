"""The attention of another run, to be put into this one."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from transformer.sites import Site


@dataclass(frozen=True, eq=False)
class Donor:
    """Weights and head outputs of every site of a run, to patch into another run. `name` appears in texts.

    Position i of a donor stands for position i of the run that it is put into. A batch of 1 serves every sentence.
    """

    name: str
    weights: Mapping[Site, Float[Tensor, "batch head query key"]]
    outputs: Mapping[Site, Float[Tensor, "batch head query d_v"]]

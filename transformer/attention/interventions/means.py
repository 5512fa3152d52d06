"""Mean head outputs over a reference set, as a checkpoint brings them: what a head that is off is replaced by."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer.errors import InputError
from transformer.sites import Site

FILE = "means.json"
"""What it is called in a checkpoint's folder."""

DIGITS = 6
"""Significant digits that are written: of a mean over thousands of positions, more are noise."""


@dataclass(frozen=True, eq=False)
class Means:
    """One vector for each site and head: the mean of its output over all real queries of `size` inputs of a set.

    `reference` names the set.
    """

    reference: str
    size: int
    vectors: Mapping[Site, Float[Tensor, "head d_v"]]

    def to_json(self) -> str:
        """A JSON object."""
        rows = {
            str(site): [[float(f"{number:.{DIGITS}g}") for number in head] for head in vectors.tolist()]
            for site, vectors in self.vectors.items()
        }
        head = f'{{\n "reference": {json.dumps(self.reference)},\n "size": {self.size},\n "sites": {{\n'
        sites = ",\n".join(
            f"  {json.dumps(site)}: [\n   " + ",\n   ".join(json.dumps(one) for one in heads) + "\n  ]"
            for site, heads in rows.items()
        )
        return f"{head}{sites}\n }}\n}}\n"

    @classmethod
    def of_json(cls, text: str, name: str) -> "Means":
        """Means that were written so; `name` is the file's, for a refusal.

        Raises:
            InputError: it is no such object, or a vector holds what is no finite number.
        """
        try:
            found = json.loads(text)
            vectors = {Site(site): _matrix(rows) for site, rows in found["sites"].items()}
            return cls(str(found["reference"])[:200], int(found["size"]), vectors)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError("means_unreadable", name=name, error=str(error)[:200]) from error


def _matrix(rows: Any) -> Float[Tensor, "head d_v"]:
    matrix = torch.tensor(rows, dtype=torch.float64)
    if matrix.dim() != 2 or not all(math.isfinite(number) for row in rows for number in row):
        raise ValueError("a site holds no matrix of finite numbers")
    return matrix

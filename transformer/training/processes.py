"""Several processes, one training: torchrun starts them, PyTorch's DistributedDataParallel joins their gradients."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import distributed

from transformer.runs.parent import end_with_parent

Row = TypeVar("Row")


@dataclass(frozen=True)
class Process:
    """This process among those that train together."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def join(cls) -> "Process":
        """Take the place that torchrun assigned, and end with it, or train alone; on a GPU where there is one."""
        cuda = torch.cuda.is_available()
        if "RANK" not in os.environ:
            return cls(0, 1, torch.device("cuda" if cuda else "cpu"))
        end_with_parent()
        distributed.init_process_group("nccl" if cuda else "gloo")
        device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")
        return cls(distributed.get_rank(), distributed.get_world_size(), device)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.rank == 0

    def share(self, rows: Sequence[Row]) -> Sequence[Row]:
        """This process' part of a batch; empty where there are fewer rows than processes."""
        return rows[self.rank :: self.count]

    def total(self, *numbers: float) -> list[float]:
        """The sum of each number over all processes."""
        if self.count == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(sums)
        return sums.tolist()

    def wait(self) -> None:
        """Return once every process is here."""
        if self.count > 1:
            distributed.barrier()

    def leave(self) -> None:
        """Part from the others."""
        if self.count > 1:
            distributed.destroy_process_group()


ALONE = Process()
"""The process of a training that no other takes part in, on the CPU."""

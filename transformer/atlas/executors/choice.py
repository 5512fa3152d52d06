"""Which executor the command line asks for."""

from transformer.atlas.executors.dask import Dask
from transformer.atlas.executors.executor import Executor
from transformer.atlas.executors.processes import Processes
from transformer.atlas.executors.serial import Serial


def executor_of(workers: int, scheduler: str | None) -> Executor:
    """A cluster where its scheduler is named, several processes where more than one is asked for, or this one."""
    if scheduler is not None:
        return Dask(scheduler)
    return Processes(workers) if workers > 1 else Serial()

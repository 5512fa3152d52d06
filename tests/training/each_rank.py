"""Train on the toy corpus as one of several processes, and write down the weights that this one ends with.

torchrun starts it: `-m tests.training.each_rank DATA WORK OUT`.
"""

import sys
from pathlib import Path

from safetensors.torch import save_file

from tests import toy
from transformer.training.run import Run
from transformer.training.translation import Translation


def main(data: Path, work: Path, out: Path) -> None:
    """One process' part."""
    run = Run(toy.training_options(data, work, dropout=0.0, subword_dropout=0.0), Translation)
    run.train()
    save_file(dict(run.task.model.named_parameters()), out / f"{run.process.rank}-of-{run.process.count}.safetensors")
    run.process.leave()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

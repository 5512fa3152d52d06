"""Read mutated record files, each in a process with little memory and time: `python -m tests.record_files.fuzz COUNT`.

Each must be refused in a sentence that names it and says why, or be a record: everything that it shows can be shown,
and is the same after it was written and read again.
"""

import sys
from collections.abc import Iterator

import numpy as np
import torch

from tests.checkpoint.forked import in_a_process
from tests.record_files.mutated import Mutants
from tests.record_files.samples import everything, same
from transformer.attention.record import Record
from transformer.errors import CheckpointError
from transformer.messages import LANGUAGES

SECONDS = 20
NAME = "mutated.heedmap"
REFUSED, READ = "refused", "read"


def tried(data: bytes) -> str:
    """What became of one file, in a process of its own: a good end, or a sentence about a bad one."""
    status, said = in_a_process(lambda: examined(data).encode(), SECONDS)
    return said.decode(errors="replace") or f"ended with status {status}"


def examined(data: bytes) -> str:
    """A good end.

    Raises:
        AssertionError: it is refused without saying why, or shows what cannot be.
    """
    try:
        record = Record.of_bytes(data, NAME)
    except CheckpointError as error:
        for language in LANGUAGES:
            sentence = error.message.in_language(language)
            assert NAME in sentence, sentence
            assert len(sentence) < 800, sentence
            assert "\n" not in sentence, sentence
            sentence.encode()
        return REFUSED
    again = Record.of_bytes(record.to_bytes(), NAME)
    with np.errstate(all="ignore"):
        assert same(everything(record), everything(again)) == []
    for one in record.values():
        assert one.weights(0).shape == one.shape == (len(one.queries), len(one.keys))
    return READ


def outcomes(mutants: Mutants, first: int, count: int) -> Iterator[tuple[str, str]]:
    """The change and the end of so many mutants, from the first on."""
    for index in range(first, first + count):
        mutant = mutants.number(index)
        yield mutant.change, tried(mutant.data)


if __name__ == "__main__":
    torch.set_num_threads(1)  # what has threads must not fork
    bad = [(change, end) for change, end in outcomes(Mutants(0), 0, int(sys.argv[1])) if end not in {REFUSED, READ}]
    sys.exit("\n".join(f"{change}: {end}" for change, end in bad) or None)

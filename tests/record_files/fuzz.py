"""Read mutated record files, each in a process with little memory and time: `python -m tests.record_files.fuzz`.

Each must be refused in a sentence that names it and says why, or be a record: everything that it shows can be shown,
and is the same after it was written and read again.
"""

import argparse
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from tests.record_files.mutated import Mutants
from tests.record_files.samples import everything, same
from transformer.attention.record import Record
from transformer.errors import CheckpointError
from transformer.messages import LANGUAGES

MEMORY_BYTES = 4 * 1024**3
SECONDS = 20
NAME = "mutated.heedmap"
REPORTED = 1_000
REFUSED, READ, BAD = "refused", "read", "bad"
_GOOD = {10: REFUSED, 11: READ}


def tried(data: bytes) -> str:
    """What became of one file, in a process of its own: a good end, or a sentence about a bad one."""
    seen, told = os.pipe()
    child = os.fork()
    if not child:
        os.close(seen)
        _in_child(data, told)
    os.close(told)
    with os.fdopen(seen, "rb") as pipe:
        trouble = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by signal {signal.Signals(os.WTERMSIG(status)).name}"
    return _GOOD.get(os.WEXITSTATUS(status), trouble)


def _in_child(data: bytes, told: int) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # of who forked this
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES, mapped + MEMORY_BYTES))
        status = examined(data)
    finally:
        if sys.exception() is not None:
            os.write(told, traceback.format_exc()[-3000:].encode(errors="replace"))
        os._exit(status)


def examined(data: bytes) -> int:
    """The number of a good end.

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
        return 10
    again = Record.of_bytes(record.to_bytes(), NAME)
    with np.errstate(all="ignore"):
        assert same(everything(record), everything(again)) == []
    for one in record.values():
        assert one.weights(0).shape == one.shape == (len(one.queries), len(one.keys))
    return 11


def outcomes(mutants: Mutants, first: int, count: int) -> Iterator[tuple[str, str]]:
    """The change and the end of so many mutants, from the first on."""
    for index in range(first, first + count):
        mutant = mutants.number(index)
        yield mutant.change, tried(mutant.data)


def main(arguments: list[str] | None = None) -> int:
    """Count the ends of `--count` mutants; 1 if one of them is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="how many files are made and read")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=0, help="which files are made")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    counts: Counter[tuple[str, str]] = Counter()
    start = time.monotonic()
    for done, (change, end) in enumerate(outcomes(Mutants(given.seed), given.first, given.count), 1):
        is_good = end in _GOOD.values()
        counts[change, end if is_good else BAD] += 1
        if not is_good:
            sys.stdout.write(f"{given.first + done - 1} ({change}): {end}\n")
        if done % REPORTED == 0 or done == given.count:
            sys.stdout.write(
                "\n".join(f"{count:,} {end} ({change})" for (change, end), count in sorted(counts.items()))
            )
            bad = sum(count for (_, end), count in counts.items() if end == BAD)
            sys.stdout.write(f"\n{done:,} files, {bad} bad, {time.monotonic() - start:.0f} s\n")
            sys.stdout.flush()
    return 1 if any(end == BAD for _, end in counts) else 0


if __name__ == "__main__":
    sys.exit(main())

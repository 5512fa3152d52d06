"""Slow work over sequences says soon that it goes on, which is when it can be stopped.

Counted by the letters that pass through the model between two signs, so that no clock is asked: a pass of 4,096
letters takes well under half a second.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from tests.classifiers import sequence_checkpoint
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.runs.sequences.attribution import mutations
from transformer.runs.sequences.classify import verdicts
from transformer.runs.sequences.scan import plan_scan
from transformer.sequences.alphabet import DNA
from transformer.sequences.fasta import FastaRecord

MOST = 4_096
Sign = Callable[..., None]


def text(length: int, seed: int = 0) -> str:
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), length))


def records(length: int, count: int) -> Iterator[FastaRecord]:
    return (FastaRecord(str(i), "", text(length, i)) for i in range(count))


def file(one: Checkpoint, sign: Sign) -> None:
    for _ in verdicts(one, records(300, 40)):
        sign()


def short_file(one: Checkpoint, sign: Sign) -> None:
    for _ in verdicts(one, records(23, 400)):
        sign()


def mutation_map(one: Checkpoint, sign: Sign) -> None:
    mutations(one, DNA.read(text(90)), 1, sign)


def scan(one: Checkpoint, sign: Sign) -> None:
    for _ in plan_scan(one, DNA.read(text(1_500))).blocks():
        sign()


@pytest.mark.parametrize("work", [file, short_file, mutation_map, scan])
def test_little_is_computed_between_two_signs(work: Callable[..., None]) -> None:
    one = sequence_checkpoint(d_model=4, n_heads=1, d_ff=4, n_layers=1)
    passed, largest = [0], [0]

    def count(letters: int) -> None:
        passed[0] += letters

    def sign(*_: float) -> None:
        largest[0] = max(largest[0], passed[0])
        passed[0] = 0

    def letters(given: tuple[torch.Tensor]) -> int:
        return len(given[0]) * (23 if work is scan else given[0].shape[1])  # a scan convolves what its windows share

    watched = one.model.encoder_norm if work is scan else one.model.kmers
    watched.register_forward_hook(lambda module, given, output: count(letters(given)))
    work(one, sign)
    allowed = 2 * 128 * 23 + 16 * 23 if work is scan else MOST + 500  # both strands, or one more sequence
    assert 0 < largest[0] <= allowed
    assert passed[0] <= allowed  # after the last sign

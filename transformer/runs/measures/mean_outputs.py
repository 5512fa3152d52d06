"""The mean output of every head over a reference set: what stands in for a head that is switched off."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from transformer.attention.capture import recording
from transformer.attention.interventions.means import Means
from transformer.nn.protocols import written_pad
from transformer.runs.measures.pairs import Pairs
from transformer.sites import Site

Run = Callable[[], object]
"""One batch through a model."""


def means_of_pairs(model: Any, pairs: Pairs, reference: str) -> Means:
    """Over every real query of teacher-forced pairs: source positions in the encoder, written ones in the decoder."""
    batches = []
    for source, target in pairs:
        read = target[:, :-1]
        real = {"encoder": source != model.config.pad_id, "decoder": target[:, 1:] != written_pad(model.config)}
        batches.append((_runs(model, source, read), real))
    return Means(reference, pairs.size, _means(batches))


def means_of_sequences(model: Any, batches: Iterable[Tensor], reference: str) -> Means:
    """Over every query of sequences, which come in batches of one length, so that none is padded."""
    given = list(batches)
    return Means(reference, sum(map(len, given)), _means([(_runs(model, ids), {}) for ids in given]))


def _runs(model: Any, *inputs: Tensor) -> Run:
    return lambda: model(*inputs)


def _means(batches: Iterable[tuple[Run, dict[str, Tensor]]]) -> dict[Site, Tensor]:
    """Sums over batches, divided by how many queries there were; a stack without a mask counts all of its queries."""
    totals: dict[Site, Tensor] = {}
    counts: dict[Site, int] = {}
    for run, real in batches:
        with torch.inference_mode(), recording(outputs=True) as seen:
            run()
        for site in seen.sites:
            outputs = seen.outputs(site).double()  # (batch, head, query, d_v)
            mask = real.get(site.stack, torch.ones(outputs.shape[0], outputs.shape[2], dtype=torch.bool))
            totals[site] = totals.get(site, 0) + torch.einsum("bhqd,bq->hd", outputs, mask.double())
            counts[site] = counts.get(site, 0) + int(mask.sum())
    return {site: total / counts[site] for site, total in totals.items()}

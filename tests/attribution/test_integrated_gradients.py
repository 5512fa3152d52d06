"""Integrated gradients against differences of runs whose embedding tables hold the points on the way."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.attribution import reference
from tests.attribution.reference import READ, SOURCE, WRITTEN
from tests.attribution.test_deletion import recurrent
from transformer.attribution.integrated_gradients import integrated_gradients
from transformer.attribution.passage import Passage
from transformer.errors import AttributionError
from transformer.models.encoder import Encoder, EncoderConfig
from transformer.pictures.quantity import Quantity

Tables = tuple[torch.Tensor, torch.Tensor]
"""A vector for each position of the source, and of what was read."""

FIRST = 3
"""The first id that stands for a position: those before it are padding and marks."""


def with_tables(made: Any, given: Tables, run: Callable[[Any, list[int], list[int]], np.ndarray]) -> np.ndarray:
    """What `run` answers where position i of a side is read as id FIRST + i, whose row is the vector given."""
    twin = copy.deepcopy(made)
    with torch.no_grad():
        for table, rows in zip((twin.source_embedding, twin.target_embedding), given, strict=True):
            table.weight[FIRST : FIRST + len(rows)] = rows
    return run(twin, *(list(range(FIRST, FIRST + len(rows))) for rows in given))


def transformer_by_hand(made: Any, source: list[int], read: list[int]) -> np.ndarray:
    return reference.log_probs_of(reference.run(made, source, read))


def recurrent_run(made: Any, source: list[int], read: list[int]) -> np.ndarray:
    found = made(torch.tensor([source]), torch.tensor([read])).log_softmax(-1)[0].detach().numpy()
    return np.array([found[t, y] for t, y in enumerate(WRITTEN)])


def integrated_by_hand(
    made: Any, run: Callable[[Any, list[int], list[int]], np.ndarray], places: list[float], shares: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the log-probabilities when one position moves a little along its way; and those of both ends."""
    ends = [made.source_embedding.weight.detach()[list(SOURCE)], made.target_embedding.weight.detach()[list(READ)]]
    tables = (made.source_embedding, made.target_embedding)
    begins = [table.weight.detach().mean(0).expand_as(end) for table, end in zip(tables, ends, strict=True)]

    def at(place: float, nudged: tuple[int, int] | None = None, by: float = 0.0) -> np.ndarray:
        given = [begin + place * (end - begin) for begin, end in zip(begins, ends, strict=True)]
        if nudged is not None:
            side, i = nudged
            given[side][i] += by * (ends[side][i] - begins[side][i])
        return with_tables(made, (given[0], given[1]), run)

    columns = []
    for side, count in ((0, len(SOURCE)), (1, len(READ))):
        for i in range(count):
            slopes = [(at(place, (side, i), 1e-5) - at(place, (side, i), -1e-5)) / 2e-5 for place in places]
            columns.append(sum(share * slope for share, slope in zip(shares, slopes, strict=True)))
    return np.array(columns).T, at(1.0) - at(0.0)


@pytest.mark.parametrize("kind", ["annotated", "additive", "location"])
def test_slopes_are_taken_at_the_points_of_gauss_and_legendre(kind: str) -> None:
    """Two points: 1/2 -+ 1/(2 sqrt 3), half each."""
    ours = kind == "annotated"
    made = reference.model(kind, n_encoder_layers=1, n_decoder_layers=2) if ours else recurrent(kind)
    places = [0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5]
    run = transformer_by_hand if ours else recurrent_run
    expected, difference = integrated_by_hand(made, run, places, [0.5, 0.5])
    found = integrated_gradients(reference.passage(made), points=2)
    np.testing.assert_allclose(found.values, expected, atol=1e-7)
    assert not found.values[~found.visible].any()
    assert found.quantity is Quantity.LOG_PROB_ADDED
    said = found.notes[0].fields
    assert float(str(said["most"])) == pytest.approx(np.abs(expected.sum(1) - difference).max(), rel=0.06)
    assert float(str(said["difference"])) == pytest.approx(np.abs(difference).mean(), rel=0.06)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())


def test_more_points_close_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recurrent("additive")
    told: list[float] = []
    together = integrated_gradients(reference.passage(made), points=33)
    monkeypatch.setattr("transformer.attribution.integrated_gradients.POSITIONS_AT_ONCE", 100)  # eight points at once
    found = integrated_gradients(reference.passage(made), points=33, progress=told.append)
    np.testing.assert_allclose(found.values, together.values, atol=1e-12)
    _, difference = integrated_by_hand(made, recurrent_run, [], [])
    np.testing.assert_allclose(found.values.sum(1), difference, atol=1e-9)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


def test_frozen_parameters_and_an_outer_inference_mode_change_nothing() -> None:
    made = reference.model("torch")
    expected = integrated_gradients(reference.passage(made)).values
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    with torch.inference_mode():
        np.testing.assert_array_equal(integrated_gradients(reference.passage(made)).values, expected)


class TwiceRead(torch.nn.Module):
    """Looks its source up twice."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made
        self.ends = made.ends

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.made.source_embedding(source)
        return self.made(source, target)


def test_a_model_whose_embeddings_cannot_be_moved_is_refused_by_name() -> None:
    config = EncoderConfig(31, d_model=12, n_heads=2, d_ff=17, n_layers=1)
    nowhere: Passage = replace(reference.passage(reference.model("torch")), model=Encoder(config))
    twice = replace(nowhere, model=TwiceRead(reference.model("torch")))
    for asked, code in ((nowhere, "attribution_no_embeddings"), (twice, "attribution_embeds_elsewhere")):
        with pytest.raises(AttributionError) as refused:
            integrated_gradients(asked)
        assert refused.value.code == code

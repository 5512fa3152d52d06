"""Integrated gradients against differences of runs whose embedding tables hold the points on the way."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.checkpoint import load
from heedmap.errors import AttributionError
from heedmap.explain.attribution.deletion import trust
from heedmap.explain.attribution.integrated_gradients import FIRST_POINTS, integral, integrated_gradients
from heedmap.explain.attribution.result import ScoredSequence
from heedmap.nn.stacks import Encoder, EncoderConfig
from heedmap.plots.export import csv
from heedmap.plots.picture import Quantity
from heedmap.runs.translate import translate
from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN, refuses
from tests.explain.attribution.test_deletion import recurrent

MODULE = "heedmap.explain.attribution.integrated_gradients"

Tables = tuple[torch.Tensor, torch.Tensor]
"""A vector for each position of the source, and of what was read."""

CAPTIONS = ("Two children play in the snow with a red ball.", "Two dogs are playing in the snow.")

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
    found = integrated_gradients(reference.scored_sequence(made), points=2)
    np.testing.assert_allclose(found.values, expected, atol=1e-7)  # kept, close or not
    missed = np.abs(expected.sum(1) - difference) > 0.05 * np.maximum(np.abs(difference), 1.0)
    assert ("not converged" in found.name) == bool(missed.any())
    assert not found.values[~found.visible].any()
    assert found.quantity is Quantity.LOG_PROB_ADDED
    said = found.notes[0].fields
    assert float(str(said["most"])) == pytest.approx(np.abs(expected.sum(1) - difference).max(), rel=0.06)
    assert float(str(said["difference"])) == pytest.approx(np.abs(difference).mean(), rel=0.06)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in made.modules())


def test_more_points_close_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recurrent("additive")
    told: list[float] = []
    together = integrated_gradients(reference.scored_sequence(made), points=33)
    monkeypatch.setattr(f"{MODULE}.POSITIONS_AT_ONCE", 100)  # eight points
    found = integrated_gradients(reference.scored_sequence(made), points=33, progress=told.append)
    np.testing.assert_allclose(found.values, together.values, atol=1e-12)
    _, difference = integrated_by_hand(made, recurrent_run, [], [])
    np.testing.assert_allclose(found.values.sum(1), difference, atol=1e-9)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("text", CAPTIONS)
def test_rows_of_shipped_captions_sum_to_what_they_have_to(text: str) -> None:
    """Differences by hand: of the shipped translator as it is, and with nothing but the mean row in its tables."""
    checkpoint = load("checkpoints/multi30k-en-de")
    shown = translate(checkpoint, text)
    sequence = shown.scored_sequence(checkpoint)
    ids = [torch.tensor([one]) for one in (sequence.source_ids, sequence.read_ids)]
    places = range(len(sequence.written_ids)), list(sequence.written_ids)
    emptied = copy.deepcopy(checkpoint.model)
    for table in dict.fromkeys((emptied.source_embedding, emptied.target_embedding)):
        rows = table.weight.detach()
        table.weight = torch.nn.Parameter(rows.double().mean(0).to(rows.dtype).expand_as(rows).clone())
    with torch.no_grad():
        whole, nothing = (made(*ids)[0].double().log_softmax(-1)[places] for made in (checkpoint.model, emptied))
    difference = (whole - nothing).numpy()
    found = shown.attribution(checkpoint, "integrated_gradients")
    assert not np.isnan(found.values).any()
    assert np.abs(difference).max() > 5
    assert (np.abs(found.values.sum(1) - difference) <= 0.05 * np.maximum(np.abs(difference), 1.0) + 1e-4).all()
    assert float(str(found.notes[0].fields["points"])) > 32


def test_a_row_that_does_not_converge_has_no_numbers_and_is_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the most points there may be, far too few; its name, its picture and its file say so."""
    monkeypatch.setattr(f"{MODULE}.MOST_POINTS", 16)
    checkpoint = load("checkpoints/multi30k-en-de")
    shown = translate(checkpoint, "Two children play in the snow with a red ball.")
    found = shown.attribution(checkpoint, "integrated_gradients", words=True)
    rows = np.isnan(found.values).all(1)
    assert rows.sum() > len(rows) / 2
    assert (np.isnan(found.values).any(1) == rows).all()
    assert "not converged" in found.name
    picture = found.picture()
    assert "not converged" in picture.title
    assert "未收敛" in picture.title.in_language("zh")
    assert "not converged" in csv(picture).splitlines()[0]
    answered = dict(integrated_gradients=found)
    fares = trust(shown.scored_sequence(checkpoint), answered)
    words = [not special for special in found.steps.special]
    np.testing.assert_array_equal(np.isnan(fares["integrated_gradients"].comprehensiveness).all(1), rows[words])
    kept = shown.attribution(checkpoint, "integrated_gradients", points=16)
    assert not np.isnan(kept.values).any()
    assert "not converged" in kept.name


def test_frozen_parameters_and_an_outer_inference_mode_change_nothing() -> None:
    made = reference.model("torch")
    expected = integrated_gradients(reference.scored_sequence(made)).values
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    with torch.inference_mode():
        np.testing.assert_array_equal(integrated_gradients(reference.scored_sequence(made)).values, expected)


class TwiceRead(torch.nn.Module):
    """Looks its source up twice."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made
        self.token_interface = made.token_interface

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.made.source_embedding(source)
        return self.made(source, target)


def test_a_model_whose_embeddings_cannot_be_moved_is_refused_by_name() -> None:
    config = EncoderConfig.of(vocab=31, d_model=12, n_heads=2, d_ff=17, n_layers=1)
    nowhere: ScoredSequence = replace(reference.scored_sequence(reference.model("torch")), model=Encoder(config))
    twice = replace(nowhere, model=TwiceRead(reference.model("torch")))
    for asked, code in ((nowhere, "attribution_no_embeddings"), (twice, "attribution_embeds_elsewhere")):
        refuses(code, integrated_gradients, asked)


KINK = 0.37


def values(at: torch.Tensor) -> torch.Tensor:
    """Two rows: a smooth one, and one whose slope is 0 and then, after a kink, 500."""
    return torch.stack([(3 * at).sin(), 500 * (at - KINK).clamp(min=0)], dim=1)


def slopes(at: torch.Tensor, told: object) -> torch.Tensor:
    """Each row's slope, of which three parts bring a quarter, three quarters, and nothing."""
    each = torch.stack([3 * (3 * at).cos(), 500.0 * (at > KINK)], dim=1)
    return each[..., None] * torch.tensor([0.25, 0.75, 0.0], dtype=torch.float64)


def test_rows_come_as_close_as_they_have_to_and_no_point_is_wasted_where_the_curve_is_smooth() -> None:
    told: list[float] = []
    seen: list[float] = []

    def counted(at: torch.Tensor, told: object) -> torch.Tensor:
        seen.extend(at.tolist())
        assert len(at) <= 7
        return slopes(at, told)

    found = integral(counted, values, 1e-3, 1.0, at_once=7, progress=told.append)
    whole = np.array([math.sin(3), 500 * (1 - KINK)])
    np.testing.assert_allclose(found.difference, whole, atol=1e-12)
    assert found.converged.all()
    assert (found.gap.numpy() <= 1e-3 * np.maximum(np.abs(whole), 1.0)).all()
    np.testing.assert_allclose(found.added, whole[:, None] * [[0.25, 0.75, 0.0]], atol=1e-3 * whole.max())
    assert found.points == len(seen) < 120
    late = seen[FIRST_POINTS:]
    assert all(abs(place - KINK) < 0.25 for place in late), "points gather at the kink"
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_so_many_points_are_those_of_gauss_and_legendre_and_no_others() -> None:
    """Three points are exact where slopes are polynomials up to degree 5, and not where they have degree 6."""
    for degree, exact in ((6, True), (7, False)):

        def power(at: torch.Tensor, n: int = degree) -> torch.Tensor:
            return at[:, None] ** n

        def slope(at: torch.Tensor, told: object, n: int = degree) -> torch.Tensor:
            return (n * at ** (n - 1))[:, None, None]

        found = integral(slope, power, 1e-12, 1.0, points=3)
        assert found.points == 3
        assert bool(found.converged.all()) is exact
    with pytest.raises(AttributionError, match="points=0"):
        integral(slopes, values, 0.05, 1.0, points=0)


def test_what_is_not_close_after_the_most_points_is_told_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}.MOST_POINTS", 40)
    found = integral(slopes, values, 1e-5, 1.0)
    assert found.converged.tolist() == [True, False]
    assert found.points <= 40
    assert float(found.gap[1]) > 1e-5 * 315


def test_gaps_that_cancel_by_luck_are_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes too small by 5 in the first half, too large by 5 in the second: the whole sum is right, its parts not."""
    monkeypatch.setattr(f"{MODULE}.MOST_POINTS", 64)
    found = integral(
        lambda at, told: (10 + 5 * (at - 0.5).sign())[:, None, None], lambda at: 10 * at[:, None], 0.05, 1.0
    )  # fmt: skip
    assert float(found.gap[0]) < 1e-9
    assert not found.converged.any()


def test_a_small_difference_counts_as_the_least() -> None:
    """The same curves a thousand times as small are close at once where less than a nat counts as one."""

    def points(least: float) -> int:
        return integral(
            lambda at, told: slopes(at, told) / 1e3, lambda at: values(at) / 1e3, 1e-3, least
        ).points  # fmt: skip

    assert points(1e-6) > points(20.0) == FIRST_POINTS

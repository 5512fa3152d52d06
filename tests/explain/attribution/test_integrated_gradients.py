"""Integrated gradients against differences of runs whose embedding tables hold the points on the way."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.explain.attribution import reference
from tests.explain.attribution.reference import READ, SOURCE, WRITTEN
from tests.explain.attribution.test_deletion import recurrent
from transformer.checkpoint import load
from transformer.errors import AttributionError
from transformer.explain.attribution import path_integral
from transformer.explain.attribution.integrated_gradients import integrated_gradients
from transformer.explain.attribution.scored_sequence import ScoredSequence
from transformer.explain.attribution.trust import trust
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.plots.export import csv
from transformer.plots.quantity import Quantity
from transformer.runs.translate import translate

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
    monkeypatch.setattr("transformer.explain.attribution.integrated_gradients.POSITIONS_AT_ONCE", 100)  # eight points
    found = integrated_gradients(reference.scored_sequence(made), points=33, progress=told.append)
    np.testing.assert_allclose(found.values, together.values, atol=1e-12)
    _, difference = integrated_by_hand(made, recurrent_run, [], [])
    np.testing.assert_allclose(found.values.sum(1), difference, atol=1e-9)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


class _Fed:
    """A forward hook that puts given embeddings in the place of those that were looked up."""

    def __init__(self, given: torch.Tensor) -> None:
        self.given = given

    def __call__(self, module: Any, inputs: Any, found: torch.Tensor) -> torch.Tensor:
        return self.given


def ends_of(made: Any, sequence: ScoredSequence) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Where the line begins (the mean row of a table, at every position) and ends, of source and prefix."""
    tables = ((made.source_embedding, sequence.source_ids), (made.target_embedding, sequence.read_ids))
    ends = [table.weight.detach()[list(ids)] for table, ids in tables]
    return [(table.weight.detach().mean(0).expand_as(end), end) for (table, _), end in zip(tables, ends, strict=True)]


def scored(made: Any, sequence: ScoredSequence, source: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    """log p(y_t | x, y_<t), batch x target, where tokens are embedded like this."""
    hooks = [
        table.register_forward_hook(_Fed(given))
        for table, given in ((made.source_embedding, source), (made.target_embedding, read))
    ]
    ids = [torch.tensor([one]).expand(len(source), -1) for one in (sequence.source_ids, sequence.read_ids)]
    logits = made(*ids)
    for hook in hooks:
        hook.remove()
    return logits.log_softmax(-1)[:, range(len(sequence.written_ids)), list(sequence.written_ids)]


def test_what_it_comes_to_is_the_midpoint_sum_over_many_points() -> None:
    """Equation 3 of the paper, by autograd at 4,000 points; sizes are different primes."""
    made = reference.model(
        "torch", source_vocab=31, target_vocab=37, d_model=14, n_heads=2, d_ff=19, n_encoder_layers=2,
        n_decoder_layers=3, max_length=23,
    )  # fmt: skip
    with torch.no_grad():
        made.projection.weight.mul_(8.0)  # sure enough of what it writes for a real difference
    sequence = reference.scored_sequence(made)
    both, steps = ends_of(made, sequence), 4_000
    whole = [torch.zeros(len(WRITTEN), len(end), dtype=torch.float64) for _, end in both]
    for some in ((torch.arange(steps, dtype=torch.float64) + 0.5) / steps).split(1_000):
        moved = [(begin + some[:, None, None] * (end - begin)).requires_grad_() for begin, end in both]
        answers = scored(made, sequence, moved[0], moved[1])
        for step in range(len(WRITTEN)):
            slopes = torch.autograd.grad(answers[:, step].sum(), moved, retain_graph=True)
            for total, slope, (begin, end) in zip(whole, slopes, both, strict=True):
                total[step] += (slope.sum(0) * (end - begin)).sum(-1) / steps
    expected = torch.cat(whole, dim=1).numpy()
    answers = scored(made, sequence, *(torch.stack(both[side][::-1]) for side in (0, 1))).detach()
    difference = (answers[0] - answers[1]).numpy()
    np.testing.assert_allclose(expected.sum(1), difference, atol=2e-3)
    assert np.abs(difference).max() > 2
    found = integrated_gradients(sequence)
    allowed = 0.05 * np.maximum(np.abs(difference), 1.0)
    assert (np.abs(found.values.sum(1) - difference) <= allowed + 1e-9).all()
    assert (np.abs(found.values - expected).max(1) <= allowed).all()
    assert "converged" not in found.name
    coarse = integrated_gradients(sequence, points=8).values
    assert np.abs(coarse - expected).max() > 2 * np.abs(found.values - expected).max()


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
    monkeypatch.setattr(path_integral, "MOST_POINTS", 16)
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
    assert fares["integrated_gradients"].rows == sum(words) - rows[words].sum()
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
    config = EncoderConfig(vocab=31, d_model=12, n_heads=2, d_ff=17, n_layers=1)
    nowhere: ScoredSequence = replace(reference.scored_sequence(reference.model("torch")), model=Encoder(config))
    twice = replace(nowhere, model=TwiceRead(reference.model("torch")))
    for asked, code in ((nowhere, "attribution_no_embeddings"), (twice, "attribution_embeds_elsewhere")):
        with pytest.raises(AttributionError) as refused:
            integrated_gradients(asked)
        assert refused.value.code == code

"""The door for recurrent models: the same decoding, the same kind of record, no weight hidden."""

from pathlib import Path

import numpy as np
import pytest

from tests.recurrents import ADDITIVE, LOCATION, PLACES, checkpoints_with_recurrents
from transformer import Checkpoint, DecodingOptions, attention_maps, follow, load, translate
from transformer.errors import InputError
from transformer.runs.translate import PAST_SOURCE

SENTENCE = "Two dogs are playing in the snow."
SHORT = DecodingOptions(beam=3, max_length=11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints_with_recurrents(tmp_path_factory.mktemp("recurrent"))


@pytest.fixture(scope="module", params=[ADDITIVE, LOCATION])
def checkpoint(folder: Path, request: pytest.FixtureRequest) -> Checkpoint:
    return load(folder / str(request.param))


def test_the_record_has_one_site_of_one_head_whose_rows_sum_to_1(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE, SHORT)
    assert run.record.sites == ("decoder.cross",)
    attention = run.record["decoder.cross"]
    assert attention.n_heads == 1
    assert len(attention.queries) == len(run.target_ids) == len(run.steps)
    np.testing.assert_allclose(attention.weights(0).sum(1), 1.0, atol=1e-5)


def test_the_weights_are_those_of_a_forced_pass(checkpoint: Checkpoint) -> None:
    run = translate(checkpoint, SENTENCE, SHORT)
    read = [[checkpoint.model.config.bos_id, *run.target_ids[:-1]]]
    expected = attention_maps(checkpoint, [list(run.source_ids)], read)
    n = len(run.source_ids)
    weights, whole = run.record["decoder.cross"].weights(0), expected["decoder.cross"][0, 0]
    np.testing.assert_allclose(weights[:, :n], whole[:, :n], atol=1e-5)
    if checkpoint.name == LOCATION:
        assert whole.shape[1] == PLACES
        np.testing.assert_allclose(weights[:, n], whole[:, n:].sum(axis=1), atol=1e-5)
    for step, token, row in zip(run.steps, run.target_ids, expected["log_probs"][0], strict=True):
        assert step.probability == pytest.approx(np.exp(row[token]), abs=1e-4)


def test_mass_past_the_source_has_a_key_that_no_view_hides(folder: Path) -> None:
    attention = translate(load(folder / LOCATION), SENTENCE, SHORT).record["decoder.cross"]
    assert attention.keys.texts[-1] == PAST_SOURCE
    for words in (False, True):
        picture = attention.picture(0, words=words, special=False)
        assert picture.keys.texts[-1] == PAST_SOURCE
        assert picture.values[:, -1].min() > 0.1


def test_additive_attention_has_no_key_past_the_source(folder: Path) -> None:
    attention = translate(load(folder / ADDITIVE), SENTENCE, SHORT).record["decoder.cross"]
    assert attention.keys.texts[-1] == "</s>"


def test_another_hypothesis_and_a_forced_target_are_recorded_too(checkpoint: Checkpoint) -> None:
    best = translate(checkpoint, SENTENCE, SHORT)
    assert best.tree is not None
    other = follow(checkpoint, best, best.tree.hypotheses()[1].id)
    assert other.target_ids != best.target_ids
    assert len(other.record["decoder.cross"].queries) == len(other.target_ids)
    assert translate(checkpoint, SENTENCE, forced="Zwei Hunde.").text == "Zwei Hunde."


def test_scores_say_that_they_are_logarithms(checkpoint: Checkpoint) -> None:
    attention = translate(checkpoint, SENTENCE, SHORT).record["decoder.cross"]
    picture = attention.picture(0, scores=True)
    np.testing.assert_allclose(np.exp(picture.values), attention.weights(0), rtol=1e-5)
    assert "logarithm of the weight" in picture.unit


def test_more_than_the_places_of_location_attention_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=f"at most {PLACES}"):
        translate(load(folder / LOCATION), "dog " * PLACES)

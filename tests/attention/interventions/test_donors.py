"""A donor sentence: what is taken from it, where two targets part, and the odds there, against runs by hand."""

import math
import re

import pytest
import torch

from tests.toy import write_checkpoint
from transformer import Checkpoint, DecodingOptions, Intervention, Translation, intervening, load, recording, translate
from transformer.errors import InputError
from transformer.runs.donors import LogOdds, donor_of, log_odds, parting, refuse_other_places

TEXTS = ("the dog and the cat sleeps.", "the dog and the dog sleeps.", "the cat")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load(write_checkpoint(tmp_path_factory.mktemp("donors") / "toy"))


@pytest.fixture(scope="module")
def runs(checkpoint: Checkpoint) -> list[Translation]:
    """The first sentence and another one, both walked through targets that part at a known step; and a short one."""
    forced = ("the dog sleeps", "the cat sleeps", "the")
    return [translate(checkpoint, text, DecodingOptions(), one) for text, one in zip(TEXTS, forced, strict=True)]


def logits(checkpoint: Checkpoint, source: tuple[int, ...], target: tuple[int, ...]) -> torch.Tensor:
    model, _, _ = checkpoint.translator()
    with torch.inference_mode():
        found: torch.Tensor = model(torch.tensor([source]), torch.tensor([[model.config.bos_id, *target[:-1]]]))[0]
    return found.double()


def test_a_donor_is_its_own_run_unchanged_and_a_run_patched_with_all_of_it_says_what_it_said(
    checkpoint: Checkpoint, runs: list[Translation]
) -> None:
    base, other, _ = runs
    with intervening([Intervention("decoder.0.cross", "zero")]):
        logits(checkpoint, other.source_ids, other.target_ids)
        donor = donor_of(checkpoint, other, "d")
    for site, attention in other.record.items():
        for head in range(attention.n_heads):
            torch.testing.assert_close(donor.weights[site][0, head], torch.tensor(attention.weights(head)))
    last = max(site for site in base.record.sites if site.group == "decoder.cross")
    with recording(outputs=True) as seen:
        logits(checkpoint, other.source_ids, other.target_ids)
    torch.testing.assert_close(donor.outputs[last], seen.outputs(last))


def test_the_odds_are_those_of_the_two_tokens_where_the_targets_part(
    checkpoint: Checkpoint, runs: list[Translation]
) -> None:
    base, other, short = runs
    step = parting(base, other)
    assert step is not None
    assert base.target_ids[:step] == other.target_ids[:step]
    own, theirs = base.target_ids[step], other.target_ids[step]
    assert own != theirs
    change = [Intervention("decoder.0.cross", "patch_output", value=donor_of(checkpoint, other, "d"))]
    with intervening(change):
        changed = logits(checkpoint, base.source_ids, base.target_ids)[step]
    found = log_odds(checkpoint, base, other, change)
    assert found is not None
    for odds, row in (
        (found.base, logits(checkpoint, base.source_ids, base.target_ids)[step]),
        (found.donor, logits(checkpoint, other.source_ids, other.target_ids)[step]),
        (found.changed, changed),
    ):
        assert odds == pytest.approx(float(row[theirs] - row[own]), abs=1e-5)
    assert LogOdds(0, ("a", "b"), 1.0, 3.0, 1.5).share == 0.25
    assert parting(base, base) is None
    assert log_odds(checkpoint, base, base, change) is None
    assert math.isnan(LogOdds(0, ("a", "b"), 1.0, 1.05, 2.0).share), "there is no way to go a share of"
    assert parting(base, short) == 1, "the end is a token"


def test_positions_that_do_not_stand_for_each_other_are_refused_with_both_lengths(runs: list[Translation]) -> None:
    base, other, short = (run.record for run in runs)
    (queries, keys), (written, _), (other_keys, _) = (
        base["decoder.0.cross"].shape, short["decoder.0.self"].shape, short["encoder.0.self"].shape
    )  # fmt: skip
    refuse_other_places(base, other, "d", "decoder.0.cross")
    refuse_other_places(base, short, "d", "decoder.0.self", rows=2)
    for site, rows, told in (
        ("decoder.0.cross", 1, f"'d' has {other_keys} keys at decoder.0.cross and this run {keys}:"),
        ("decoder.0.self", None, f"'d' has {written} rows at decoder.0.self and this run {queries}:"),
        ("encoder.0.self", None, f"'d' has {other_keys} rows at encoder.0.self and this run {keys}:"),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            refuse_other_places(base, short, "d", site, rows)

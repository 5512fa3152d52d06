"""Same target and decode again: each measure recomputed from the distributions of two runs."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.toy import write_checkpoint
from transformer import Checkpoint, DecodingOptions, Intervention, intervening, load, translate
from transformer.runs.what_if import (
    Word,
    aligned_words,
    class_effects,
    decoded_again,
    for_nobody,
    head_sweep,
    same_target,
    source_sweep,
)

TEXT = "the dog and the cat sleeps."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return load(write_checkpoint(tmp_path_factory.mktemp("what-if") / "toy"))


def distributions(checkpoint: Checkpoint, source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
    """log p of every token at every step."""
    model, _, _ = checkpoint.translator()
    with torch.inference_mode():
        logits = model(torch.tensor([source]), torch.tensor([[model.config.bos_id, *target[:-1]]]))[0]
    return logits.double().log_softmax(-1).numpy()


def test_every_measure_of_a_step_is_what_it_says(checkpoint: Checkpoint) -> None:
    before = translate(checkpoint, TEXT, DecodingOptions(beam=2, max_length=9))
    some = [
        Intervention("decoder.0.cross", "knock_out", heads=(1,), keys=(1, 2)),
        Intervention("encoder.0.self", "zero"),
    ]
    found = same_target(checkpoint, before, some)
    first = distributions(checkpoint, before.source_ids, before.target_ids)
    with intervening(some):
        then = distributions(checkpoint, before.source_ids, before.target_ids)
    assert found.after.target_ids == before.target_ids
    assert found.after.record.interventions == tuple(some)
    assert before.record.interventions == ()
    _, _, writer = checkpoint.translator()
    parted = 0
    for t, (token, step) in enumerate(zip(before.target_ids, found.steps, strict=True)):
        others = [i for i in range(first.shape[1]) if i != token]
        rivals = [max(others, key=lambda i: run[t, i]) for run in (first, then)]
        assert step.change == pytest.approx(then[t, token] - first[t, token], abs=1e-5)
        for run, margin, rival, name in zip((first, then), step.margins, rivals, step.rivals, strict=True):
            assert margin == pytest.approx(run[t, token] - run[t, rival], abs=1e-5)
            assert writer.labels([rival]) == [name], "the best other token of each run"
        parted += rivals[0] != rivals[1]
        assert step.divergence == pytest.approx((np.exp(first[t]) * (first[t] - then[t])).sum(), abs=1e-5)
        assert step.ranks == tuple(int((one[t] > one[t, token]).sum()) for one in (first, then))
        assert found.after.steps[t].probability == pytest.approx(math.exp(then[t, token]), rel=1e-4)
    assert parted, "some step has another rival after the change"
    assert found.total == pytest.approx(sum(step.change for step in found.steps))
    assert max(abs(step.change) for step in found.steps) > 0.01
    assert {step.change for step in same_target(checkpoint, before, []).steps} == {0.0}


def test_a_sweep_is_every_head_and_every_source_word_alone(checkpoint: Checkpoint) -> None:
    before = translate(checkpoint, TEXT, DecodingOptions(beam=1, max_length=9))
    found = list(head_sweep(checkpoint, before, "zero"))
    every = [(site, head) for site in before.record.sites for head in range(before.record[site].n_heads)]
    assert [(site, head) for site, head, _ in found] == every
    for site, head, change in found:
        alone = same_target(checkpoint, before, [Intervention(site, "zero", heads=(head,))])
        assert change == pytest.approx(alone.total, abs=1e-4)
    words = np.stack(list(source_sweep(checkpoint, before)))
    merged = before.axes.source.merged().texts
    assert words.shape == (len(merged), len(before.target_ids))
    dog = merged.index("dog")
    removed = for_nobody(before, dog)
    assert {one.site for one in removed} == {"encoder.0.self", "decoder.0.cross"}
    with intervening(removed):
        again = translate(checkpoint, TEXT, DecodingOptions(beam=1, max_length=9))
    keys = [i for i, word in enumerate(before.axes.source.words) if word == dog]
    assert not again.record["decoder.0.cross"].all_weights()[:, :, keys].any()
    alone = same_target(checkpoint, before, removed)
    np.testing.assert_allclose(words[dog], [step.change for step in alone.steps], atol=1e-4)


def test_decoding_again_is_a_search_under_the_changes(checkpoint: Checkpoint, tmp_path: Path) -> None:
    options = DecodingOptions(beam=3, max_length=7)
    off = [Intervention("decoder.0.cross", "knock_out", keys=tuple(range(5)))]
    with intervening(off):
        expected = translate(checkpoint, TEXT, options)
    found = decoded_again(checkpoint, TEXT, options, off)
    assert (found.target_ids, found.record.interventions) == (expected.target_ids, tuple(off))
    assert decoded_again(checkpoint, TEXT, options, []).target_ids == translate(checkpoint, TEXT, options).target_ids
    (tmp_path / "record.npz").write_bytes(found.record.npz())
    with np.load(tmp_path / "record.npz") as kept:
        assert "knock_out" in str(kept["interventions"])


def test_words_that_differ_are_marked_in_both() -> None:
    was, now = aligned_words("Ein Mann fährt Rad .", "Ein großer Mann fährt Auto .")
    assert [word.text for word in was if word.changed] == ["Rad"]
    assert [word.text for word in now if word.changed] == ["großer", "Auto"]
    assert aligned_words("", "a") == ([], [Word("a", True)])
    was, now = aligned_words("Eine Frau spielt auf der Straße Gitarre.", "Eine Straße spielt Gitarre.")
    assert [word.text for word in now if word.changed] == ["Straße"], "of two that keep as many, the one of fewer edits"


def test_punctuation_is_a_word_of_its_own_and_stands_where_it_stood() -> None:
    was, now = aligned_words("Jemand kocht in einer kleinen Küche Essen.", "Jemand kocht in einer kleinen Küche.")
    assert [word.text for word in was if word.changed] == ["Essen"]
    assert not [word for word in now if word.changed]
    assert now[-1] == Word(".", False, attached=True)
    was, now = aligned_words("„Das ist's“, sagt er …", "(Das ist's) sagt er …")
    assert [word.text for word in was] == ["„", "Das", "ist's", "“,", "sagt", "er", "…"]
    assert [(word.text, word.attached) for word in now if word.changed] == [("(", False), (")", True)]
    assert [word.attached for word in was] == [False, True, False, True, False, False, False]


@pytest.mark.parametrize("draw", range(30))
def test_no_more_words_are_marked_than_differ(draw: int) -> None:
    """As many stay as the longest subsequence of both has, found here by trying every one."""
    rng = np.random.default_rng(draw)
    first, second = (["abc"[i] for i in rng.integers(0, 3, size)] for size in rng.permutation([7, 5]))
    was, now = aligned_words(" ".join(first), " ".join(second))
    kept = [[word.text for word in words if not word.changed] for words in (was, now)]
    assert kept[0] == kept[1]
    rows = [{tuple(one[i] for i in places) for n in range(len(one) + 1) for places in combinations(range(len(one)), n)}
            for one in (first, second)]  # fmt: skip
    assert len(kept[0]) == max(map(len, rows[0] & rows[1]))


def test_the_log_odds_of_each_class_change_by_what_two_distributions_say() -> None:
    before, after = np.array([0.7, 0.2, 0.1]), np.array([0.25, 0.05, 0.7])
    found = class_effects(("a", "b", "c"), before, after)
    assert [one.name for one in found] == ["a", "b", "c"]
    for one, p, q in zip(found, before, after, strict=True):
        assert one.probabilities == (p, q)
        assert one.change == pytest.approx(math.log(q / (1 - q)) - math.log(p / (1 - p)))
    sure = class_effects(("a", "b"), np.array([1.0, 1e-30]), np.array([0.5, 0.5]))
    assert sure[0].change == pytest.approx(-math.log(1e30)), "1 - p is 0 there, what the others have is not"

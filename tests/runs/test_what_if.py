"""What if: two runs over the same target, models that read one text, and donor sentences, recomputed from outputs."""

import math
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import (
    Checkpoint,
    DecodingOptions,
    Intervention,
    Translation,
    intervening,
    load,
    recording,
    run_any,
    translate,
    watch,
)
from heedmap.errors import InputError
from heedmap.nn.kmer import KmerClassifier, KmerConfig
from heedmap.nn.stacks import Decoder, DecoderConfig, Encoder, EncoderConfig
from heedmap.runs import what_if
from heedmap.text.tokenizers import IdTokenizer, SpecialIds
from tests.toy import write_checkpoint

SENTENCE = "the dog and the cat sleeps."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return load(write_checkpoint(tmp_path_factory.mktemp("what-if") / "toy"))


def logits(checkpoint: Checkpoint, source: tuple[int, ...], target: tuple[int, ...]) -> torch.Tensor:
    model, _, _ = checkpoint.translator()
    with torch.inference_mode():
        found: torch.Tensor = model(torch.tensor([source]), torch.tensor([[model.config.bos_id, *target[:-1]]]))[0]
    return found.double()


def distributions(checkpoint: Checkpoint, source: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
    """log p of every token at every step."""
    return logits(checkpoint, source, target).log_softmax(-1).numpy()


def test_every_measure_of_a_step_is_what_it_says(checkpoint: Checkpoint) -> None:
    before = translate(checkpoint, SENTENCE, DecodingOptions(beam=2, max_length=9))
    some = [
        Intervention("decoder.0.cross", "knock_out", heads=(1,), keys=(1, 2)),
        Intervention("encoder.0.self", "zero"),
    ]
    found = what_if.same_target(checkpoint, before, some)
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
    assert {step.change for step in what_if.same_target(checkpoint, before, []).steps} == {0.0}


def test_a_sweep_is_every_head_and_every_source_word_alone(checkpoint: Checkpoint) -> None:
    before = translate(checkpoint, SENTENCE, DecodingOptions(beam=1, max_length=9))
    found = list(what_if.head_sweep(checkpoint, before, "zero"))
    every = [(site, head) for site in before.record.sites for head in range(before.record[site].n_heads)]
    assert [(site, head) for site, head, _ in found] == every
    for site, head, change in found:
        alone = what_if.same_target(checkpoint, before, [Intervention(site, "zero", heads=(head,))])
        assert change == pytest.approx(alone.total, abs=1e-4)
    words = np.stack(list(what_if.source_sweep(checkpoint, before)))
    merged = before.axes.source.merged().texts
    assert words.shape == (len(merged), len(before.target_ids))
    dog = merged.index("dog")
    removed = what_if.for_nobody(before, dog)
    assert {one.site for one in removed} == {"encoder.0.self", "decoder.0.cross"}
    with intervening(removed):
        again = translate(checkpoint, SENTENCE, DecodingOptions(beam=1, max_length=9))
    keys = [i for i, word in enumerate(before.axes.source.words) if word == dog]
    assert not again.record["decoder.0.cross"].all_weights()[:, :, keys].any()
    alone = what_if.same_target(checkpoint, before, removed)
    np.testing.assert_allclose(words[dog], [step.change for step in alone.steps], atol=1e-4)


def test_words_that_differ_are_marked_in_both() -> None:
    was, now = what_if.aligned_words("Ein Mann fährt Rad .", "Ein großer Mann fährt Auto .")
    assert [word.text for word in was if word.changed] == ["Rad"]
    assert [word.text for word in now if word.changed] == ["großer", "Auto"]
    assert what_if.aligned_words("", "a") == ([], [what_if.Word("a", True)])
    was, now = what_if.aligned_words("Eine Frau spielt auf der Straße Gitarre.", "Eine Straße spielt Gitarre.")
    assert [word.text for word in now if word.changed] == ["Straße"], "of two that keep as many, the one of fewer edits"


def test_punctuation_is_a_word_of_its_own_and_stands_where_it_stood() -> None:
    was, now = what_if.aligned_words(
        "Jemand kocht in einer kleinen Küche Essen.", "Jemand kocht in einer kleinen Küche."
    )
    assert [word.text for word in was if word.changed] == ["Essen"]
    assert not [word for word in now if word.changed]
    assert now[-1] == what_if.Word(".", False, attached=True)
    was, now = what_if.aligned_words("„Das ist's“, sagt er …", "(Das ist's) sagt er …")
    assert [word.text for word in was] == ["„", "Das", "ist's", "“,", "sagt", "er", "…"]
    assert [(word.text, word.attached) for word in now if word.changed] == [("(", False), (")", True)]
    assert [word.attached for word in was] == [False, True, False, True, False, False, False]


@pytest.mark.parametrize("draw", range(30))
def test_no_more_words_are_marked_than_differ(draw: int) -> None:
    """As many stay as the longest subsequence of both has, found here by trying every one."""
    rng = np.random.default_rng(draw)
    first, second = (["abc"[i] for i in rng.integers(0, 3, size)] for size in rng.permutation([7, 5]))
    was, now = what_if.aligned_words(" ".join(first), " ".join(second))
    kept = [[word.text for word in words if not word.changed] for words in (was, now)]
    assert kept[0] == kept[1]
    rows = [{tuple(one[i] for i in places) for n in range(len(one) + 1) for places in combinations(range(len(one)), n)}
            for one in (first, second)]  # fmt: skip
    assert len(kept[0]) == max(map(len, rows[0] & rows[1]))


VOCAB = 13
TEXT = "4 7 2 11 5"


def model_of(kind: str, vocab: int) -> Encoder | Decoder | KmerClassifier:
    """A model that ends with `kind`; one with a `number` at each position has nothing to choose among."""
    sizes: dict[str, Any] = dict(vocab=vocab, d_model=6, n_heads=2, d_ff=7, n_layers=2, max_length=40)
    if kind == "next":
        return Decoder(DecoderConfig.of(**sizes, positions="sinusoidal", scale_embedding=True))
    if kind == "classes":
        return KmerClassifier(KmerConfig.of(**sizes, n_classes=3, widths=(2,)))
    return Encoder(EncoderConfig.of(**sizes, head={"positions": (vocab,), "number": (1,)}.get(kind, ())))


def reader(kind: str) -> Checkpoint:
    """A model that reads ids, float32, and ends with `kind`."""
    torch.manual_seed(3)
    return Checkpoint(kind, watch(model_of(kind, VOCAB).eval()), IdTokenizer(VOCAB, SpecialIds(-1, -1, -1)))


OFF = [Intervention("encoder.0.self", "zero", heads=(1,))]


def names(ids: list[int]) -> list[str]:
    return [f"token {i}" for i in ids]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    found: np.ndarray = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return found


@pytest.mark.parametrize(
    ("kind", "end"),
    [("classes", "classes"), ("states", "states"), ("positions", "positions"), ("next", "next"), ("number", "states")],
)
def test_what_a_model_ends_with_follows_from_its_head_and_its_mask(kind: str, end: str) -> None:
    checkpoint = reader(kind)
    assert what_if.output_kind(run_any(checkpoint, TEXT)) == end


def test_classes_change_by_their_log_odds() -> None:
    """Also where the model is surer than a float of 1 can say; a single logit is its own log-odds."""
    checkpoint = reader("classes")
    before, after = run_any(checkpoint, TEXT), what_if.read_under(checkpoint, TEXT, OFF)
    chances = [np.exp(log_softmax(run.outputs["logits"])) for run in (before, after)]
    odds = [np.log(p / (1 - p)) for p in chances]
    found = what_if.logit_effects("abc", before.outputs["logits"], after.outputs["logits"])
    np.testing.assert_allclose([one.change for one in found], odds[1] - odds[0], atol=1e-9)
    np.testing.assert_allclose([one.probabilities for one in found], np.transpose(chances), atol=1e-12)
    assert max(abs(one.change) for one in found) > 1e-3
    sure = what_if.logit_effects("ab", np.array([900.0, 0.0]), np.array([0.0, 50.0]))
    assert [one.change for one in sure] == [-950.0, 950.0]
    sure = what_if.logit_effects("ab", np.log([1.0, 1e-30]), np.log([0.5, 0.5]))
    assert sure[0].change == pytest.approx(-math.log(1e30)), "1 - p is 0 there, what the others have is not"
    (alone,) = what_if.logit_effects("a", np.array([0.0]), np.array([2.0]))
    assert alone.probabilities == pytest.approx((0.5, 1 / (1 + np.exp(-2))))
    assert alone.change == 2.0


def test_a_decoder_alone_scores_the_next_token_of_its_own_text_and_a_chosen_one_after_it() -> None:
    checkpoint = reader("next")
    n = len(TEXT.split())
    before, after = (
        what_if.read_under(checkpoint, TEXT, changes)
        for changes in ([], [Intervention("decoder.1.self", "zero", queries=(n - 1,))])
    )
    was = log_softmax(before.outputs["log_probs"])
    ids, usual = what_if.asked_about(before, "next", 3), what_if.asked_about(before, "next")
    assert (ids, usual) == ([*before.ids[1:], 3], [*before.ids[1:], was[-1].argmax()])
    step = what_if.step_at(what_if.scores(before)[1], ids[1], ["own", "first"], [int(was[1].argmax())])
    assert step.rank == (was[1] > was[1, ids[1]]).sum()
    assert step.probability == pytest.approx(np.exp(was[1, ids[1]]))
    assert step.likeliest[0].probability == pytest.approx(np.exp(was[1]).max())
    found = what_if.step_effects(["x"] * n, ids, what_if.scores(before), what_if.scores(after), names)
    assert not any(one.change for one in found[:-1])
    assert found[-1].change == pytest.approx(log_softmax(after.outputs["log_probs"])[-1, 3] - was[-1, 3], abs=1e-9)


def test_positions_keep_what_the_unchanged_model_held_likeliest() -> None:
    before = run_any(reader("positions"), TEXT)
    assert what_if.asked_about(before, "positions") == before.outputs["logits"].argmax(1).tolist()
    np.testing.assert_allclose(what_if.scores(before), log_softmax(before.outputs["logits"]), atol=1e-9)


def test_states_have_lengths_and_a_distance() -> None:
    """A state that turns without getting longer has moved."""
    checkpoint = reader("states")
    before, after = run_any(checkpoint, TEXT), what_if.read_under(checkpoint, TEXT, OFF)
    was, now = (run.outputs["hidden"].astype(np.float64) for run in (before, after))
    found = what_if.state_effects(before, after)
    np.testing.assert_allclose([one.lengths for one in found], np.sqrt([(was**2).sum(1), (now**2).sum(1)]).T)
    np.testing.assert_allclose([one.moved for one in found], np.sqrt(((now - was) ** 2).sum(1)))
    assert [one.text for one in found] == list(before.record["encoder.0.self"].keys.labels)
    turned = what_if.state_effects(before, replace(before, outputs={"hidden": -before.outputs["hidden"]}))
    assert [one.moved for one in turned] == pytest.approx([2 * one.lengths[1] for one in turned])
    assert after.record.interventions == tuple(OFF)
    assert torch.equal(torch.tensor(before.ids), torch.tensor(after.ids))


TEXTS = (SENTENCE, "the dog and the dog sleeps.", "the cat")


@pytest.fixture(scope="module")
def runs(checkpoint: Checkpoint) -> list[Translation]:
    """The first sentence and another one, both walked through targets that part at a known step; and a short one."""
    forced = ("the dog sleeps", "the cat sleeps", "the")
    return [translate(checkpoint, text, DecodingOptions(), one) for text, one in zip(TEXTS, forced, strict=True)]


def test_a_donor_is_its_own_run_unchanged(checkpoint: Checkpoint, runs: list[Translation]) -> None:
    base, other, _ = runs
    with intervening([Intervention("decoder.0.cross", "zero")]):
        logits(checkpoint, other.source_ids, other.target_ids)
        donor = what_if.donor_of(checkpoint, other, "d")
    for site, attention in other.record.items():
        for head in range(attention.n_heads):
            torch.testing.assert_close(donor.weights[site][0, head], torch.tensor(attention.weights(head)))
    last = max(site for site in base.record.sites if site.group == "decoder.cross")
    with recording(outputs=True) as seen:
        logits(checkpoint, other.source_ids, other.target_ids)
    torch.testing.assert_close(donor.outputs[last], seen.outputs(last))


def test_the_odds_are_those_of_the_two_tokens_at_the_parting(checkpoint: Checkpoint, runs: list[Translation]) -> None:
    base, other, short = runs
    step = what_if.parting(base, other)
    assert base.target_ids[:step] == other.target_ids[:step]
    own, theirs = base.target_ids[step], other.target_ids[step]
    assert own != theirs
    change = [Intervention("decoder.0.cross", "patch_output", value=what_if.donor_of(checkpoint, other, "d"))]
    with intervening(change):
        changed = logits(checkpoint, base.source_ids, base.target_ids)[step]
    found = what_if.donor_odds(checkpoint, base, other, change)
    for odds, row in (
        (found.base, logits(checkpoint, base.source_ids, base.target_ids)[step]),
        (found.donor, logits(checkpoint, other.source_ids, other.target_ids)[step]),
        (found.changed, changed),
    ):
        assert odds == pytest.approx(float(row[theirs] - row[own]), abs=1e-5)
    assert what_if.LogOdds(0, ("a", "b"), 1.0, 3.0, 1.5).share == 0.25
    assert what_if.parting(base, base) is None
    assert what_if.donor_odds(checkpoint, base, base, change) is None
    assert math.isnan(what_if.LogOdds(0, ("a", "b"), 1.0, 1.05, 2.0).share), "there is no way to go a share of"
    assert what_if.parting(base, short) == 1, "the end is a token"


def test_positions_that_do_not_stand_for_each_other_are_refused_with_both_lengths(runs: list[Translation]) -> None:
    base, other, short = (run.record for run in runs)
    (queries, keys), (written, _), (other_keys, _) = (
        base["decoder.0.cross"].shape, short["decoder.0.self"].shape, short["encoder.0.self"].shape
    )  # fmt: skip
    what_if.refuse_other_places(base, other, "d", "decoder.0.cross")
    what_if.refuse_other_places(base, short, "d", "decoder.0.self", rows=2)
    for site, rows, told in (
        ("decoder.0.cross", 1, f"'d' has {other_keys} keys at decoder.0.cross and this run {keys}:"),
        ("decoder.0.self", None, f"'d' has {written} rows at decoder.0.self and this run {queries}:"),
        ("encoder.0.self", None, f"'d' has {other_keys} rows at encoder.0.self and this run {keys}:"),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            what_if.refuse_other_places(base, short, "d", site, rows)

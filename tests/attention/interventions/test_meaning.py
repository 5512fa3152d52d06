"""What each intervention means, in every dialect: held against loops over cells, and against runs that need none.

In decoding, row t acts on the step that writes token t, cached and uncached alike.
"""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from heedmap.attention.capture import recording, watch
from heedmap.attention.interventions.edits import intervening
from heedmap.attention.interventions.value import Intervention
from heedmap.errors import InputError
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.search import DecodingOptions, decode
from heedmap.nn.stacks import Encoder, EncoderConfig
from tests.attention.interventions.by_hand import (
    DIALECTS,
    FIELDS,
    HEADS,
    MEAN,
    TARGET,
    VOCAB,
    donor,
    inputs,
    made_of,
    model,
    model_by_hand,
    output_by_hand,
    row_by_hand,
)
from tests.classifiers import sequence_checkpoint
from tests.waiting import PATIENCE

PART: dict[str, Any] = dict(heads=(0, 2), queries=(1, 3))


@cache
def encoder() -> Encoder:
    """An encoder that nobody watches."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return Encoder(EncoderConfig.of(vocab=VOCAB, d_model=12, n_heads=3, d_ff=7, n_layers=2)).double().eval()


def actions(site: str, dialect: str) -> list[Intervention]:
    """One of each action at a site, at some heads and rows; row 1 sees keys 0 and 1 in any of them."""
    return [
        Intervention(site, "knock_out", **PART, keys=(0, 3)),
        Intervention(site, "cut", **PART, keys=(1,)),
        Intervention(site, "force", **PART, keys=(1, 0), value=(0.75, 0.25)),
        Intervention(site, "uniform", **PART),
        Intervention(site, "sharpest", **PART),
        Intervention(site, "temperature", **PART, value=0.3),
        Intervention(site, "zero", **PART),
        Intervention(site, "mean", **PART, value=MEAN),
        Intervention(site, "patch_weights", **PART, value=donor(dialect)),
        Intervention(site, "patch_output", **PART, value=donor(dialect)),
    ]


def changed(
    made: Any, interventions: Sequence[Intervention], *ids: Tensor, outputs: bool = False
) -> tuple[Tensor, Any]:
    with torch.inference_mode(), intervening(interventions), recording(outputs) as seen:
        return made(*ids), seen


def is_by_hand(made: Any, interventions: Sequence[Intervention], *ids: Tensor) -> None:
    """Outputs of the model, and the weights of every site of the record, are those of loops over cells."""
    other, cores = model_by_hand(made, interventions)
    with torch.inference_mode():
        expected = other(*ids)
    found, seen = changed(made, interventions, *ids)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for site in seen.sites:
        kept = torch.stack([torch.from_numpy(seen.map(site, batch=i).all_weights()) for i in range(len(ids[0]))])
        torch.testing.assert_close(kept, cores[site].seen, rtol=0, atol=1e-10)
        tile = torch.from_numpy(seen[site].tile(1, slice(1, 3), slice(1, 4)))
        torch.testing.assert_close(tile, cores[site].seen[0, 1, 1:3, 1:4], rtol=0, atol=1e-10)
    assert seen.interventions == tuple(dict.fromkeys(interventions))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_action_is_its_formula_cell_by_cell(dialect: str) -> None:
    """At one site of each kind."""
    with torch.inference_mode():
        plain = model(dialect)(*inputs())
    for number, site in enumerate(("encoder.1.self", "decoder.0.self", "decoder.1.cross")):
        for one in actions(site, dialect)[number % 2 :: 2] if dialect != "torch" else actions(site, dialect):
            is_by_hand(model(dialect), [one], *inputs())
            assert not torch.allclose(changed(model(dialect), [one], *inputs())[0], plain, rtol=0, atol=1e-6), one


@settings(max_examples=25, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=5), st.integers(0, 99))
def test_any_set_of_interventions_is_done_in_its_order(drawn: list[dict[str, Any]], seed: int) -> None:
    is_by_hand(model(), [made_of(fields) for fields in drawn], *inputs(seed))


@pytest.mark.kernels
def test_without_interventions_every_bit_is_as_it_was_and_so_are_heads_and_rows_that_none_names() -> None:
    made, ids = model(), inputs()
    with torch.inference_mode():
        plain = made(*ids)
        with intervening([]):
            assert torch.equal(made(*ids), plain)
        with recording(outputs=True) as before:
            made(*ids)
        one = Intervention("decoder.0.cross", "knock_out", heads=(1,), queries=(2, 4), keys=(0,))
        with intervening([one]), recording(outputs=True) as after:
            made(*ids)
        assert torch.equal(made(*ids), plain), "nothing stays behind"
    same = torch.ones(HEADS, TARGET, dtype=torch.bool)
    same[1, [2, 4]] = False
    first, then = before.outputs("decoder.0.cross"), after.outputs("decoder.0.cross")
    assert torch.equal(first[:, same], then[:, same])
    assert not torch.isclose(first[:, ~same], then[:, ~same]).all(-1).any()
    for site in ("encoder.0.self", "encoder.1.self", "decoder.0.self"):
        assert torch.equal(before.outputs(site), after.outputs(site)), "what runs before it keeps its bits"


def test_a_step_that_sees_no_source_does_not_depend_on_it() -> None:
    """Rows 0 to t of every layer: past rows would tell of the source else. In one layer, row t alone."""
    (source, target), (another, _) = inputs(0, 1), inputs(1, 1)
    blind = [Intervention(f"decoder.{i}.cross", "knock_out", queries=(0, 1, 2)) for i in range(2)]
    first, seen = changed(model(), blind, source, target)
    second, _ = changed(model(), blind, another, target)
    torch.testing.assert_close(first[:, :3], second[:, :3], rtol=0, atol=1e-12)
    assert not torch.isclose(first[:, 3:], second[:, 3:]).all(-1).any()
    assert not seen["decoder.1.cross"].all_weights()[:, :3].any(), "rows that see nothing are zeros"
    picture = seen["decoder.1.cross"].picture(0)
    assert any("see nothing after the change: 3" in note for note in picture.notes)
    assert all("knocked out" in change for change in picture.changes)
    assert picture.title.endswith("2 changes")
    shallow = model(n_decoder_layers=1)
    one = [Intervention("decoder.0.cross", "knock_out", queries=(3,))]
    first, second = (changed(shallow, one, ids, target)[0] for ids in (source, another))
    alike = torch.isclose(first, second, rtol=0, atol=1e-12).all(-1)[0]
    assert alike.tolist() == [t == 3 for t in range(TARGET)]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_run_patched_with_itself_is_the_same_run(batch: int) -> None:
    ids = inputs(7, batch)
    with torch.inference_mode(), recording(outputs=True) as seen:
        plain = model()(*ids)
    own = seen.donor("itself")
    outputs, _ = changed(model(), [Intervention(site, "patch_output", value=own) for site in seen.sites], *ids)
    assert torch.equal(outputs, plain)
    weights, _ = changed(model(), [Intervention(site, "patch_weights", value=own) for site in seen.sites], *ids)
    torch.testing.assert_close(weights, plain, rtol=0, atol=1e-12)


def test_32_threads_with_sentences_and_interventions_of_their_own_never_mix_what_runs_or_what_is_recorded() -> None:
    made, together = model(), Barrier(32)
    names = [(f"decoder.{layer}.{kind}", head) for layer in range(2) for kind in ("self", "cross") for head in range(3)]
    sets = [[Intervention(site, "zero", heads=(head,))] if n % 5 else [] for n, (site, head) in enumerate(names * 3)]

    def run(number: int) -> tuple[Tensor, Any, dict[str, np.ndarray]]:
        found, seen = changed(made, sets[number], *inputs(number))
        return found, (seen.sites, seen.interventions), {site: seen[site].all_weights() for site in seen.sites}

    expected = [run(number) for number in range(32)]

    def is_alone(number: int) -> bool:
        fine = True
        for _ in range(3):
            together.wait(timeout=PATIENCE)
            found, seen, weights = run(number)
            fine &= torch.equal(found, expected[number][0]) and seen == expected[number][1]
            fine &= all(np.array_equal(weights[site], expected[number][2][site]) for site in weights)
        return fine

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(is_alone, range(32)))


def test_an_inner_block_takes_over_and_nothing_stays_behind_a_failure() -> None:
    made, ids, off = model(), inputs(), [Intervention("decoder.0.cross", "zero")]
    with torch.inference_mode():
        plain = made(*ids)
        with intervening(off):
            outer = made(*ids)
            with intervening([]):
                assert torch.equal(made(*ids), plain)
            assert torch.equal(made(*ids), outer)
        assert not torch.allclose(outer, plain)
        with pytest.raises(InputError, match="names 3"), intervening([replace(off[0], heads=(3,))]):
            made(*ids)
        assert torch.equal(made(*ids), plain)


def test_a_block_that_no_watched_model_noticed_is_refused_at_its_end() -> None:
    """Its model is unwatched, in another thread, or none; what another exception says comes first, with a note."""
    unwatched = copy.deepcopy(encoder())
    off, ids = [Intervention("encoder.0.self", "zero")], inputs()[0]
    refused = pytest.raises(InputError, match=r"nothing was changed: .* inside `with recording\(module\):`")
    with refused, torch.inference_mode():
        plain = unwatched(ids)
        with intervening(off):
            assert torch.equal(unwatched(ids), plain)
    with refused, intervening(off):
        pass
    with ThreadPoolExecutor(1) as pool, refused, intervening(off):
        pool.submit(watch(unwatched), ids).result()
    with refused, intervening(off), intervening([]), torch.inference_mode():
        unwatched(ids)
    with intervening([]):
        pass
    with pytest.raises(ZeroDivisionError) as failed, intervening(off):
        raise ZeroDivisionError
    assert "recording(module)" in failed.value.__notes__[0]
    with intervening(off), torch.inference_mode():
        assert not torch.equal(unwatched(ids), plain)


def test_encoders_and_kmer_classifiers_with_their_pooling() -> None:
    watched = watch(copy.deepcopy(encoder()))
    classifier = sequence_checkpoint(double=True, n_questions=2).model
    letters = torch.randint(0, 4, (1, 9), generator=torch.Generator().manual_seed(3))
    for made, site, ids in (
        (watched, "encoder.1.self", inputs()[0]),
        (classifier, "encoder.0.self", letters),
        (classifier, "pooling", letters),
    ):
        for one in (
            Intervention(site, "knock_out", heads=(1,), queries=(0, 1), keys=(2,)),
            Intervention(site, "uniform", heads=(2,)),
            Intervention(site, "mean", heads=(0,), queries=(1,), value=(0.5, -0.5, 0.25, 1.0)),
        ):
            is_by_hand(made, [one], ids)
            with torch.inference_mode():
                plain = made(ids)
            assert not torch.allclose(changed(made, [one], ids)[0], plain, rtol=0, atol=1e-7)


OPTIONS = [DecodingOptions(beam=beam, max_length=5) for beam in (1, 3)]


def sources() -> Tensor:
    source = torch.randint(3, 19, (2, 7), generator=torch.Generator().manual_seed(11))
    source[1, -3:] = 0
    return source


def decoded(made: Any, source: Tensor, options: DecodingOptions, *changes: Intervention) -> list[list[float]]:
    """The log-probabilities of what is decoded under changes, in which cached and uncached agree."""
    with intervening(changes):
        ways = [decode(made, source, options, cached=way) for way in (True, False)]
    for mine, other in zip(*ways, strict=True):
        trees = [[(n.parent, n.token, n.status) for n in tree.nodes] for tree in (mine, other)]
        assert trees[0] == trees[1]
        assert mine.log_probs == pytest.approx(other.log_probs, abs=1e-9)
    return [list(tree.log_probs) for tree in ways[0]]


@pytest.mark.parametrize("site", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_cached_decoding_is_uncached_decoding_under_every_action(site: str) -> None:
    made, source, moved = model(), sources(), 0
    if site == "encoder.1.self":
        source = source[:1]  # a donor of 7 positions stands for no shorter sentence
    at_all_steps = Intervention(site, "uniform", heads=(1,)), Intervention(site, "patch_output", heads=1, value=donor())
    for options in OPTIONS if site != "encoder.1.self" else OPTIONS[1:]:
        plain = [tree.log_probs for tree in decode(made, source, options)]
        for one in (*actions(site, "torch"), *at_all_steps):
            found = decoded(made, source, options, one)
            moved += sum(now != pytest.approx(was, abs=1e-9) for now, was in zip(found, plain, strict=True))
    assert moved >= 10


def test_row_t_is_the_step_that_writes_token_t() -> None:
    """The unchanged steps before t write with the same probabilities; from t on another head is missing."""
    made, source = model(), sources()[:1]
    plain = decode(made, source, OPTIONS[0])[0]
    for t in range(1, 4):
        with intervening([Intervention("decoder.1.cross", "zero", queries=(t,))]):
            found = decode(made, source, OPTIONS[0])[0]
        assert found.ids[:t] == plain.ids[:t]
        assert found.log_probs[:t] == plain.log_probs[:t], "to the bit"
        assert found.log_probs[t] != pytest.approx(plain.log_probs[t], abs=1e-6)


def recurrent(attention: str) -> Recurrent:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = RecurrentConfig.of(
            source_vocab=19, target_vocab=19, hidden=13, d_embedding=11, attention=attention, max_length=9, pad_id=0
        )
        made = Recurrent(config)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return watch(made.double().eval())


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_recurrent_attention_is_changed_step_by_step(attention: str) -> None:
    """Weights as the formulas have them, in the record; mixed states that they make; cached as uncached."""
    made, source, site = recurrent(attention), sources(), "decoder.cross"
    target = torch.randint(3, 19, (2, 5), generator=torch.Generator().manual_seed(12))
    with torch.inference_mode(), recording(outputs=True) as seen:
        plain = made(source, target)
    before = torch.from_numpy(seen[site].weights(0))  # (step, source)
    states, donated = made.start(source).source.states[0].detach(), seen.donor("itself")
    for action, fields in {
        "knock_out": dict(keys=(0, 2)),
        "cut": dict(keys=(0, 2)),
        "force": dict(keys=(2, 1), value=(0.75, 0.25)),
        "temperature": dict(value=0.5),
        "sharpest": {},
        "uniform": {},
        "zero": {},
    }.items():
        one = Intervention(site, action, queries=(1, 3), **fields)
        found, after = changed(made, [one], source, target, outputs=True)
        weights = row_by_hand(before[1].log().tolist(), [True] * before.shape[1], 1, 0, 0, [one])
        kept, mixed = torch.from_numpy(after[site].weights(0)), torch.tensor(weights, dtype=before.dtype) @ states
        assert torch.equal(kept[0], before[0])
        torch.testing.assert_close(kept[1], torch.tensor(weights, dtype=before.dtype), rtol=0, atol=1e-12)
        expected = output_by_hand(mixed, 1, 0, 0, [one])
        torch.testing.assert_close(after.outputs(site)[0, 0, 1], expected, rtol=0, atol=1e-12)
        assert torch.equal(found[:, 0], plain[:, 0])
        assert not torch.allclose(found[:, 1], plain[:, 1], rtol=0, atol=1e-9)
    for action in ("patch_weights", "patch_output"):
        found, _ = changed(made, [Intervention(site, action, value=donated)], source, target)
        torch.testing.assert_close(found, plain, rtol=0, atol=1e-12)
    some = Intervention(site, "uniform", queries=(1, 2)), Intervention(site, "zero", queries=(3,))
    for options in OPTIONS:
        decoded(made, source, options, *some)


def test_what_does_not_exist_is_refused_and_says_what_does() -> None:
    made, source, target = model(), sources(), torch.full((2, 4), 5)
    no_head, patch = "heads of an intervention names 3, past the end", dict(value=donor())
    for one, told in (
        (Intervention("decoder.7.cross", "zero"), "no attention 'decoder.7.cross': choose one of decoder.0.cross, "),
        (Intervention("encoder.0.self", "zero", heads=(0, 3)), no_head),
        (Intervention("encoder.0.self", "zero", queries=(7,)), "queries of an intervention names 7"),
        (Intervention("decoder.0.cross", "cut", keys=(7,)), "keys of an intervention names 7.*: choose 0 to 6"),
        (Intervention("decoder.0.self", "force", queries=(0,), value=(0.5, 0.5)), "puts weight on key 1 of decoder.0"),
        (Intervention("decoder.0.self", "mean"), "no mean output of decoder.0.self is known"),
        (Intervention("decoder.0.self", "mean", value=(1.0, 2.0)), "has 2 numbers, its heads have 13: give 13"),
        (Intervention("decoder.0.self", "patch_weights", **patch), "has 5 rows at decoder.0.self and this run 4"),
        (Intervention("encoder.0.self", "patch_output", **patch), "has 7 rows at encoder.0.self and this run 8"),
        (Intervention("decoder.0.cross", "patch_weights", queries=0, **patch), "has 7 keys .* and this run 8"),
        (Intervention("decoder.0.self", "patch_output", queries=7, **patch), "has 5 rows .* and this run 8"),
    ):
        longer = "this run 8" in told
        ids = (F.pad(source, (1, 0), value=5), torch.full((2, 9), 5)) if longer else (source, target)
        with pytest.raises(InputError, match=told), intervening([one]):
            made(*ids)
    for one in (
        Intervention("decoder.0.self", "cut", queries=(40,), keys=(41,)),  # a step that is not reached
        Intervention("decoder.0.self", "patch_output", queries=(0, 1), value=donor()),  # rows that both have
    ):
        with intervening([one]):
            made(source, target)

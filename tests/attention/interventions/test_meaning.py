"""What each intervention means, in every dialect: held against loops over cells, and against runs that need none."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.attention.interventions.by_hand import model_by_hand
from tests.classifiers import sequence_checkpoint
from transformer.attention.capture import recording, watch
from transformer.attention.interventions.active import intervening
from transformer.attention.interventions.value import ACTIONS, Donor, Intervention
from transformer.errors import InputError
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.seq2seq import Seq2Seq, preset

BATCH, SOURCE, TARGET, HEADS, D_K, D_V, D_MODEL, VOCAB = 2, 7, 5, 3, 11, 13, 17, 19
DIALECTS = {
    "annotated": ("annotated", {}),
    "annotated, norm after": ("annotated", {"norm_first": False}),
    "jadore": ("jadore", {}),
    "torch": ("torch", {}),
    "torch, norm before": ("torch", {"norm_first": True}),
}
MEAN = tuple(0.1 * i - 0.4 for i in range(D_V))
PART: dict[str, Any] = dict(heads=(0, 2), queries=(1, 3))


@cache
def model(dialect: str = "torch", **changes: Any) -> Seq2Seq:
    name, options = DIALECTS[dialect]
    sizes = dict(source_vocab=VOCAB, target_vocab=VOCAB, d_model=D_MODEL, n_heads=HEADS, d_k=D_K, d_v=D_V, d_ff=23)
    depths = dict(n_encoder_layers=2, n_decoder_layers=2, max_length=29)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        made = Seq2Seq(preset(name, **(sizes | depths | options | changes)))
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    return watch(made.double().eval())


def inputs(seed: int = 0, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """Sources and targets; the last source of a batch has two positions of padding."""
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(3, VOCAB, (batch, SOURCE), generator=random)
    target = torch.randint(3, VOCAB, (batch, TARGET), generator=random)
    if batch > 1:
        source[-1, -2:] = 0
    return source, target


@cache
def donor(dialect: str = "torch", seed: int = 5, batch: int = 1) -> Donor:
    with torch.inference_mode(), recording(outputs=True) as seen:
        model(dialect)(*inputs(seed, batch))
    return seen.donor("other")


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


def changed(made: Any, interventions: Sequence[Intervention], *ids: Tensor) -> tuple[Tensor, Any]:
    with torch.inference_mode(), intervening(interventions), recording() as seen:
        return made(*ids), seen


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_action_is_its_formula_cell_by_cell(dialect: str) -> None:
    """At one site of each kind: outputs of the model, and the weights of every site of the record."""
    with torch.inference_mode():
        plain = model(dialect)(*inputs())
    acted = 0
    for number, site in enumerate(("encoder.1.self", "decoder.0.self", "decoder.1.cross")):
        for one in actions(site, dialect)[number % 2 :: 2] if dialect != "torch" else actions(site, dialect):
            other, cores = model_by_hand(model(dialect), [one])
            with torch.inference_mode():
                expected = other(*inputs())
            found, seen = changed(model(dialect), [one], *inputs())
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
            assert not torch.allclose(found, plain, rtol=0, atol=1e-6), one
            acted += 1
            for other_site in seen.sites:
                for batch in range(BATCH):
                    kept = torch.from_numpy(seen.map(other_site, batch=batch).all_weights())
                    torch.testing.assert_close(kept, cores[other_site].seen[batch], rtol=0, atol=1e-11)
            assert seen.interventions == (one,)
    assert acted >= 15


PLACES = st.sampled_from(["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.1.cross"])
SOME = st.one_of(st.none(), st.sets(st.integers(0, 2), min_size=1).map(sorted))
VALUES = {"temperature": 0.7, "mean": MEAN, "force": (1.0,)}
FIELDS = st.fixed_dictionaries(dict(site=PLACES, action=st.sampled_from(ACTIONS), heads=SOME, queries=SOME, keys=SOME))


def made_of(fields: dict[str, Any]) -> Intervention:
    """An intervention with a value that its action takes, and with keys only where it takes them."""
    action = fields["action"]
    value = donor() if action.startswith("patch") else VALUES.get(action)
    keys = fields["keys"] if action in {"knock_out", "cut", "uniform", "sharpest"} else None
    return Intervention(**(fields | dict(keys=keys, value=value)))


@settings(max_examples=25, deadline=None)
@given(st.lists(FIELDS, min_size=1, max_size=5), st.integers(0, 99))
def test_any_set_of_interventions_is_done_in_its_order(drawn: list[dict[str, Any]], seed: int) -> None:
    interventions, ids = [made_of(fields) for fields in drawn], inputs(seed)
    other, cores = model_by_hand(model(), interventions)
    with torch.inference_mode():
        expected = other(*ids)
    found, seen = changed(model(), interventions, *ids)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for site in ("encoder.1.self", "decoder.1.cross"):
        kept = torch.from_numpy(seen.map(site, batch=1).all_weights())
        torch.testing.assert_close(kept, cores[site].seen[1], rtol=0, atol=1e-10)


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


def keeping(kept: dict[str, Tensor], part: str) -> Any:
    """A hook that keeps what a module answers."""
    return lambda _module, _inputs, output: kept.update({part: output})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_head_that_is_off_is_the_sublayer_without_that_heads_own_term(dialect: str) -> None:
    """Output - sum_j a_tj v_j W_O[h], with a, v and W_O taken from the unchanged run: the bias b_O stays."""
    made, ids = model(dialect), inputs()
    for name, site in (
        ("encoder.1.self_attention", "encoder.1.self"),
        ("decoder.1.self_attention", "decoder.1.self"),
        ("decoder.0.cross_attention", "decoder.0.cross"),
    ):
        sublayer: Any = made.get_submodule(name)
        kept: dict[str, Tensor] = {}
        handles = [getattr(sublayer, part).register_forward_hook(keeping(kept, part)) for part in ("value", "output")]
        with torch.inference_mode(), recording() as seen:
            made(*ids)
        before = dict(kept)
        changed(made, [Intervention(site, "zero", heads=(1,))], *ids)
        for handle in handles:
            handle.remove()
        for batch in range(BATCH):
            a = torch.from_numpy(seen.map(site, batch=batch).weights(1))
            v = before["value"][batch][:, D_V : 2 * D_V]
            own = a @ v @ sublayer.output.weight[:, D_V : 2 * D_V].T
            torch.testing.assert_close(kept["output"][batch], before["output"][batch] - own, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_knocked_out_everywhere_is_a_key_that_the_mask_hides(dialect: str) -> None:
    source, target = inputs(batch=1)
    masked = source.clone()
    masked[0, 3] = 0
    everywhere = [
        Intervention(site, "knock_out", keys=(3,))
        for site in ("encoder.0.self", "encoder.1.self", "decoder.0.cross", "decoder.1.cross")
    ]
    found, _ = changed(model(dialect), everywhere, source, target)
    with torch.inference_mode():
        torch.testing.assert_close(found, model(dialect)(masked, target), rtol=0, atol=1e-11)
        assert not torch.allclose(found, model(dialect)(source, target), atol=1e-4)


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


def test_cut_rows_are_said_to_sum_to_less() -> None:
    _, seen = changed(model(), [Intervention("encoder.0.self", "cut", heads=(1,), keys=(2,))], *inputs(batch=1))
    short = int((seen["encoder.0.self"].weights(1).sum(1) < 1 - 1e-4).sum())
    notes = seen["encoder.0.self"].picture(1).notes
    assert short > 1
    assert notes == (f"rows that sum to less than 1, since cells were cut: {short}",)
    assert not seen["encoder.0.self"].picture(0).notes


def test_a_tile_of_a_changed_map_is_a_slice_of_the_whole() -> None:
    one = Intervention("encoder.0.self", "knock_out", heads=(1,), queries=(1, 4), keys=(2, 3))
    _, seen = changed(model(), [one], *inputs(batch=1))
    attention = seen["encoder.0.self"]
    whole, tile = attention.weights(1), attention.tile(1, slice(3, 6), slice(1, 5))
    torch.testing.assert_close(torch.from_numpy(tile), torch.from_numpy(whole[3:6, 1:5].copy()))
    assert not whole[4, 2:4].any()
    assert whole[3, 2:4].all()


def test_32_threads_with_different_interventions_never_mix() -> None:
    made, ids = model(), inputs()
    names = [(f"decoder.{layer}.{kind}", head) for layer in range(2) for kind in ("self", "cross") for head in range(3)]
    sets = [[Intervention(site, "zero", heads=(head,))] if n % 5 else [] for n, (site, head) in enumerate(names * 3)]
    sets = sets[:32]
    expected = [changed(made, one, *ids)[0] for one in sets]
    together = Barrier(32)

    def run(number: int) -> bool:
        fine = True
        for _ in range(3):
            together.wait(timeout=60)
            found, seen = changed(made, sets[number], *ids)
            fine &= torch.equal(found, expected[number]) and seen.interventions == tuple(sets[number])
        return fine

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(run, range(32)))


def test_an_inner_block_takes_over_and_nothing_stays_behind_a_failure() -> None:
    made, ids = model(), inputs()
    off = [Intervention("decoder.0.cross", "zero")]
    with torch.inference_mode():
        plain = made(*ids)
        with intervening(off):
            outer = made(*ids)
            with intervening([]):
                assert torch.equal(made(*ids), plain)
            assert torch.equal(made(*ids), outer)
        assert not torch.allclose(outer, plain)
        with (
            pytest.raises(InputError, match="heads of an intervention names 3"),
            intervening([Intervention("decoder.0.cross", "zero", heads=(3,))]),
        ):
            made(*ids)
        assert torch.equal(made(*ids), plain)


def test_a_block_that_no_watched_model_noticed_is_refused_at_its_end() -> None:
    """Its model is unwatched, in another thread, or none; what another exception says comes first, with a note."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        unwatched = Encoder(EncoderConfig(vocab=VOCAB, d_model=12, n_heads=3, d_ff=7, n_layers=2)).double().eval()
    off, ids = [Intervention("encoder.0.self", "zero")], inputs()[0]
    refused = pytest.raises(InputError, match=r"nothing was changed: .* call watch\(model\) once")
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
    assert "watch(model)" in failed.value.__notes__[0]
    with intervening(off), torch.inference_mode():
        assert not torch.equal(unwatched(ids), plain)


def test_encoders_and_kmer_classifiers_with_their_pooling() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        encoder = watch(Encoder(EncoderConfig(vocab=VOCAB, d_model=12, n_heads=3, d_ff=7, n_layers=2)).double().eval())
    classifier = sequence_checkpoint(double=True, n_questions=2).model
    letters = torch.randint(0, 4, (1, 9), generator=torch.Generator().manual_seed(3))
    for made, site, ids in (
        (encoder, "encoder.1.self", inputs()[0]),
        (classifier, "encoder.0.self", letters),
        (classifier, "pooling", letters),
    ):
        for one in (
            Intervention(site, "knock_out", heads=(1,), queries=(0, 1), keys=(2,)),
            Intervention(site, "uniform", heads=(2,)),
            Intervention(site, "mean", heads=(0,), queries=(1,), value=(0.5, -0.5, 0.25, 1.0)),
        ):
            other, cores = model_by_hand(made, [one])
            with torch.inference_mode():
                expected, plain = other(ids), made(ids)
            found, seen = changed(made, [one], ids)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
            assert not torch.allclose(found, plain, rtol=0, atol=1e-7)
            kept = torch.from_numpy(seen[site].all_weights())
            torch.testing.assert_close(kept, cores[site].seen[0], rtol=0, atol=1e-12)


def test_the_reference_is_attention_where_nothing_is_changed() -> None:
    other, _ = model_by_hand(model(), [])
    with torch.inference_mode():
        torch.testing.assert_close(other(*inputs()), model()(*inputs()), rtol=0, atol=1e-12)

"""Capture: it observes everything, changes nothing, belongs to its caller, and leaves nothing behind."""

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heedmap.attention.capture import Recording, recording, watch
from heedmap.attention.interventions.edits import intervening
from heedmap.attention.interventions.value import Intervention
from heedmap.attention.softmax_inputs import AttentionInputs, Weights
from heedmap.errors import RecordError
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.plots.axes import Axis
from heedmap.sites import Site

BATCH, SOURCE, TARGET, HEADS, D_K, D_V, D_MODEL, VOCAB = 2, 11, 7, 3, 5, 13, 19, 31
ENCODER, DECODER = 2, 3
SITES = [Site.of("encoder", i, "self") for i in range(2)]
SITES += [Site.of("decoder", i, kind) for i in range(3) for kind in ("self", "cross")]


def small_model(**changes: Any) -> Seq2Seq:
    sizes = dict(d_model=D_MODEL, n_heads=HEADS, d_k=D_K, d_v=D_V, d_ff=17)
    depths = dict(n_encoder_layers=ENCODER, n_decoder_layers=DECODER, max_length=300)
    config = Seq2SeqConfig.of(**(dict(source_vocab=VOCAB, target_vocab=VOCAB, **sizes, **depths) | changes))
    return watch(Seq2Seq(config)).eval()


def sentences(batch: int = BATCH, source: int = SOURCE, target: int = TARGET, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    first, second = (torch.randint(3, VOCAB, (batch, count), generator=random) for count in (source, target))
    return first, second


def padded() -> tuple[Tensor, Tensor]:
    """A batch whose second source has 5 tokens, and whose second target has 3."""
    source, target = sentences()
    source[1, 5:], target[1, 3:] = 0, 0
    return source, target


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


BATCHES = pytest.mark.parametrize("inputs", [sentences(), padded()], ids=["whole", "padded"])


@pytest.mark.kernels
@BATCHES
def test_the_output_with_capture_is_bit_equal_to_the_output_without(inputs: tuple[Tensor, Tensor]) -> None:
    model = small_model()
    with torch.inference_mode():
        plain = model(*inputs)
        with recording() as seen:
            watched = copy.deepcopy(model)(*inputs)
    assert torch.equal(plain, watched)
    assert list(seen.sites) == SITES, "a copy is watched too"


def test_every_site_is_seen_in_the_order_it_ran_with_the_callers_axes_or_positions() -> None:
    with recording() as seen:
        small_model()(*sentences())
    assert list(seen.sites) == SITES
    shapes = {
        "encoder.1.self": (SOURCE, SOURCE),
        "decoder.2.self": (TARGET, TARGET),
        "decoder.0.cross": (TARGET, SOURCE),
    }
    assert {site: seen[site].shape for site in shapes} == shapes
    assert {seen[site].n_heads for site in SITES} == {HEADS}
    assert seen["decoder.0.cross"].queries.labels == tuple(map(str, range(TARGET)))
    source = Axis.of_tokens("source", [f"word {i}" for i in range(SOURCE)])
    assert seen.map("decoder.0.cross", keys=source).keys is source


@BATCHES
def test_weights_times_values_through_the_projection_are_the_sublayers_output(inputs: tuple[Tensor, Tensor]) -> None:
    model, found, handles = small_model().double(), dict[str, Tensor](), []
    names = {site: f"{site.stack}.{site.layer}.{site.kind}_attention" for site in SITES}
    for name in names.values():
        for part in ("value", "output"):
            keep = lambda module, given, output, key=f"{name}.{part}": found.update({key: output})  # noqa: E731
            handles.append(model.get_submodule(f"{name}.{part}").register_forward_hook(keep))
    with torch.no_grad(), recording() as seen:
        model(*inputs)
    for handle in handles:
        handle.remove()
    for site, name in names.items():
        for batch in range(BATCH):
            weights = torch.from_numpy(seen.map(site, batch=batch).all_weights())  # (head, query, key)
            mixed = weights @ found[f"{name}.value"][batch].unflatten(-1, (HEADS, D_V)).transpose(0, 1)
            expected = model.get_submodule(f"{name}.output")(mixed.transpose(0, 1).flatten(1))
            torch.testing.assert_close(expected, found[f"{name}.output"][batch], rtol=0, atol=1e-12)


def test_a_decoder_sees_neither_the_future_nor_padding() -> None:
    with recording() as seen:
        small_model()(*padded())
    past, real = np.tri(TARGET, dtype=bool), np.arange(TARGET) < 3
    for site, batch, visible in (
        ("decoder.1.self", 0, past),
        ("decoder.1.self", 1, past & real),
        ("decoder.1.cross", 1, np.arange(SOURCE) < 5),
    ):
        found = seen.map(site, batch=batch)
        assert (found.mask() == visible).all()
        assert not found.all_weights()[:, ~found.mask()].any()


def test_a_padded_sentence_looks_as_it_does_alone() -> None:
    model = small_model().double()
    source, target = padded()
    with recording() as together:
        model(source, target)
    with recording() as alone:
        model(source[1:, :5], target[1:, :3])
    sizes = dict(self=dict(encoder=(5, 5), decoder=(3, 3)), cross=dict(decoder=(3, 5)))
    for site in SITES:
        n_queries, n_keys = sizes[site.kind][site.stack]
        queries, keys = Axis.of_tokens("query", ["x"] * n_queries), Axis.of_tokens("key", ["x"] * n_keys)
        cut = together.map(site, queries, keys, batch=1)
        np.testing.assert_allclose(cut.all_weights(), alone[site].all_weights(), rtol=0, atol=1e-12)


def test_a_source_of_padding_only_gives_rows_of_zeros_and_no_nan() -> None:
    source, target = sentences()
    source[1] = 0
    with recording() as seen:
        assert small_model()(source, target).isfinite().all()
    blind = seen.map("decoder.0.cross", batch=1)
    assert not blind.all_weights().any()
    assert not blind.mask().any()


def test_an_inner_recording_takes_over_and_gives_back() -> None:
    model = small_model()
    with recording() as outer:
        with recording() as inner:
            model(*sentences())
        assert (list(inner.sites), outer.sites) == (SITES, ())
        model(*sentences(seed=1))
    assert list(outer.sites) == SITES
    assert not np.array_equal(outer["encoder.0.self"].weights(0), inner["encoder.0.self"].weights(0))


def test_nothing_is_left_behind_also_after_a_failure() -> None:
    model, (source, target) = small_model(), sentences()
    before = hooks(model)
    with recording() as seen:
        assert hooks(model) == before
        model(source, target)
    assert hooks(model) == before == len(SITES)
    kept = seen["encoder.0.self"].all_weights()
    with pytest.raises(IndexError), recording() as failed:
        model(source, target + VOCAB)
    model(*sentences(seed=1))
    assert watch(watch(model)) is model
    assert hooks(model) == before
    assert list(failed.sites) == SITES[:ENCODER]
    np.testing.assert_array_equal(seen["encoder.0.self"].all_weights(), kept)


def test_what_is_kept_is_linear_in_the_length() -> None:
    """At most 4 x sites x n x (2 d_model + heads) bytes, the log-sums of all rows included."""
    n = 101
    model = small_model(d_k=0, d_v=0, d_model=18)
    with torch.inference_mode(), recording() as seen:
        model(*sentences(1, n, n))
    kept = 0
    for site in SITES:
        seen[site].all_weights()
        source = seen.source(site)
        assert isinstance(source, AttentionInputs)
        held = sum(x.untyped_storage().nbytes() for x in (source.q, source.k, source._log_sums))
        assert source.kept_bytes <= held
        kept += held
    assert kept <= 4 * len(SITES) * n * (2 * 18 + HEADS)


def test_no_table_of_all_queries_and_keys_is_kept() -> None:
    n = 211

    def tables() -> int:
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]
        return sum(tuple(tensor.shape[-2:]) == (n, n) for tensor in tensors)

    model = small_model()
    source, target = sentences(2, n, n)
    source[1, -5:], target[1, -5:] = 0, 0
    before = tables()
    with torch.inference_mode(), recording() as seen:
        model(source, target)
        assert tables() == before
    assert seen["decoder.0.self"].overview(0, 7).shape == (7, 7)
    assert tables() == before
    table = torch.zeros(n, n)
    assert (tables(), table.shape) == (before + 1, (n, n)), "a table would have been counted"


def test_a_site_that_ran_twice_or_not_at_all_is_named() -> None:
    with pytest.raises(RecordError, match=r"site='x' did not run: choose one of \(nothing ran\)"):
        Recording().source("x")
    model = small_model()
    with recording() as seen:
        model(*sentences())
        model(*sentences(seed=1))
    with pytest.raises(RecordError, match=r"site='x' did not run: choose one of encoder.0.self, encoder.1.self"):
        seen.source("x")
    with pytest.raises(RecordError, match=r"'encoder.0.self' ran 2 times: record one forward pass at a time"):
        seen.source("encoder.0.self")


def test_a_recording_of_whole_tables_keeps_what_was_mixed_by_and_under_interventions_what_they_made() -> None:
    """Equal to rounding: a table is written out and mixed by, where otherwise the inputs of the softmax are kept."""
    model, (source, target) = small_model(), sentences()
    knocked = Intervention("encoder.0.self", "knock_out", heads=(1,), keys=(2,))
    with torch.inference_mode():
        with recording() as lazy:
            plain = model(source, target)
        with recording(whole=True) as seen:
            written_out = model(source, target)
        with intervening([knocked]), recording(whole=True) as changed:
            model(source, target)
    assert torch.allclose(plain, written_out, atol=1e-4)
    for site in lazy.sites:
        assert isinstance(seen.source(site), Weights)
        for head in range(HEADS):
            assert seen[site].weights(head) == pytest.approx(lazy[site].weights(head), abs=1e-5)
    row = changed["encoder.0.self"].weights(1)
    assert not row[:, 2].any()
    assert row.sum(1) == pytest.approx(1, abs=1e-5)

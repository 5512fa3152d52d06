"""Capture: it observes everything, changes nothing, belongs to its caller, and leaves nothing behind."""

import copy
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from transformer.attention.capture import Recording, recording, watch
from transformer.attention.interventions.active import intervening
from transformer.attention.interventions.value import Intervention
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.errors import RecordError
from transformer.nn.attention import MultiHeadAttention
from transformer.nn.recurrent_attention import AdditiveAttention
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.plots.axes import Axis
from transformer.sites import Site

BATCH, SOURCE, TARGET, HEADS, D_K, D_V, D_MODEL, VOCAB = 2, 11, 7, 3, 5, 13, 19, 31
ENCODER, DECODER = 2, 3
SITES = [Site.of("encoder", i, "self") for i in range(2)]
SITES += [Site.of("decoder", i, kind) for i in range(3) for kind in ("self", "cross")]


def small_model(**changes: Any) -> Seq2Seq:
    sizes = dict(d_model=D_MODEL, n_heads=HEADS, d_k=D_K, d_v=D_V, d_ff=17)
    depths = dict(n_encoder_layers=ENCODER, n_decoder_layers=DECODER, max_length=300)
    config = Seq2SeqConfig(**(dict(source_vocab=VOCAB, target_vocab=VOCAB, **sizes, **depths) | changes))
    return watch(Seq2Seq(config)).eval()


def sentences(batch: int = BATCH, source: int = SOURCE, target: int = TARGET, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return (
        torch.randint(3, VOCAB, (batch, source), generator=random),
        torch.randint(3, VOCAB, (batch, target), generator=random),
    )


def padded() -> tuple[Tensor, Tensor]:
    """A batch whose second source has 5 tokens, and whose second target has 3."""
    source, target = sentences()
    source[1, 5:], target[1, 3:] = 0, 0
    return source, target


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@contextmanager
def sublayers(model: Seq2Seq) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """What each attention sub-layer was asked about, and what it answered: by the name of its module."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def remember(name: str) -> Any:
        return lambda module, inputs, output: seen.update({name: (inputs, output)})

    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            handles.append(module.output.register_forward_hook(remember(f"{name}.output")))
            handles.append(module.value.register_forward_hook(remember(f"{name}.value")))
    yield seen
    for handle in handles:
        handle.remove()


@pytest.mark.kernels
@pytest.mark.parametrize("inputs", [sentences(), padded()], ids=["whole", "padded"])
def test_the_output_with_capture_is_bit_equal_to_the_output_without(inputs: tuple[Tensor, Tensor]) -> None:
    model = small_model()
    with torch.inference_mode():
        plain = model(*inputs)
        with recording():
            watched = model(*inputs)
    assert torch.equal(plain, watched)
    assert torch.equal(copy.deepcopy(model)(*inputs), plain)


def test_every_site_is_seen_in_the_order_it_ran() -> None:
    with recording() as seen:
        small_model()(*sentences())
    assert list(seen.sites) == SITES
    assert [seen[site].shape for site in ("encoder.1.self", "decoder.2.self", "decoder.0.cross")] == [
        (SOURCE, SOURCE),
        (TARGET, TARGET),
        (TARGET, SOURCE),
    ]
    assert {seen[site].n_heads for site in SITES} == {HEADS}


@pytest.mark.parametrize("inputs", [sentences(), padded()], ids=["whole", "padded"])
def test_weights_times_values_through_the_projection_are_the_output_of_the_sublayer(
    inputs: tuple[Tensor, Tensor],
) -> None:
    model = small_model().double()
    with torch.no_grad(), sublayers(model) as answers, recording() as seen:
        model(*inputs)
    for site in SITES:
        name = f"{site.stack}.{site.layer}.{site.kind}_attention"
        sublayer = model.get_submodule(name)
        assert isinstance(sublayer, MultiHeadAttention)
        _, values = answers[f"{name}.value"]
        _, output = answers[f"{name}.output"]
        for batch in range(BATCH):
            weights = torch.from_numpy(seen.map(site, batch=batch).all_weights())  # (head, query, key)
            mixed = weights @ values[batch].unflatten(-1, (HEADS, D_V)).transpose(0, 1)  # (head, query, d_v)
            expected = sublayer.output(mixed.transpose(0, 1).flatten(1))
            torch.testing.assert_close(expected, output[batch], rtol=0, atol=1e-12)


def test_a_decoder_sees_neither_the_future_nor_padding() -> None:
    with recording() as seen:
        small_model()(*padded())
    past = np.tri(TARGET, dtype=bool)
    real = np.arange(TARGET) < 3
    assert (seen.map("decoder.1.self", batch=0).mask() == past).all()
    assert (seen.map("decoder.1.self", batch=1).mask() == past & real).all()
    assert (seen.map("decoder.1.cross", batch=1).mask() == (np.arange(SOURCE) < 5)).all()
    weights = seen.map("decoder.1.self", batch=1).all_weights()
    assert not weights[:, ~(past & real)].any()


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
        output = small_model()(source, target)
    blind = seen.map("decoder.0.cross", batch=1)
    assert not blind.all_weights().any()
    assert not blind.mask().any()
    assert not blind.weights(0).sum(1).any()
    assert output.isfinite().all()


def test_only_the_thread_that_records_is_seen() -> None:
    """Eight threads on one model, each with sentences of its own: each record is the one of its own sentence."""
    model, rounds, threads = small_model(), 9, 8
    together = threading.Barrier(threads)

    def run(sentence: int) -> tuple[list[str], dict[str, np.ndarray]]:
        with torch.inference_mode(), recording() as seen:
            model(*sentences(1, 5 + sentence % 7, 3 + sentence % 5, seed=sentence))
        return list(seen.sites), {site: seen[site].all_weights() for site in seen.sites}

    expected = [run(sentence)[1] for sentence in range(threads)]

    def many(thread: int) -> list[int]:
        wrong = []
        for i in range(rounds):
            sentence = (thread + i) % threads
            together.wait(timeout=60)
            sites, weights = run(sentence)
            same = sites == SITES and all(np.array_equal(weights[site], expected[sentence][site]) for site in SITES)
            wrong += [] if same else [sentence]
        return wrong

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(many, range(threads))) == [[]] * threads


def test_a_thread_started_while_recording_is_not_seen() -> None:
    model = small_model()
    with recording() as seen:
        thread = threading.Thread(target=model, args=sentences())
        thread.start()
        thread.join()
    assert seen.sites == ()


def test_an_inner_recording_takes_over_and_gives_back() -> None:
    model = small_model()
    with recording() as outer:
        with recording() as inner:
            model(*sentences())
        assert (list(inner.sites), outer.sites) == (SITES, ())
        model(*sentences(seed=1))
    assert list(outer.sites) == SITES
    assert not np.array_equal(outer["encoder.0.self"].weights(0), inner["encoder.0.self"].weights(0))


def test_nothing_is_left_behind() -> None:
    model = small_model()
    before = hooks(model)
    with recording() as seen:
        assert hooks(model) == before
        model(*sentences())
    assert hooks(model) == before == len(SITES)
    kept = seen["encoder.0.self"].all_weights()
    model(*sentences(seed=1))
    np.testing.assert_array_equal(seen["encoder.0.self"].all_weights(), kept)


def test_nothing_is_left_behind_after_a_failure() -> None:
    model = small_model()
    before = hooks(model)
    source, target = sentences()
    with pytest.raises(IndexError), recording() as seen:
        model(source, target + VOCAB)
    assert list(seen.sites) == SITES[:ENCODER]
    assert hooks(model) == before
    model(source, target)
    assert list(seen.sites) == SITES[:ENCODER]


def test_a_model_is_watched_once() -> None:
    model = small_model()
    before = hooks(model)
    assert watch(watch(model)) is model
    assert hooks(model) == before


def test_a_copy_of_a_watched_model_is_watched() -> None:
    with recording() as seen:
        copy.deepcopy(small_model())(*sentences())
    assert list(seen.sites) == SITES


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


class Recurrent(nn.Module):
    """Five steps of additive attention, as a recurrent decoder takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = AdditiveAttention(hidden=7, features=5)

    def attention_sites(self) -> dict[Site, nn.Module]:
        return {Site("decoder.cross"): self.attention}

    def forward(self, states: Tensor) -> Tensor:
        source = self.attention.prepare(states, real=None)
        query = torch.zeros(len(states), 7)
        steps = [self.attention(query, query + step, source)[1] for step in range(5)]
        return torch.cat(steps, dim=2)


def test_the_steps_of_a_recurrent_decoder_make_one_map() -> None:
    model = watch(Recurrent())
    with torch.no_grad(), recording() as seen:
        weights = model(torch.randn(BATCH, SOURCE, 5))
    assert isinstance(seen.source("decoder.cross"), Weights)
    for batch in range(BATCH):
        found = seen.map("decoder.cross", batch=batch)
        assert found.shape == (5, SOURCE)
        np.testing.assert_array_equal(found.all_weights(), weights[batch].numpy())
        np.testing.assert_allclose(found.weights(0).sum(1), np.ones(5), rtol=0, atol=1e-6)


def test_two_passes_of_a_fused_attention_cannot_be_told_apart() -> None:
    model = small_model()
    with recording() as seen:
        model(*sentences())
        model(*sentences(seed=1))
    with pytest.raises(RecordError, match=r"'encoder.0.self' ran 2 times: record one forward pass at a time"):
        seen.source("encoder.0.self")


def test_a_site_that_did_not_run_is_named_with_those_that_did() -> None:
    with pytest.raises(RecordError, match=r"site='x' did not run: choose one of \(nothing ran\)"):
        Recording().source("x")
    with recording() as seen:
        small_model()(*sentences())
    with pytest.raises(RecordError, match=r"site='x' did not run: choose one of encoder.0.self, encoder.1.self"):
        seen.source("x")


def test_axes_are_the_callers_or_positions() -> None:
    with recording() as seen:
        small_model()(*sentences())
    assert seen["decoder.0.cross"].queries.labels == tuple(map(str, range(TARGET)))
    source = Axis.of_tokens("source", [f"word {i}" for i in range(SOURCE)])
    assert seen.map("decoder.0.cross", keys=source).keys is source


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

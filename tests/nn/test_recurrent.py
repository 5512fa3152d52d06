"""The recurrent encoder-decoder: batches, steps and attention agree with each other and with torch's own GRU."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer.attention.capture import recording, watch
from transformer.errors import ConfigError, InputError
from transformer.nn.recurrent import Recurrent, RecurrentConfig

KINDS = ("location", "additive")


def _model(**options) -> Recurrent:
    sizes: dict[str, Any] = dict(source_vocab=23, target_vocab=29, hidden=7, max_length=13, dropout=0.0)
    return Recurrent(RecurrentConfig(**(sizes | options))).double().eval()


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("deep_output", [False, True])
def test_padding_changes_nothing(attention, bidirectional, deep_output):
    model = _model(attention=attention, bidirectional=bidirectional, deep_output=deep_output, d_embedding=5)
    long, short = torch.randint(2, 23, (1, 11)), torch.randint(2, 23, (1, 5))
    target = torch.randint(2, 29, (2, 3))
    both = torch.cat([long, torch.nn.functional.pad(short, (0, 6))])
    together = model(both, target)
    assert together.shape == (2, 3, 29)
    torch.testing.assert_close(together[:1], model(long, target[:1]))
    torch.testing.assert_close(together[1:], model(short, target[1:]))


@pytest.mark.parametrize("attention", KINDS)
def test_steps_equal_teacher_forcing(attention):
    model = _model(attention=attention)
    source, target = torch.randint(1, 23, (3, 11)), torch.randint(1, 29, (3, 5))
    whole = model(source, target)
    cache = model.start(source)
    for position in range(5):
        torch.testing.assert_close(model.step(target[:, position : position + 1], cache), whole[:, position])


@pytest.mark.parametrize("attention", KINDS)
def test_a_step_moves_on_as_torchs_own_unit(attention):
    model = _model(attention=attention, bidirectional=True, d_embedding=5)
    cache = model.start(torch.randint(1, 23, (3, 11)))
    embedded = model.target_embedding(torch.tensor([2, 3, 5]))
    context, _ = model.attention(embedded, cache.state, cache.source)
    expected = model.decoder(model.combine(torch.cat([embedded, context], dim=-1)), cache.state)
    logits = model.step(torch.tensor([[2], [3], [5]]), cache)
    torch.testing.assert_close(cache.state, expected)
    torch.testing.assert_close(logits, model.projection(expected))


def test_tied_weights_are_one():
    """20 words of 5 numbers: embedding of either side, and projection."""
    model = _model(source_vocab=20, target_vocab=20, d_embedding=5, deep_output=True)
    tied = _model(
        source_vocab=20, target_vocab=20, d_embedding=5, deep_output=True, tie_embeddings=True, tie_projection=True
    )
    assert tied.projection.weight is tied.target_embedding.weight is tied.source_embedding.weight
    count, tied_count = (sum(p.numel() for p in m.parameters()) for m in (model, tied))
    assert count - tied_count == 2 * 20 * 5
    hidden = tied.hidden(torch.tensor([[3, 7]]), torch.tensor([[1, 11, 2]]))
    expected = hidden @ tied.source_embedding.weight.T + tied.projection.bias
    torch.testing.assert_close(tied.logits(hidden), expected)


@pytest.mark.parametrize("attention", KINDS)
def test_several_new_tokens_are_as_many_steps(attention):
    model = _model(attention=attention)
    source, target = torch.randint(1, 23, (2, 11)), torch.randint(1, 29, (2, 5))
    torch.testing.assert_close(model.step(target, model.start(source)), model(source, target)[:, -1])


@pytest.mark.parametrize("attention", KINDS)
def test_reordered_cache_goes_on_as_the_other_row(attention):
    model = _model(attention=attention)
    source, target = torch.randint(0, 23, (3, 11)), torch.randint(1, 29, (3, 2))
    cache, rows = model.start(source), torch.tensor([2, 2, 0])
    model.step(target[:, :1], cache)
    cache.reorder(rows)
    expected = model(source[rows], target[rows])[:, 1]
    torch.testing.assert_close(model.step(target[rows][:, 1:], cache), expected)


@given(length=st.integers(1, 13), steps=st.integers(1, 5), seed=st.integers(0, 99))
@pytest.mark.parametrize("attention", KINDS)
def test_recorded_rows_sum_to_one(attention, length, steps, seed):
    torch.manual_seed(seed)
    model = watch(_model(attention=attention))
    source, target = torch.randint(0, 23, (2, length)), torch.randint(0, 29, (2, steps))
    source[:, 0] = 3
    with torch.no_grad(), recording() as seen:
        model(source, target)
    weights = seen["decoder.cross"].all_weights()
    assert weights.shape == (1, steps, 13 if attention == "location" else length)
    assert abs(weights.sum(-1) - 1).max() < 1e-12


def test_additive_attention_never_looks_at_padding():
    model = watch(_model())
    source = torch.tensor([[5, 6, 7, 0, 0], [8, 9, 10, 11, 12]])
    with torch.no_grad(), recording() as seen:
        model(source, torch.randint(1, 29, (2, 3)))
    assert (seen.map("decoder.cross", batch=0).all_weights()[:, :, 3:] == 0).all()


def test_weights_mix_the_source_states():
    model = _model(attention="location")
    states = torch.randn(2, 11, 7, dtype=torch.float64)
    source = model.attention.prepare(states, None)
    embedded, state = torch.randn(2, 7, dtype=torch.float64), torch.randn(2, 7, dtype=torch.float64)
    context, weights = model.attention(embedded, state, source)
    torch.testing.assert_close(context, torch.einsum("bhqk,bkf->bf", weights[..., :11], states))


def test_no_padding_id_reads_every_token():
    assert _model(pad_id=-1).start(torch.zeros(1, 5, dtype=torch.long)).source.real is None


@pytest.mark.parametrize("attention", KINDS)
def test_a_source_of_padding_alone_runs(attention):
    cache = _model(attention=attention).start(torch.zeros(1, 5, dtype=torch.long))
    assert cache.state.isfinite().all()


def test_a_source_past_the_positions_is_refused():
    with pytest.raises(InputError, match=r"14 tokens.*13 positions"):
        _model(attention="location").start(torch.ones(1, 14, dtype=torch.long))


def test_no_target_is_refused():
    with pytest.raises(InputError, match="targets=None"):
        _model().outputs(torch.ones(1, 3, dtype=torch.long))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("hidden", 0, "hidden=0"),
        ("attention", "cosine", "location, additive"),
        ("dropout", 1.0, "dropout=1.0"),
        ("d_embedding", -1, "d_embedding=-1"),
        ("tie_embeddings", True, "tie_embeddings needs one vocabulary, but source_vocab=23 and target_vocab=29"),
    ],
)
def test_config_refuses(option, value, message):
    with pytest.raises(ConfigError, match=message):
        _model(**{option: value})


def test_a_tied_projection_reads_what_is_as_wide_as_an_embedding():
    with pytest.raises(ConfigError, match=r"tie_projection needs an output as wide .* hidden=7 and d_embedding=5"):
        _model(d_embedding=5, tie_projection=True)

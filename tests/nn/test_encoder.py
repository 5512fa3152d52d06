"""The encoder alone: against torch.nn.TransformerEncoder, and what its options mean."""

from typing import Any

import pytest
import torch
from torch import nn

from transformer.errors import ConfigError, InputError
from transformer.nn.encoder import Encoder, EncoderConfig


def _model(**options) -> Encoder:
    sizes: dict[str, Any] = dict(vocab=23, d_model=12, n_heads=3, d_ff=17, n_layers=2, dropout=0.0, max_length=13)
    return Encoder(EncoderConfig(**(sizes | options))).double().eval()


def _copy_layer(theirs: Any, ours: Any) -> None:
    weights, biases = theirs.self_attn.in_proj_weight.chunk(3), theirs.self_attn.in_proj_bias.chunk(3)
    for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        getattr(ours.self_attention, name).weight.data = weight
        getattr(ours.self_attention, name).bias.data = bias
    ours.self_attention.output.load_state_dict(theirs.self_attn.out_proj.state_dict())
    ours.feed_forward.widen.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.narrow.load_state_dict(theirs.linear2.state_dict())
    ours.self_residual.norm.load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward_residual.norm.load_state_dict(theirs.norm2.state_dict())


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch(norm_first, activation, causal):
    layer = nn.TransformerEncoderLayer(12, 3, 17, 0.0, activation, batch_first=True, norm_first=norm_first)
    norm = nn.LayerNorm(12)
    original = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False).double().eval()
    for parameter in original.parameters():
        nn.init.normal_(parameter, std=0.5)
    model = _model(norm_first=norm_first, activation=activation, norm_after_stack=True, causal=causal, pad_id=0)
    for theirs, ours in zip(original.layers, model.encoder, strict=True):
        _copy_layer(theirs, ours)
    model.encoder_norm.load_state_dict(norm.state_dict())
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])
    hidden = model(ids)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected = original(model.positions(model.embedding(ids)), mask=future, src_key_padding_mask=ids == 0)
    assert (hidden - expected).abs().max() < 1e-9


def test_positions_along_the_batch_hide_order():
    model, swapped = _model(position_axis="batch"), [1, 0, 2, 3]
    ids = torch.tensor([[3, 4, 5, 6], [3, 4, 5, 6]])
    hidden = model(ids)
    torch.testing.assert_close(hidden[:, swapped], model(ids[:, swapped]))
    assert (hidden[0] - hidden[1]).abs().max() > 1e-3


@pytest.mark.kernels
def test_a_causal_encoder_does_not_see_the_future():
    model = _model(causal=True)
    ids = torch.randint(1, 23, (2, 11))
    changed = ids.clone()
    changed[:, 7:] = torch.randint(1, 23, (2, 4))
    assert torch.equal(model(ids)[:, :7], model(changed)[:, :7])


def test_ids_outside_the_vocabulary_are_refused():
    with pytest.raises(InputError, match="id 23"):
        _model().outputs(torch.tensor([[22, 23]]))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("vocab", 0, "vocab=0"),
        ("n_heads", 5, "d_model=12 cannot be split into n_heads=5"),
        ("position_axis", "head", "sequence, batch"),
        ("activation", "tanh", "relu, gelu"),
        ("positions", "rotary", "sinusoidal"),
        ("norm", "rms", "torch, annotated"),
        ("attention_dropout", -0.1, "attention_dropout=-0.1"),
    ],
)
def test_config_refuses(option, value, message):
    with pytest.raises(ConfigError, match=message):
        _model(**{option: value})

"""The encoder-decoder: parity with torch.nn.Transformer, dialects by configuration, what may influence what."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer.errors import ConfigError, InputError
from transformer.nn.norms import AnnotatedLayerNorm
from transformer.nn.positions import sinusoidal_table
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig, preset

SMALL = dict(
    source_vocab=31,
    target_vocab=29,
    d_model=12,
    n_heads=3,
    d_ff=17,
    n_encoder_layers=2,
    n_decoder_layers=1,
    max_length=23,
)
SOURCE = torch.tensor([[5, 9, 4, 30, 2, 0, 0], [8, 7, 6, 5, 4, 3, 2]])
TARGET = torch.tensor([[1, 28, 4, 5, 0], [1, 9, 9, 3, 7]])


def small(name: str = "torch", **options: object) -> Seq2Seq:
    return Seq2Seq(preset(name, **{**SMALL, **options})).double().eval()


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    weights = torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
    theirs.in_proj_weight.data.copy_(weights)
    theirs.in_proj_bias.data.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def as_torch(model: Seq2Seq) -> nn.Transformer:
    """torch's own Transformer with the weights of ours."""
    config = model.config
    reference = nn.Transformer(
        config.d_model,
        config.n_heads,
        config.n_encoder_layers,
        config.n_decoder_layers,
        config.d_ff,
        0.0,
        config.activation,
        layer_norm_eps=config.norm_eps,
        batch_first=True,
        norm_first=config.norm_first,
        dtype=torch.float64,
    ).eval()
    for ours, theirs in zip(
        [*model.encoder, *model.decoder], [*reference.encoder.layers, *reference.decoder.layers], strict=True
    ):
        copy_attention(ours.self_attention, theirs.self_attn)
        norms = [ours.self_residual.norm]
        if hasattr(ours, "cross_attention"):
            copy_attention(ours.cross_attention, theirs.multihead_attn)
            norms.append(ours.cross_residual.norm)
        norms.append(ours.feed_forward_residual.norm)
        for i, norm in enumerate(norms, 1):
            getattr(theirs, f"norm{i}").load_state_dict(norm.state_dict())
        theirs.linear1.load_state_dict(ours.feed_forward.widen.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.narrow.state_dict())
    reference.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
    reference.decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    return reference


def torch_log_probs(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    scale = model.config.d_model**0.5
    table = sinusoidal_table(23, model.config.d_model)
    past = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    hidden = as_torch(model)(
        model.source_embedding(source) * scale + table[: source.shape[1]],
        model.target_embedding(target) * scale + table[: target.shape[1]],
        tgt_mask=past,
        src_key_padding_mask=source == 0,
        tgt_key_padding_mask=target == 0,
        memory_key_padding_mask=source == 0,
    )
    return model.projection(hidden).log_softmax(-1)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # odd heads: torch only says that it takes the plain path
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_parity_with_torch(norm_first: bool, activation: str) -> None:
    model = small(norm_first=norm_first, activation=activation)
    nn.init.normal_(model.encoder[0].self_attention.query.bias)
    with torch.no_grad():
        expected = torch_log_probs(model, SOURCE, TARGET)
        found = model.outputs(SOURCE, TARGET)["log_probs"]
    real = TARGET != 0
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["annotated", "jadore", "torch"])
def test_presets_run_and_differ_only_by_configuration(name: str) -> None:
    vocabularies = {"source_vocab": 29, "target_vocab": 29}
    model = small(name, **vocabularies)
    source = SOURCE.clamp(max=28)
    probabilities = model.outputs(source, TARGET)["log_probs"].exp()
    assert probabilities.shape == (2, 5, 29)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert list(model.attention_sites()) == [
        "encoder.0.self",
        "encoder.1.self",
        "decoder.0.self",
        "decoder.0.cross",
    ]


def test_preset_dialects_are_the_published_ones() -> None:
    vocabularies = {"source_vocab": 5, "target_vocab": 5}
    annotated, jadore, torch_like = (preset(name, **vocabularies) for name in ("annotated", "jadore", "torch"))
    assert isinstance(Seq2Seq(preset("annotated", **SMALL)).encoder_norm, AnnotatedLayerNorm)
    assert (annotated.norm_first, annotated.norm_after_stack, annotated.projection_bias) == (True, True, True)
    assert (jadore.attention_bias, jadore.norm_after_embedding, jadore.tie_projection) == (False, True, True)
    assert jadore.projection_scale == 512**-0.5
    assert preset("jadore", source_vocab=5, target_vocab=5, scale_embedding=True).projection_scale == 1.0
    assert (torch_like.norm_first, torch_like.norm_after_stack, torch_like.norm_eps) == (False, True, 1e-5)


def test_annotated_norm_is_unbiased_with_eps_outside() -> None:
    x = torch.randn(3, 7, dtype=torch.float64)
    norm = AnnotatedLayerNorm(7, eps=0.1).double()
    expected = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=True, keepdim=True).sqrt() + 0.1)
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-14)


@given(position=st.integers(1, 4), token=st.integers(3, 28))
def test_changing_the_future_leaves_the_past(position: int, token: int) -> None:
    model = small()
    target = TARGET[1:].clone()
    changed = target.clone()
    changed[0, position] = token
    before, after = (model(SOURCE[1:], ids) for ids in (target, changed))
    torch.testing.assert_close(before[:, :position], after[:, :position], rtol=0, atol=0)
    if token != int(target[0, position]):
        assert not torch.equal(before[:, position:], after[:, position:])


def test_padding_changes_nothing() -> None:
    model = small()
    short = model(SOURCE[:1, :5], TARGET[:1, :4])
    padded = model(SOURCE[:1], TARGET[:1])
    torch.testing.assert_close(padded[:, :4], short, rtol=0, atol=1e-13)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_cached_steps_equal_the_whole_pass(positions: str, norm_first: bool) -> None:
    model = small(positions=positions, norm_first=norm_first, d_k=5, d_v=2)
    with torch.inference_mode():
        whole = model(SOURCE, TARGET[1:].expand(2, -1))
        cache = model.start(SOURCE)
        steps = [model.step(TARGET[1:, i : i + 1].expand(2, -1), cache) for i in range(5)]
        together = model.start(SOURCE)
        at_once = model.step(TARGET[1:, :3].expand(2, -1), together)
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(at_once, whole[:, 2], rtol=0, atol=1e-12)


def test_cache_rows_can_be_reordered_and_repeated() -> None:
    model = small()
    with torch.inference_mode():
        cache = model.start(SOURCE)
        model.step(TARGET[:, :1], cache)
        cache.reorder(torch.tensor([1, 1, 0]))
        found = model.step(torch.tensor([[9], [4], [28]]), cache)
        expected = model(SOURCE[[1, 1, 0]], torch.tensor([[1, 9], [1, 4], [1, 28]]))[:, -1]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_tied_weights_are_one_tensor() -> None:
    model = Seq2Seq(preset("jadore", **{**SMALL, "source_vocab": 29}))
    assert model.projection.weight is model.target_embedding.weight is model.source_embedding.weight
    assert not any("projection" in name for name, _ in model.named_parameters())


def test_a_learned_table_ends_with_a_sentence() -> None:
    model = small(positions="learned", max_length=6)
    with pytest.raises(InputError, match="7 positions are more than the 6"):
        model(SOURCE, TARGET)


def test_sinusoidal_positions_have_no_end() -> None:
    short, long = small(max_length=3), small(max_length=23)
    long.load_state_dict(short.state_dict())
    torch.testing.assert_close(short(SOURCE, TARGET), long(SOURCE, TARGET), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"d_model": 30, "n_heads": 4}, "d_model=30 cannot be split into n_heads=4"),
        ({"d_model": 0}, "d_model=0 is too small"),
        ({"norm": "batch"}, "norm='batch' is not known"),
        ({"activation": "tanh"}, "activation='tanh' is not known"),
        ({"positions": "rotary"}, "positions='rotary' is not known"),
        ({"dropout": 1.0}, r"dropout=1.0 is not a probability"),
        ({"d_k": -1}, "d_k=-1"),
        ({"tie_embeddings": True, "target_vocab": 4}, "source_vocab=9 and target_vocab=4"),
    ],
)
def test_sizes_that_do_not_fit_are_named(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Seq2SeqConfig(**{"source_vocab": 9, "target_vocab": 9, **wrong})


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="annotated, jadore, torch"):
        preset("bert")


def test_ids_outside_the_vocabulary_are_named() -> None:
    model = small()
    with pytest.raises(InputError, match="targets hold id 29"):
        model.outputs(SOURCE, torch.tensor([[1, 29]]).expand(2, -1))
    with pytest.raises(InputError, match="targets=None"):
        model.outputs(SOURCE)

"""Families of the transformers library as they are (fused attention), against the weights of an eager copy."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.attention.recording.case import doubles
from tests.attention.recording.running import nothing_left, recorded
from transformer import Intervention, intervening, recording

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31, "vocab_size": 37}
IDS = torch.tensor([[5, 9, 13, 7, 22, 30, 8], [11, 3, 28, 17, 6, 12, 19]])


def gpt2(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=3, vocab_size=37, attn_implementation=kind)
    return transformers.GPT2LMHeadModel(config), {"input_ids": IDS}, {"attentions": "transformer.h.{}.attn"}


def llama(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.LlamaConfig(
        **SMALL | {"num_attention_heads": 4}, num_key_value_heads=2, attn_implementation=kind
    )
    return transformers.LlamaForCausalLM(config), {"input_ids": IDS}, {"attentions": "model.layers.{}.self_attn"}


def bert(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.BertConfig(**SMALL, attn_implementation=kind)
    real = torch.ones_like(IDS)
    real[1, 5:] = 0
    inputs = {"input_ids": IDS, "attention_mask": real}
    return transformers.BertModel(config), inputs, {"attentions": "encoder.layer.{}.attention.self"}


def t5(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.T5Config(d_model=24, d_kv=10, d_ff=31, num_layers=2, num_heads=3, vocab_size=37)
    names = {
        "encoder_attentions": "encoder.block.{}.layer.0.SelfAttention",
        "decoder_attentions": "decoder.block.{}.layer.0.SelfAttention",
        "cross_attentions": "decoder.block.{}.layer.1.EncDecAttention",
    }
    config._attn_implementation = kind
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    return transformers.T5ForConditionalGeneration(config), inputs, names


def whisper(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.WhisperConfig(
        d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
        encoder_ffn_dim=31, decoder_ffn_dim=31, vocab_size=37, num_mel_bins=11, max_source_positions=13,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, attn_implementation=kind,
    )  # fmt: skip
    names = {
        "encoder_attentions": "encoder.layers.{}.self_attn",
        "decoder_attentions": "decoder.layers.{}.self_attn",
        "cross_attentions": "decoder.layers.{}.encoder_attn",
    }
    inputs = {"input_features": torch.randn(2, 11, 26), "decoder_input_ids": IDS}
    return transformers.WhisperModel(config), inputs, names


def vit(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.ViTConfig(**SMALL, image_size=12, patch_size=4, attn_implementation=kind)
    return (
        transformers.ViTModel(config),
        {"pixel_values": torch.randn(2, 3, 12, 12)},
        {"attentions": "layers.{}.attention"},
    )


def swin(kind: str) -> tuple[Any, dict[str, Tensor], dict[str, str]]:
    config = transformers.SwinConfig(
        image_size=16,
        patch_size=2,
        window_size=4,
        embed_dim=12,
        depths=[1, 1],
        num_heads=[2, 3],
        attn_implementation=kind,
    )
    return transformers.SwinModel(config), {"pixel_values": torch.randn(2, 3, 16, 16)}, {"attentions": "{}"}


FAMILIES = {build.__name__: build for build in (gpt2, llama, bert, t5, whisper, vit, swin)}


@pytest.fixture(autouse=True)
def _in_doubles() -> Iterator[None]:
    with doubles():
        yield


def pair(name: str) -> tuple[nn.Module, nn.Module, dict[str, Tensor], dict[str, str]]:
    """The model as it comes, and a copy that gives its weights."""
    model, inputs, names = FAMILIES[name]("sdpa")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    eager = FAMILIES[name]("eager")[0]
    eager.load_state_dict(model.state_dict())
    return model.double().eval(), eager.double().eval(), inputs, names


@pytest.mark.parametrize("name", FAMILIES)
def test_the_weights_are_those_of_an_eager_copy(name: str) -> None:
    model, eager, inputs, names = pair(name)
    with torch.no_grad():
        given = eager(**inputs, output_attentions=True)
        plain = model(**inputs)
        with nothing_left(model), recording(model) as seen:
            output = model(**inputs)
    assert torch.equal(plain[0], output[0])
    expected = [(key, i, one) for key in names for i, one in enumerate(given[key])]
    assert len(seen.sites) == len(expected)
    for place, (key, i, weights) in enumerate(expected):
        site = names[key].format(i) if names[key] != "{}" else seen.sites[place]
        found = recorded(seen, site, len(weights))
        assert found.shape == tuple(weights.shape)
        assert abs(found - weights.numpy()).max() < 1e-6, site
        assert seen.map(site).source.kept_bytes < 200_000


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_generating_joins_to_one_map(name: str, cache: bool) -> None:
    model, eager, inputs, names = pair(name)
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None, "use_cache": cache}
    plain = model.generate(**inputs, attention_mask=torch.ones_like(IDS), **options)
    with nothing_left(model), recording(model) as seen:
        ids = model.generate(**inputs, attention_mask=torch.ones_like(IDS), **options)
    assert torch.equal(plain, ids)
    with torch.no_grad():
        given = eager(input_ids=ids[:, :-1], output_attentions=True).attentions
    assert tuple(seen.sites) == tuple(names["attentions"].format(i) for i in range(2))
    for i, weights in enumerate(given):
        found = recorded(seen, names["attentions"].format(i), 2)
        assert found.shape == tuple(weights.shape)
        assert abs(found - weights.numpy()).max() < 1e-6


def test_a_head_of_a_family_is_switched_off() -> None:
    model, _, inputs, _ = pair("gpt2")
    with torch.no_grad(), recording(model), intervening([Intervention("transformer.h.1.attn", "zero", heads=2)]):
        output = model(**inputs).logits
    with torch.no_grad():
        model.transformer.h[1].attn.c_proj.weight[16:] = 0.0  # type: ignore[index, union-attr]
        expected = model(**inputs).logits
    assert float((output - expected).abs().max()) < 1e-12

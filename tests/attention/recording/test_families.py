"""Families of the transformers library as they are, fused and written out, against the weights that they give away."""

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from heedmap import Intervention, intervening, recording
from tests.attention.recording.case import assert_seen, nothing_left

pytestmark = pytest.mark.usefixtures("in_doubles")

SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31, "vocab_size": 37}
IDS = torch.tensor([[5, 9, 13, 7, 22, 30, 8], [11, 3, 28, 17, 6, 12, 19]])
WHISPER: dict[str, Any] = dict(
    d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
    encoder_ffn_dim=31, decoder_ffn_dim=31, vocab_size=37, num_mel_bins=11, max_source_positions=13,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip
T5_DECODER = "decoder.block.{}.layer.0.Self", "decoder.block.{}.layer.1.EncDec"

FAMILIES: dict[str, tuple[Any, dict[str, Any], dict[str, Tensor], tuple[str, ...]]] = {
    "llama": (
        transformers.LlamaForCausalLM,
        SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2},
        {"input_ids": IDS},
        ("model.layers.{}.self_attn",),
    ),
    "t5": (
        transformers.T5ForConditionalGeneration,
        dict(d_model=24, d_kv=10, d_ff=31, num_layers=2, num_heads=3, vocab_size=37),
        {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]},
        tuple(f"{part}Attention" for part in ("encoder.block.{}.layer.0.Self", *T5_DECODER)),
    ),
    "whisper": (
        transformers.WhisperModel,
        WHISPER,
        {"input_features": torch.randn(2, 11, 26).double(), "decoder_input_ids": IDS},
        ("encoder.layers.{}.self_attn", "decoder.layers.{}.self_attn", "decoder.layers.{}.encoder_attn"),
    ),
    "swin": (
        transformers.SwinModel,
        dict(image_size=16, patch_size=2, window_size=4, embed_dim=12, depths=[1, 1], num_heads=[2, 3]),
        {"pixel_values": torch.randn(2, 3, 16, 16).double()},
        ("",),
    ),
}
"""The class of each family, its sizes, what it reads, and where attention runs: in an encoder, a decoder, across."""


def pair(name: str) -> tuple[nn.Module, nn.Module, dict[str, Tensor], dict[str, str]]:
    """The model as it comes, and a copy that gives its weights; the names of what it gives with where that runs."""
    made, sizes, inputs, paths = FAMILIES[name]
    model, eager = (made(made.config_class(**sizes, attn_implementation=kind)) for kind in ("sdpa", "eager"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    eager.load_state_dict(model.state_dict())
    keys = ("encoder_attentions", "decoder_attentions", "cross_attentions") if len(paths) > 1 else ("attentions",)
    return model.double().eval(), eager.double().eval(), inputs, dict(zip(keys, paths, strict=True))


@pytest.mark.parametrize("kind", ["fused", "written out"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_weights_are_those_of_an_eager_copy(name: str, kind: str) -> None:
    fused, eager, inputs, names = pair(name)
    # The library leaves hooks on one that gives weights away.
    model = fused if kind == "fused" else copy.deepcopy(eager)
    with torch.no_grad():
        given = eager(**inputs, output_attentions=True)
        plain = model(**inputs)
        with nothing_left(model), recording(model) as seen:
            output = model(**inputs)
    assert torch.equal(plain[0], output[0])
    expected = [(key, i, one) for key in names for i, one in enumerate(given[key])]
    assert len(seen.sites) == len(expected)
    for place, (key, i, weights) in enumerate(expected):
        site = names[key].format(i) or seen.sites[place]
        assert_seen(seen, site, weights, 1e-6)
        assert seen.map(site).source.kept_bytes < 200_000


@pytest.mark.parametrize("cache", [True, False])
def test_generating_joins_to_one_map(cache: bool) -> None:
    model, eager, inputs, names = pair("llama")
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None, "use_cache": cache}
    plain = model.generate(**inputs, attention_mask=torch.ones_like(IDS), **options)
    with nothing_left(model), recording(model) as seen:
        ids = model.generate(**inputs, attention_mask=torch.ones_like(IDS), **options)
    assert torch.equal(plain, ids)
    with torch.no_grad():
        given = eager(input_ids=ids[:, :-1], output_attentions=True).attentions
    assert tuple(seen.sites) == tuple(names["attentions"].format(i) for i in range(2))
    for i, weights in enumerate(given):
        assert_seen(seen, names["attentions"].format(i), weights, 1e-6)


def test_a_head_of_a_family_is_switched_off() -> None:
    model, _, inputs, _ = pair("llama")
    with torch.no_grad(), recording(model), intervening([Intervention("model.layers.1.self_attn", "zero", heads=2)]):
        output = model(**inputs).logits
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight[:, 12:18] = 0.0  # type: ignore[index, union-attr]
        expected = model(**inputs).logits
    assert float((output - expected).abs().max()) < 1e-12

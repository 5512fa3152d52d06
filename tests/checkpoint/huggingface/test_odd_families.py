"""Families whose attention is unlike others': shown with true axes, or refused by name; never an error of Python."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from transformer import DecodingOptions, load, run_any
from transformer.errors import CheckpointError

SIZES: dict[str, Any] = dict(vocab_size=61, num_hidden_layers=2, intermediate_size=24)
ENCODER = SIZES | dict(hidden_size=16, num_attention_heads=2, max_position_embeddings=64)
STACKS: dict[str, Any] = dict(
    vocab_size=61, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    decoder_start_token_id=2,
)  # fmt: skip


def _bert2bert() -> Any:
    halves = (hf.BertConfig(**ENCODER), hf.BertConfig(**ENCODER | {"vocab_size": 67}))
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(*halves)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return hf.EncoderDecoderModel(config)


SHOWN = {
    "big_bird of full attention": lambda: hf.BigBirdForMaskedLM(
        hf.BigBirdConfig(**ENCODER, attention_type="original_full")
    ),
    "bert2bert": _bert2bert,
    "switch": lambda: hf.SwitchTransformersForConditionalGeneration(
        hf.SwitchTransformersConfig(
            vocab_size=61, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, num_experts=2,
            num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, decoder_start_token_id=0,
        )
    ),
    "qwen2 with its usual bound": lambda: hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**SIZES, hidden_size=16, num_attention_heads=2, num_key_value_heads=1)
    ),
}  # fmt: skip
REFUSED = {
    "big_bird": (
        lambda: hf.BigBirdForMaskedLM(hf.BigBirdConfig(**ENCODER, block_size=4, num_random_blocks=1)), "no attention",
    ),
    "mamba": (lambda: hf.MambaForCausalLM(hf.MambaConfig(**SIZES, hidden_size=16)), "no attention"),
    "pegasus_x": (lambda: hf.PegasusXForConditionalGeneration(hf.PegasusXConfig(**STACKS)), "returns no attention"),
    "nystromformer": (
        lambda: hf.NystromformerForMaskedLM(hf.NystromformerConfig(**ENCODER, num_landmarks=8)), "cannot be looked at",
    ),
    "longformer": (lambda: hf.LongformerForMaskedLM(hf.LongformerConfig(**ENCODER, attention_window=4)), "offsets"),
    "led": (
        lambda: hf.LEDForConditionalGeneration(
            hf.LEDConfig(**STACKS, attention_window=4, max_encoder_position_embeddings=64)
        ),
        "offsets in a window",
    ),
    "funnel": (
        lambda: hf.FunnelForMaskedLM(
            hf.FunnelConfig(vocab_size=61, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=24)
        ),
        "positions that were pooled",
    ),
    "gemma3": (
        lambda: hf.Gemma3ForConditionalGeneration(
            hf.Gemma3Config(
                text_config=SIZES | dict(hidden_size=16, num_attention_heads=2, num_key_value_heads=1, head_dim=8),
                vision_config=dict(
                    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=28,
                    patch_size=14,
                ),
            )
        ),
        "is no model of text",
    ),
}  # fmt: skip


def _saved(make: Any, folder: Path) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        make().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", SHOWN)
def test_maps_have_true_axes(family, tmp_path):
    run = run_any(load(_saved(SHOWN[family], tmp_path)), "5 7 9 11 6 8 20", DecodingOptions(max_length=5))
    assert run.record
    for each in run.record.values():
        weights = each.all_weights()
        assert weights.shape == (each.n_heads, len(each.queries), len(each.keys))
        assert abs(weights.sum(-1) - 1).max() < 1e-5


@pytest.mark.parametrize("family", REFUSED)
def test_what_is_no_map_of_tokens_to_tokens_is_refused_by_name(family, tmp_path):
    make, reason = REFUSED[family]
    with pytest.raises(CheckpointError, match=reason) as refused:
        load(_saved(make, tmp_path))
    assert family in str(refused.value)
    assert "object has no attribute" not in str(refused.value)

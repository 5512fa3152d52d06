"""What is known by its names and not run from them alone is told by name, with what to bring."""

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from transformer import load
from transformer.checkpoint import report
from transformer.errors import CheckpointError

TINY: dict[str, Any] = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 17}
T5: dict[str, Any] = {"d_model": 12, "d_kv": 5, "d_ff": 14, "num_layers": 1, "num_heads": 2, "vocab_size": 17}
GPTJ: dict[str, Any] = {"vocab_size": 17, "n_embd": 12, "n_layer": 1, "n_head": 2, "rotary_dim": 2}
BLOOM: dict[str, Any] = {"vocab_size": 17, "hidden_size": 12, "n_layer": 1, "n_head": 2}
STATES: dict[str, tuple[Any, str]] = {
    "t5's decoder": (
        lambda: nn.ModuleDict({"decoder": transformers.T5Model(transformers.T5Config(**T5)).decoder}),
        "T5",
    ),
    "llama": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, intermediate_size=14)), "Llama"),
    "albert": (lambda: transformers.AlbertModel(transformers.AlbertConfig(**TINY, embedding_size=8)), "ALBERT"),
    "deberta": (lambda: transformers.DebertaV2Model(transformers.DebertaV2Config(**TINY)), "DeBERTa"),
    "bloom": (lambda: transformers.BloomModel(transformers.BloomConfig(**BLOOM)), "Bloom"),
    "gpt-j": (
        lambda: transformers.GPTJModel(transformers.GPTJConfig(**GPTJ)),
        "GPT-J",
    ),
    "vit": (lambda: transformers.CLIPVisionModel(transformers.CLIPVisionConfig(hidden_size=12, intermediate_size=14,
            num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)), "images"),
    "attention among others": (
        lambda: nn.ModuleDict({"attn": nn.MultiheadAttention(12, 2, kdim=7), "film": nn.Linear(3, 5)}),
        "lone torch.nn.MultiheadAttention",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_file_is_told_by_its_names(name, tmp_path):
    make, called = STATES[name]
    torch.save(make().state_dict(), tmp_path / "model.pt")
    found = report(tmp_path / "model.pt")
    assert (found.layout, found.fits) == (None, False)
    assert called in str(found.title)
    assert found.changes == (found.remedy,)
    with pytest.raises(CheckpointError, match="bring"):
        load(tmp_path / "model.pt")


def test_lora_and_consolidated_llama_and_x_transformers_are_told_too(tmp_path):
    for name, called in (
        ("base_model.model.layers.0.q.lora_A.weight", "adapter"),
        ("layers.0.attention.wq.weight", "Llama"),
        ("attn_layers.layers.0.1.to_q.weight", "x-transformers"),
        ("patch_embed.proj.weight", "images"),
    ):
        torch.save({name: torch.ones(3, 5)}, tmp_path / "model.pt")
        assert called in str(report(tmp_path / "model.pt").title)

"""What is known by its names and not run from them alone is told by name, with what to bring."""

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from tests.checkpoint.references import REFERENCE
from transformer import load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.report import Report
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


def test_lora_and_consolidated_llama_and_other_families_are_told_too(tmp_path):
    for name, called in (
        ("base_model.model.layers.0.q.lora_A.weight", "adapter"),
        ("layers.0.attention.wq.weight", "Llama"),
        ("bert.encoder.layer.0.attention.self.query.weight", "BERT, RoBERTa or ELECTRA"),
        ("transformer.layer.0.attention.q_lin.weight", "DistilBERT"),
        ("model.encoder.layers.0.self_attn.q_proj.weight", "BART, mBART, Marian or Pegasus"),
        ("blocks.0.layernorm_before.weight", "images"),
        ("patch_embed.proj.weight", "images"),
    ):
        torch.save({name: torch.ones(3, 5)}, tmp_path / "model.pt")
        assert called in str(report(tmp_path / "model.pt").title)


def _report(folder: Path, **beside: Any) -> Report:
    """A ViT of one's own: three blocks around nn.MultiheadAttention."""
    block = {"attn": nn.MultiheadAttention(12, 3), "mlp": nn.Linear(12, 12)}
    blocks = nn.ModuleList(nn.ModuleDict(block) for _ in range(3))
    torch.save({"model": nn.ModuleDict({"blocks": blocks}).state_dict(), **beside}, folder / "my vit.pt")
    return report(folder / "my vit.pt")


def test_a_refusal_names_what_was_found_and_gives_three_lines_that_are_python(tmp_path):
    found = _report(tmp_path)
    assert found.layout is None
    assert {"3 layers at blocks", "the number of heads is not told"} <= set(found.reasons)
    assert "attention is torch.nn.MultiheadAttention (in_proj_weight)" in found.reasons
    first, second, third = found.record
    assert first == "from transformer import recording"
    assert second == "with recording(model) as seen: model(inputs)"
    assert third == "seen.record(model='my vit').save(\"run.heedmap\")"
    assert ast.parse("\n".join(found.record))
    assert found.text.endswith("\n".join(found.record))
    assert "drop run.heedmap here" in found.text
    told = _report(tmp_path, args={"num_heads": 3}).reasons
    assert "3 heads: args.num_heads beside the weights says so" in told


def test_a_file_with_a_map_a_head_says_how_many(tmp_path):
    names = [f"blocks.{i}.sa.heads.{j}.key.weight" for i in range(2) for j in range(5)]
    torch.save({name: torch.ones(3, 15) for name in names}, tmp_path / "model.pt")
    found = report(tmp_path / "model.pt").reasons
    assert {"2 layers at blocks", "5 heads, each with maps of its own at blocks.0.sa.heads"} <= set(found)
    assert "no torch.nn.MultiheadAttention (no in_proj_weight)" in found


def test_what_attends_to_nothing_is_not_to_be_recorded_and_what_is_read_neither(tmp_path):
    net = nn.ModuleDict({"embedding": nn.Embedding(37, 13), "gru": nn.GRU(13, 13), "out": nn.Linear(13, 37)})
    torch.save(net.state_dict(), tmp_path / "model.pt")
    assert report(tmp_path / "model.pt").record == ()
    assert report(REFERENCE / "annotated").record == ()

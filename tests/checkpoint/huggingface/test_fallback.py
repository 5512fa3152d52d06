"""What cannot be recorded lazily is kept as the model's own eager attention computed it, and the record says so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.huggingface.families import random_model, write_folder
from transformer import Checkpoint, load, recording
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.checkpoint.huggingface.library import quiet
from transformer.checkpoint.huggingface.probing import check_heads
from transformer.errors import CheckpointError
from transformer.runs.any_model import run_any
from transformer.sites import Site

SMALL: dict[str, Any] = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, max_position_embeddings=41)
SMALL |= dict(num_attention_heads=6, intermediate_size=11, initializer_range=0.4)
GROUPED: dict[str, Any] = SMALL | dict(num_key_value_heads=2, head_dim=4, intermediate_size=12)
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "own code": (
        "OpenAIGPTLMHeadModel",
        dict(vocab_size=97, n_positions=41, n_embd=24, n_layer=2, n_head=6, initializer_range=0.4),
        "has no fused attention",
    ),
}
IDS = torch.tensor([[5, 7, 11, 13, 17, 19, 23]])


def saved(folder: Path, name: str) -> Path:
    class_name, options, _ = MODELS[name]
    with quiet():
        random_model(class_name, options).save_pretrained(folder)
    return folder


def originals(folder: Path, checkpoint: Checkpoint) -> tuple[torch.Tensor, ...]:
    kind = transformers.AutoModelForCausalLM if checkpoint.model.config.kind == "decoder" else transformers.AutoModel
    with quiet(), torch.inference_mode():
        net = kind.from_pretrained(folder, attn_implementation="eager", local_files_only=True, dtype=torch.float32)
        return net.eval()(IDS, output_attentions=True).attentions


@pytest.mark.parametrize("name", MODELS)
def test_eager_weights_are_kept_with_a_note(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path / "model", name)
    checkpoint = load(folder)
    model: Any = checkpoint.model
    assert model.eager
    assert MODELS[name][2] in model.note
    found = run_any(checkpoint, " ".join(map(str, IDS[0].tolist())))
    assert found.record.notes == (model.note,)
    assert model.note in checkpoint.assumptions
    expected = originals(folder, checkpoint)
    assert len(expected) == len(found.record.sites) == 2
    for site, weights in zip(found.record.sites, expected, strict=True):
        np.testing.assert_allclose(found.record[site].all_weights(), weights[0].numpy(), atol=1e-6)
        assert found.record[site].picture(0).notes == (model.note,)
        assert found.record[site].mask().all() == site.startswith("encoder")
    with torch.inference_mode(), recording() as seen:
        watched = checkpoint.model(IDS)
    assert isinstance(seen.source(found.record.sites[0]), Weights)
    with torch.inference_mode():
        assert torch.equal(checkpoint.model(IDS), watched)


def test_a_sink_takes_part_of_each_row(tmp_path: Path) -> None:
    options = GROUPED | dict(num_local_experts=2, num_experts_per_tok=1, layer_types=["full_attention"] * 2)
    with quiet():
        random_model("GptOssForCausalLM", options).save_pretrained(tmp_path / "sinks")
    checkpoint = load(tmp_path / "sinks")
    found = run_any(checkpoint, "5 7 9").record["decoder.0.self"]
    assert isinstance(found.source, Weights)
    assert found.keys.texts == ("5", "7", "9")
    assert found.weights(0).sum(1).max() < 1.0
    for notes in (found.picture(0).notes, run_any(checkpoint, "5 7 9").record.notes):
        assert ["attention sink" in note for note in notes] == [True]


@pytest.mark.parametrize("kind", ["SqueezeBertForMaskedLM", "ConvBertForMaskedLM"])
def test_what_is_returned_and_not_seen_as_it_runs_is_refused(kind: str, tmp_path: Path) -> None:
    """SqueezeBERT returns scores in the place of weights; ConvBERT's weights mix what a convolution mixes, too."""
    with quiet():
        options = SMALL | dict(embedding_size=24, intermediate_size=12)
        random_model(kind, options).save_pretrained(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"bert is not seen as it runs .*: choose a model"):
        load(tmp_path / "model")


def test_a_lost_mask_function_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the library hands over no mask, and padding would be looked at in silence."""
    folder = write_folder(tmp_path / "bert", "bert", tokenizer=False)
    assert not load(folder).model.eager
    masks = transformers.AttentionMaskInterface._global_mapping
    monkeypatch.delitem(masks, "sdpa")
    found = load(folder)
    assert found.model.eager
    assert "differs by" in found.model.note


def test_a_sliding_window_is_drawn_as_masked(tmp_path: Path) -> None:
    options = GROUPED | dict(sliding_window=3)
    with quiet():
        random_model("MistralForCausalLM", options).save_pretrained(tmp_path / "mistral")
    checkpoint = load(tmp_path / "mistral")
    assert not checkpoint.model.eager
    attention_map = run_any(checkpoint, "5 7 11 13 17 19 23").record["decoder.1.self"]
    assert isinstance(attention_map.source, AttentionInputs)
    apart = np.subtract.outer(np.arange(7), np.arange(7))
    np.testing.assert_array_equal(attention_map.mask(), (apart >= 0) & (apart < 3))
    np.testing.assert_allclose(
        attention_map.all_weights(), originals(checkpoint.folder, checkpoint)[1][0], rtol=1e-5, atol=1e-6
    )
    whole = attention_map.weights(2)
    np.testing.assert_allclose(attention_map.tile(2, slice(2, 6), slice(1, 5)), whole[2:6, 1:5], atol=1e-6)


def test_layers_of_unlike_heads_are_refused_by_name() -> None:
    even = {"encoder.0.self": 4, "encoder.1.self": 4, "decoder.0.self": 2, "decoder.0.cross": 3}
    check_heads({Site(site): count for site, count in even.items()}, "even")
    with pytest.raises(CheckpointError, match="openelm has layers with 2 and 4 heads"):
        check_heads({Site("decoder.0.self"): 4, Site("decoder.1.self"): 2}, "openelm")

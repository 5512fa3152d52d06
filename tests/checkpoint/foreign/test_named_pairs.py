"""Encoder-decoders under the names of well-known repositories, without a config: equal to the original in float64."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from tests.checkpoint.originals.common import scramble, table
from tests.checkpoint.originals.named_pairs import REPOSITORIES, Pair
from transformer import attention_maps, load
from transformer.checkpoint import report

SOURCE = torch.randint(5, 30, (2, 11), generator=torch.Generator().manual_seed(3))
TARGET = torch.randint(5, 30, (2, 7), generator=torch.Generator().manual_seed(5))
NOTHING = {"pad_id": -1}


def _same(path: Path, expected: dict[str, Tensor], **answers: Any) -> None:
    found = attention_maps(load(path, **answers), SOURCE, TARGET)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert np.abs(found[name] - values.numpy()).max() < 1e-9, name


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_s_model_is_the_original(name, tmp_path):
    torch.manual_seed(7)
    original, path = Pair(REPOSITORIES[name]), tmp_path / "model.pt"
    torch.save({"model": {f"module.{key}": value for key, value in original.state.items()}}, path)
    found = report(path, n_heads=3)
    assert (found.layout, found.fits) == (name, True), found.text
    asked = {question.name for question in found.questions if not question.rare}
    assert {"n_heads", "activation", "norm_first", "scale_embedding"} <= asked
    assert ("positions" in asked) is (original.spelling.tables is None)
    _same(path, original(SOURCE, TARGET), n_heads=3, **NOTHING)
    first = next(key for key in original.state if key.endswith(".bias") and ".0." in key)
    torch.save({key: value for key, value in original.state.items() if key != first.replace(".0.", ".1.")}, path)
    assert list(report(path, n_heads=3).missing) == [first.replace(".0.", ".1.")]  # every layer, or none
    torch.save(original.state | {"encoder.adapter.weight": torch.ones(5, 18)}, path)
    assert list(report(path, n_heads=3).unexpected) == ["encoder.adapter.weight"]


def test_opennmt_keeps_its_generator_beside_the_model(tmp_path):
    torch.manual_seed(7)
    original = Pair(REPOSITORIES["opennmt"])
    model = {key: value for key, value in original.state.items() if not key.startswith("generator.")}
    generator = {key.removeprefix("generator."): original.state[key] for key in original.state.keys() - model.keys()}
    torch.save({"model": model, "generator": generator, "opt": {"heads": 3}, "optim": None}, tmp_path / "step_9.pt")
    _same(tmp_path / "step_9.pt", original(SOURCE, TARGET), **NOTHING)


def test_a_norm_after_one_stack_alone(tmp_path):
    torch.manual_seed(7)
    spelling = replace(REPOSITORIES["sam-lynn-evans"], ends=("encoder.norm", ""))
    original = Pair(spelling)
    torch.save(original.state, tmp_path / "model.pt")
    found = load(tmp_path / "model.pt", n_heads=3)
    assert (found.model.config.norm_after_stack, found.model.config.without_norm) == (True, "decoder")
    _same(tmp_path / "model.pt", original(SOURCE, TARGET), n_heads=3, **NOTHING)


LIBRARY: dict[str, Any] = {
    "vocab_size": 31, "d_model": 18, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 23, "decoder_ffn_dim": 23, "max_position_embeddings": 37,
    "init_std": 0.4, "attn_implementation": "eager", "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bart": (transformers.BartForConditionalGeneration, transformers.BartConfig, {}),
    "bart alone": (transformers.BartModel, transformers.BartConfig, {}),
    "mbart": (transformers.MBartForConditionalGeneration, transformers.MBartConfig, {"scale_embedding": True}),
    "marian": (transformers.MarianMTModel, transformers.MarianConfig,
               {"scale_embedding": True, "activation_function": "swish", "pad_token_id": 30}),
    "pegasus": (transformers.PegasusForConditionalGeneration, transformers.PegasusConfig,
                {"scale_embedding": True, "activation_function": "relu"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("saved", ["all", "once"])
def test_a_model_of_the_transformers_library_without_its_config(name, saved, tmp_path):
    """`once` is a file that holds shared tensors once, and no tables that are computed."""
    kind, config, more = MODELS[name]
    torch.manual_seed(11)
    original = kind(config(**LIBRARY | more))
    waves = {key: value.clone() for key, value in original.state_dict().items() if "embed_positions" in key}
    scramble(original)
    if name in {"marian", "pegasus"}:
        original.load_state_dict(waves, strict=False)
    if hasattr(original, "final_logits_bias"):
        original.final_logits_bias.normal_()
    state = original.state_dict()
    if saved == "once":
        drop = "embed_tokens", "lm_head", *(("embed_positions",) if name in {"marian", "pegasus"} else ())
        state = {key: value for key, value in state.items() if not any(part in key for part in drop)}
    torch.save(state, tmp_path / "pytorch_model.bin")
    found = report(tmp_path / "pytorch_model.bin", n_heads=3)
    assert (found.layout, found.fits) == ("bart", True), found.text
    original.double()
    if saved == "once":  # what is computed anew is no longer what half of its digits gave
        for key, value in original.state_dict().items():
            if key in waves and name in {"marian", "pegasus"}:
                value.copy_(torch.cat([table(len(value), 18)[:, 0::2], table(len(value), 18)[:, 1::2]], 1))
    with torch.no_grad():
        run = original(SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    maps = {
        **{f"encoder.{i}.self": weights for i, weights in enumerate(run.encoder_attentions)},
        **{f"decoder.{i}.self": weights for i, weights in enumerate(run.decoder_attentions)},
        **{f"decoder.{i}.cross": weights for i, weights in enumerate(run.cross_attentions)},
    }
    if hasattr(run, "logits"):
        maps["log_probs"] = run.logits.log_softmax(-1)
    else:  # no projection was saved: the embedding scores
        maps["log_probs"] = (run.last_hidden_state @ original.shared.weight.detach().T).log_softmax(-1)
    _same(tmp_path / "pytorch_model.bin", maps, n_heads=3, **NOTHING)


def test_what_starts_a_target_is_read_though_it_pads_sources(tmp_path):
    """Marian's targets start with the padding id: its column is no padding."""
    torch.manual_seed(11)
    kind, config, more = MODELS["marian"]
    original = kind(config(**LIBRARY | more))
    waves = {key: value.clone() for key, value in original.state_dict().items() if "embed_positions" in key}
    scramble(original).load_state_dict(waves, strict=False)
    torch.save(original.state_dict(), tmp_path / "model.bin")
    found = load(tmp_path / "model.bin", n_heads=3)
    assert (found.model.config.pad_id, found.model.config.bos_id, found.model.config.written_pad_id) == (30, 30, -1)
    target = torch.cat([torch.full((2, 1), 30), TARGET], 1)
    with torch.no_grad():
        run = original.double()(SOURCE, decoder_input_ids=target, output_attentions=True)
    maps = attention_maps(found, SOURCE, target)
    assert np.abs(maps["decoder.0.self"] - run.decoder_attentions[0].numpy()).max() < 1e-9
    assert np.abs(maps["log_probs"] - run.logits.log_softmax(-1).numpy()).max() < 1e-9


@pytest.mark.parametrize("kind", ["Blenderbot", "BlenderbotSmall"])
def test_a_table_whose_first_rows_are_positions_is_asked_and_a_norm_before_positions_refused(kind, tmp_path):
    torch.manual_seed(11)
    config = getattr(transformers, f"{kind}Config")(**LIBRARY | {"max_position_embeddings": 32})
    original = scramble(getattr(transformers, f"{kind}ForConditionalGeneration")(config))
    torch.save(original.state_dict(), tmp_path / "model.bin")
    found = report(tmp_path / "model.bin", n_heads=3)
    if kind == "BlenderbotSmall":
        assert not found.fits
        assert "adds positions after the norm" in found.text
        return
    assert any(text.startswith("first_position=0 is assumed") for text in found.assumptions)
    with torch.no_grad():
        run = original.double()(SOURCE, decoder_input_ids=TARGET, output_attentions=True)
    activation, answers = config.activation_function, {"scale_embedding": config.scale_embedding, "pad_id": -1}
    maps = attention_maps(load(tmp_path / "model.bin", n_heads=3, activation=activation, **answers), SOURCE, TARGET)
    assert np.abs(maps["decoder.2.cross"] - run.cross_attentions[2].numpy()).max() < 1e-9
    assert np.abs(maps["log_probs"] - run.logits.log_softmax(-1).numpy()).max() < 1e-9

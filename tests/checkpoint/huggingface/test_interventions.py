"""Interventions reach other people's models: held against the model's own masks, and its weights without a head."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.checkpoint.huggingface.families import random_model, write_folder
from transformer import (
    Checkpoint,
    CheckpointError,
    DecodingOptions,
    InputError,
    Intervention,
    attention_maps,
    intervening,
    load,
    recording,
    run_any,
    translate,
)
from transformer.nn.search import decode

OUTPUTS = {
    "marian": ("model.decoder.layers.1.encoder_attn.out_proj", "decoder.1.cross"),
    "bart": ("model.encoder.layers.0.self_attn.out_proj", "encoder.0.self"),
    "t5": ("decoder.block.2.layer.1.EncDecAttention.o", "decoder.2.cross"),
    "bert": ("encoder.layer.1.attention.output.dense", "encoder.1.self"),
    "gpt2": ("transformer.h.0.attn.c_proj", "decoder.0.self"),
    "llama": ("model.layers.1.self_attn.o_proj", "decoder.1.self"),
}
"""Where each family's heads go on from, and the public name of that attention."""

IDS, TARGET = torch.tensor([[7, 11, 13, 17, 19]]), torch.tensor([[5, 23, 29]])


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    place = tmp_path_factory.mktemp("changed")
    return {family: load(write_folder(place / family, family)) for family in OUTPUTS}


def outputs(checkpoint: Checkpoint, model: Any = None) -> torch.Tensor:
    made: Any = copy.deepcopy(checkpoint.model).double() if model is None else model
    target = TARGET if checkpoint.translates else None
    with torch.inference_mode():
        return next(iter(made.outputs(IDS, target).values()))


@pytest.mark.parametrize("family", OUTPUTS)
def test_a_head_that_is_off_is_one_whose_columns_of_the_output_projection_are_zero(
    checkpoints: dict[str, Checkpoint], family: str
) -> None:
    checkpoint, (name, site) = checkpoints[family], OUTPUTS[family]
    model = copy.deepcopy(checkpoint.model).double()
    projection = model.net.get_submodule(name)
    plain = outputs(checkpoint)
    heads = {"llama": 6}.get(family, 3)
    with torch.no_grad():
        weight = projection.weight  # GPT-2 keeps it the other way round
        width = (weight.shape[0] if family == "gpt2" else weight.shape[1]) // heads
        here = slice(2 * width, 3 * width)
        (weight if family == "gpt2" else weight.T)[here] = 0
    expected = outputs(checkpoint, model)
    with intervening([Intervention(site, "zero", heads=(2,))]):
        found = outputs(checkpoint)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert not torch.allclose(found, plain, rtol=0, atol=1e-3)


@pytest.mark.parametrize("family", OUTPUTS)
def test_a_key_knocked_out_everywhere_is_a_key_that_the_mask_hides(
    checkpoints: dict[str, Checkpoint], family: str
) -> None:
    """Hidden by the library's own mask: that of the source, or of what a decoder alone has read."""
    checkpoint = checkpoints[family]
    model = copy.deepcopy(checkpoint.model).double()
    real = torch.ones_like(IDS)
    real[0, 2] = 0
    inputs: dict[str, Any] = {"input_ids": IDS, "attention_mask": real}
    seq2seq = checkpoint.translates
    inputs |= {"decoder_input_ids": TARGET} if seq2seq else {}
    sites = [site for site in checkpoint.sites if not (seq2seq and site.group == "decoder.self")]
    with torch.inference_mode():
        expected = model.net(**inputs)[0]
        off = [Intervention(site, "knock_out", keys=(2,)) for site in sites]
        with intervening(off), recording() as seen, model.watched():
            found = model.net(**{**inputs, "attention_mask": torch.ones_like(IDS)})[0]
    rows = [0, 1, 3, 4] if not seq2seq and checkpoint.sites[0].stack == "decoder" else slice(None)
    torch.testing.assert_close(found[:, rows], expected[:, rows], rtol=0, atol=1e-4 if family == "t5" else 1e-7)
    for site in sites:
        assert not seen[site].all_weights()[:, :, 2].any()
        assert any("knocked out" in change for change in seen[site].picture(0).changes)


@pytest.mark.parametrize("family", ["marian", "bart", "t5"])
def test_cached_decoding_is_uncached_decoding(checkpoints: dict[str, Checkpoint], family: str) -> None:
    checkpoint = checkpoints[family]
    options = DecodingOptions(beam=2, max_length=5)
    some = [
        Intervention("decoder.2.cross", "knock_out", heads=(1,), queries=(1, 2), keys=(0, 3)),
        Intervention("decoder.0.self", "uniform", queries=(2, 3)),
        Intervention("decoder.1.cross", "zero", heads=(0,), queries=(3,)),
        Intervention("encoder.1.self", "temperature", value=0.5),
    ]
    model = copy.deepcopy(checkpoint.model).double()
    plain = decode(model, IDS, options)[0]
    with intervening(some):
        cached, uncached = (decode(model, IDS, options, cached=way)[0] for way in (True, False))
    assert cached.ids == uncached.ids
    assert cached.log_probs == pytest.approx(uncached.log_probs, abs=1e-4 if family == "t5" else 1e-8)
    assert cached.log_probs != pytest.approx(plain.log_probs, abs=1e-2)


def test_translations_maps_and_runs_have_their_interventions(checkpoints: dict[str, Checkpoint]) -> None:
    off = [Intervention("encoder.1.self", "uniform", heads=(1,))]
    with intervening(off):
        found = translate(checkpoints["marian"], "the dog runs.", DecodingOptions(beam=2, max_length=6))
        read = run_any(checkpoints["bert"], "the dog runs.")
        maps = attention_maps(checkpoints["bert"], IDS)
    n = len(found.source_ids)
    torch.testing.assert_close(
        torch.from_numpy(found.record["encoder.1.self"].weights(1)), torch.full((n, n), 1 / n), rtol=0, atol=1e-6
    )
    assert found.record.interventions == read.record.interventions == tuple(off)
    assert maps["encoder.1.self"][0, 1] == pytest.approx(0.2)
    unknown, told = (
        Intervention("decoder.0.self", "zero"),
        r"no attention 'decoder.0.self': choose one of encod",
    )
    with pytest.raises(InputError, match=told), intervening([unknown]):
        run_any(checkpoints["bert"], "the dog runs.")


def test_attention_in_a_models_own_code_is_refused(tmp_path: Path) -> None:
    checkpoint = load(write_folder(tmp_path / "gpt2", "gpt2"))
    model: Any = checkpoint.model
    model.places = {}  # as loading leaves a model whose attention is not seen
    told, off = "runs in its own code, which interventions do not reach", [Intervention("decoder.0.self", "zero")]
    with pytest.raises(CheckpointError, match=told), intervening(off):
        run_any(checkpoint, "the dog runs.")


@pytest.mark.parametrize("family", ["Mistral", "Gemma2"])
@pytest.mark.parametrize("action", ["zero", "uniform"])
def test_heads_that_share_keys_are_changed_one_by_one_at_each_step(tmp_path: Path, action: str, family: str) -> None:
    """In a window, the library hands its fused attention the heads of one query in the place of queries."""
    sizes = dict(vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2)
    sizes |= dict(head_dim=4, intermediate_size=12, max_position_embeddings=41, sliding_window=3)
    random_model(f"{family}ForCausalLM", sizes | dict(initializer_range=0.4)).save_pretrained(tmp_path / "mistral")
    model: Any = load(tmp_path / "mistral").model
    ids = torch.tensor([[5, 7, 11, 13, 17, 19, 23]])
    with torch.inference_mode():
        plain = model(ids)[0, -1]
        with intervening([Intervention("decoder.0.self", action, heads=(1, 5))]):
            whole, cache = model(ids)[0, -1], model.begin()
            model.read_on(ids[:, :4], cache)
            for i in range(4, 7):
                last = model.read_on(ids[:, i : i + 1], cache)[0]
    if action == "zero":  # an even row of a step is one over what its cache holds
        torch.testing.assert_close(last, whole, rtol=0, atol=1e-4)
    assert not torch.allclose(last, plain, rtol=0, atol=1e-2)

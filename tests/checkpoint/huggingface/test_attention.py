"""Attention of other people's models: interventions reach it, and what families write out is recorded exactly."""

import copy
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedmap import (
    Checkpoint,
    ContinueOptions,
    DecodingOptions,
    Intervention,
    attention_maps,
    continue_text,
    intervening,
    load,
    recording,
    run_any,
    translate,
)  # fmt: skip
from heedmap.attention.recording import relay
from heedmap.checkpoint.huggingface.library import quiet
from heedmap.errors import CheckpointError, InputError, RecordError
from heedmap.explain.diagram import architecture
from heedmap.nn.search import decode
from tests.checkpoint.huggingface.families import native, save_random, write_folder
from tests.checkpoint.huggingface.table import FALCON, FAMILIES, READS, STACKS, WRITES

OUTPUTS = {
    "marian": ("model.decoder.layers.1.encoder_attn.out_proj", "decoder.1.cross"),
    "bart": ("model.encoder.layers.0.self_attn.out_proj", "encoder.0.self"),
    "t5": ("decoder.block.2.layer.1.EncDecAttention.o", "decoder.2.cross"),
    "bert": ("encoder.layer.1.attention.output.dense", "encoder.1.self"),
    "gpt2": ("transformer.h.0.attn.c_proj", "decoder.0.self"),
    "llama": ("model.layers.1.self_attn.o_proj", "decoder.1.self"),
}
"""Where each family's heads go on from, and the public name of that attention."""

OWN_OUTPUTS = {
    "bloom": ("transformer.h.0.self_attention.dense", "decoder.0.self"),
    "gpt_neo": ("transformer.h.0.attn.attention.out_proj", "decoder.0.self"),
}
"""The same of families that write their attention out."""

IDS, TARGET = torch.tensor([[7, 11, 13, 17, 19]]), torch.tensor([[5, 23, 29]])


def outputs(checkpoint: Checkpoint, model: Any = None) -> torch.Tensor:
    made: Any = copy.deepcopy(checkpoint.model).double() if model is None else model
    target = TARGET if checkpoint.translates else None
    with torch.inference_mode():
        return next(iter(made.outputs(IDS, target).values()))


@pytest.mark.parametrize("family", [*OUTPUTS, *OWN_OUTPUTS])
def test_a_head_that_is_off_is_one_whose_columns_of_the_output_projection_are_zero(
    checkpoints: dict[str, Checkpoint], folders: dict[str, Path], family: str
) -> None:
    checkpoint = load(folders[family]) if family in folders else checkpoints[family]
    name, site = (OUTPUTS | OWN_OUTPUTS)[family]
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
def test_changed_decoding_is_the_same_cached_and_uncached(checkpoints: dict[str, Checkpoint], family: str) -> None:
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
    unknown = intervening([Intervention("decoder.0.self", "zero")])
    with pytest.raises(InputError, match=r"no attention 'decoder.0.self': choose one of encod"), unknown:
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
    model: Any = load(save_random(tmp_path, f"{family}ForCausalLM", WRITES | dict(sliding_window=3))).model
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


WRITTEN_OUT = {
    "gpt_neo": ("GPTNeoForCausalLM", FAMILIES["GPT-Neo"][1] | dict(window_size=3, initializer_range=0.2)),
    "bloom": FAMILIES["Bloom"],
    "falcon, a key a group": ("FalconForCausalLM", FALCON | dict(new_decoder_architecture=True, num_kv_heads=3)),
}
OTHER_IDS = torch.tensor([[5, 7, 11, 13, 17, 19, 23, 29]])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place, marks = tmp_path_factory.mktemp("own"), dict(bos_token_id=0, eos_token_id=0)
    return {name: save_random(place / name, kind, options | marks) for name, (kind, options) in WRITTEN_OUT.items()}


@pytest.mark.parametrize("family", WRITTEN_OUT)
def test_it_writes_and_changes_as_any_other(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    found = continue_text(checkpoint, "5 7 11 13", ContinueOptions(6))
    net = native(folders[family])
    prompt = OTHER_IDS[:, :4]
    with quiet():
        theirs = net.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
    assert list(found.written) == theirs[0, 4:].tolist()
    with intervening([Intervention("decoder.0.self", "zero", heads=(1,))]):
        changed = run_any(checkpoint, "5 7 11 13")
    plain = run_any(checkpoint, "5 7 11 13")
    assert np.abs(changed.outputs["log_probs"] - plain.outputs["log_probs"]).max() > 1e-3


def test_alibi_of_falcon_is_added_once_as_its_fused_attention_adds_it(tmp_path: Path) -> None:
    """The library's eager attention adds it twice, in the mask and beside it: it is no reference here."""
    sizes = FALCON | dict(alibi=True, multi_query=False, parallel_attn=False, bos_token_id=0, eos_token_id=0)
    save_random(tmp_path, "FalconForCausalLM", sizes)
    theirs = native(tmp_path, attention="sdpa")
    model: Any = load(tmp_path).model
    assert not model.note
    ids = torch.cat([OTHER_IDS, OTHER_IDS.flip(1)])
    real = torch.ones_like(ids)
    real[1, 6:] = 0
    with torch.inference_mode(), recording() as seen, model.watched():
        ours = model.net(input_ids=ids, attention_mask=real, use_cache=False).logits
        expected = theirs(input_ids=ids, attention_mask=real, use_cache=False).logits
        made = theirs.transformer.h[0].self_attention.query_key_value(
            theirs.transformer.h[0].input_layernorm(theirs.transformer.word_embeddings(ids))
        )
    np.testing.assert_allclose(ours[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(ours[1, :6], expected[1, :6], atol=1e-5)
    query, key = made[0].unflatten(-1, (6, 3, 4))[:, :, :2].unbind(2)
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3])  # of 6 heads, as of 4 and 8
    scores = torch.einsum("qhd,khd->hqk", query, key) + slopes[:, None, None] * torch.arange(8)
    hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)
    weights = (scores / 2).masked_fill(hidden, -torch.inf).softmax(-1)
    np.testing.assert_allclose(seen.map(seen.sites[0]).all_weights(), weights, atol=1e-6)


def test_layers_that_are_one_are_watched_each(tmp_path: Path) -> None:
    sizes = READS | dict(num_hidden_layers=4, num_hidden_groups=2, embedding_size=14, pad_token_id=0)
    save_random(tmp_path / "albert", "AlbertForMaskedLM", sizes)
    net = native(tmp_path / "albert", "AutoModelForMaskedLM").double()
    checkpoint = load(tmp_path / "albert")
    model: Any = checkpoint.model.double()
    assert (model.note, len(model.sites)) == ("", 4)
    assert checkpoint.n_parameters == sum(one.numel() for one in net.parameters()), "weights are shared, not copied"
    assert architecture(model).parameters == checkpoint.n_parameters
    with torch.inference_mode():
        theirs = net(OTHER_IDS, output_attentions=True)
        with recording() as seen:
            model.run(OTHER_IDS)
        np.testing.assert_allclose(model.word_scores(OTHER_IDS), theirs.logits, atol=1e-9)
    for site, weights in zip(seen.sites, theirs.attentions, strict=True):
        assert float((torch.from_numpy(seen.map(site).all_weights()) - weights[0]).abs().max()) < 1e-12


def test_both_stacks_with_attention_of_their_own_are_recorded_and_cached(tmp_path: Path) -> None:
    save_random(tmp_path, "MvpForConditionalGeneration", STACKS | dict(d_model=21, decoder_layers=3))
    net = native(tmp_path, "AutoModelForSeq2SeqLM").double()
    model: Any = load(tmp_path).model.double()
    target = OTHER_IDS[:, :5].flip(1)
    with torch.inference_mode():
        theirs = net(input_ids=OTHER_IDS, decoder_input_ids=target, output_attentions=True, use_cache=False)
        with recording() as seen:
            ours = model.run(OTHER_IDS, target)
        cache = model.start(OTHER_IDS)
        steps = torch.stack([model.step(target[:, i : i + 1], cache)[0] for i in range(5)])
    assert model.note
    np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-9)
    np.testing.assert_allclose(steps, theirs.logits[0], atol=1e-9)
    for group, maps in (("decoder.self", theirs.decoder_attentions), ("decoder.cross", theirs.cross_attentions)):
        for site, weights in zip([one for one in seen.sites if one.group == group], maps, strict=True):
            np.testing.assert_allclose(seen.map(site).all_weights(), weights[0], atol=1e-12)


def test_what_would_take_more_memory_than_there_should_be_is_refused_by_name(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = load(folders["bloom"]).model
    most = 2 * 3 * 8 * 8 * 4  # layers, heads, queries, keys
    for bound, outcome in ((most, nullcontext()), (most - 1, pytest.raises(RecordError, match="choose a shorter"))):
        monkeypatch.setattr(relay, "MOST_BYTES", bound)
        with torch.inference_mode(), recording(), outcome:
            model.run(OTHER_IDS)

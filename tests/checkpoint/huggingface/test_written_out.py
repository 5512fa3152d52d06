"""Families that write their attention out are recorded exactly, can be changed, and write what they wrote before."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.checkpoint.huggingface.families import random_model, write_folder
from transformer import Checkpoint, ContinueOptions, Intervention, continue_text, intervening, load, recording, run_any
from transformer.attention.softmax_inputs import AttentionInputs, Weights
from transformer.checkpoint.huggingface import model as huggingface_model
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import RecordError
from transformer.explain.diagrams.of_model import architecture

SIZES: dict[str, Any] = dict(vocab_size=97, initializer_range=0.4)
FALCON = SIZES | dict(max_position_embeddings=41, hidden_size=24, num_attention_heads=6, num_hidden_layers=2)
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neo": (
        "GPTNeoForCausalLM",
        SIZES | dict(max_position_embeddings=41, hidden_size=21, num_heads=3, num_layers=2)
        | dict(attention_types=[[["global", "local"], 1]], window_size=3, initializer_range=0.2),
    ),
    "bloom": ("BloomForCausalLM", SIZES | dict(hidden_size=21, n_head=3, n_layer=2)),
    "falcon, a key a group": ("FalconForCausalLM", FALCON | dict(new_decoder_architecture=True, num_kv_heads=3)),
}  # fmt: skip
IDS = torch.tensor([[5, 7, 11, 13, 17, 19, 23, 29]])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("own")
    with quiet():
        for family, (class_name, options) in FAMILIES.items():
            random_model(class_name, options | dict(bos_token_id=0, eos_token_id=0)).save_pretrained(place / family)
    return {family: place / family for family in FAMILIES}


def original(folder: Path, attention: str = "eager") -> Any:
    with quiet():
        return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_recorded_and_is_what_its_own_attention_says(folders: dict[str, Path], family: str) -> None:
    checkpoint: Checkpoint = load(folders[family])
    model: Any = checkpoint.model
    fused = family.startswith("falcon")
    assert (model.eager, checkpoint.sites) == (not fused, ("decoder.0.self", "decoder.1.self"))
    with torch.inference_mode():
        theirs = original(folders[family])(IDS, output_attentions=True, use_cache=False)
        with recording() as seen:
            ours = model.run(IDS)
    assert (
        torch.allclose(ours.logits, theirs.logits, rtol=1e-5, atol=1e-4) if fused else ours.logits.equal(theirs.logits)
    )
    for site, weights in zip(seen.sites, theirs.attentions, strict=True):
        assert isinstance(seen.source(site), AttentionInputs if fused else Weights)
        np.testing.assert_allclose(seen.map(site).all_weights(), weights[0], atol=1e-5 if fused else 0)
    sharp = torch.cat([weights.flatten() for weights in theirs.attentions])
    assert float(sharp.std()) > 0.1
    np.testing.assert_array_equal(seen.map(seen.sites[1]).mask(), np.tri(8, dtype=bool))


@pytest.mark.parametrize("family", FAMILIES)
def test_it_writes_and_changes_as_any_other(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    found = continue_text(checkpoint, "5 7 11 13", ContinueOptions(6))
    net = original(folders[family])
    prompt = IDS[:, :4]
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
    with quiet():
        random_model("FalconForCausalLM", sizes).save_pretrained(tmp_path)
    theirs = original(tmp_path, "sdpa")
    model: Any = load(tmp_path).model
    assert not model.eager
    ids = torch.cat([IDS, IDS.flip(1)])
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


def test_what_is_not_exact_runs_eagerly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused attention that scales otherwise than the family's eager one."""
    folder = write_folder(tmp_path / "gpt2", "gpt2", tokenizer=False)
    assert not load(folder).model.eager
    fused = transformers.AttentionInterface._global_mapping["sdpa"]

    def scaled(module: Any, query: torch.Tensor, *others: Any, **options: Any) -> Any:
        return fused(module, 0.9 * query, *others, **options)

    monkeypatch.setitem(transformers.AttentionInterface._global_mapping, "sdpa", scaled)
    model: Any = load(folder).model
    assert model.eager
    assert "decoder.0.self differs by" in model.note
    with torch.inference_mode():
        ours = model.run(IDS).logits
        assert torch.equal(ours, original(folder)(IDS, use_cache=False).logits)


def test_layers_that_are_one_are_watched_each(tmp_path: Path) -> None:
    sizes: dict[str, Any] = dict(num_hidden_layers=4, num_hidden_groups=2, num_attention_heads=3, hidden_size=24)
    sizes |= SIZES | dict(embedding_size=14, intermediate_size=11, max_position_embeddings=41, pad_token_id=0)
    with quiet():
        random_model("AlbertForMaskedLM", sizes).save_pretrained(tmp_path / "albert")
        net = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "albert", attn_implementation="eager")
    net = net.eval().double()
    checkpoint = load(tmp_path / "albert")
    model: Any = checkpoint.model.double()
    assert (model.eager, len(model.sites)) == (False, 4)
    assert checkpoint.n_parameters == sum(one.numel() for one in net.parameters()), "weights are shared, not copied"
    assert architecture(model).parameters == checkpoint.n_parameters
    with torch.inference_mode():
        theirs = net(IDS, output_attentions=True)
        with recording() as seen:
            model.run(IDS)
        np.testing.assert_allclose(model.word_scores(IDS), theirs.logits, atol=1e-9)
    for site, weights in zip(seen.sites, theirs.attentions, strict=True):
        assert float((torch.from_numpy(seen.map(site).all_weights()) - weights[0]).abs().max()) < 1e-12


def test_both_stacks_with_attention_of_their_own_are_recorded_and_cached(tmp_path: Path) -> None:
    stacks: dict[str, Any] = dict(d_model=21, encoder_attention_heads=3, decoder_attention_heads=3, init_std=0.4)
    stacks |= dict(encoder_ffn_dim=11, decoder_ffn_dim=13, encoder_layers=2, decoder_layers=3, vocab_size=97)
    stacks |= dict(max_position_embeddings=41, pad_token_id=1, decoder_start_token_id=2)
    with quiet():
        random_model("MvpForConditionalGeneration", stacks).save_pretrained(tmp_path)
        net = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager").eval().double()
    model: Any = load(tmp_path).model.double()
    target = IDS[:, :5].flip(1)
    with torch.inference_mode():
        theirs = net(input_ids=IDS, decoder_input_ids=target, output_attentions=True, use_cache=False)
        with recording() as seen:
            ours = model.run(IDS, target)
        cache = model.start(IDS)
        steps = torch.stack([model.step(target[:, i : i + 1], cache)[0] for i in range(5)])
    assert model.eager
    np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-9)
    np.testing.assert_allclose(steps, theirs.logits[0], atol=1e-9)
    for group, maps in (("decoder.self", theirs.decoder_attentions), ("decoder.cross", theirs.cross_attentions)):
        for site, weights in zip([one for one in seen.sites if one.group == group], maps, strict=True):
            np.testing.assert_allclose(seen.map(site).all_weights(), weights[0], atol=1e-12)


@pytest.mark.parametrize("family", ["bloom", "gpt_neo"])
def test_a_head_that_is_off_gives_nothing_to_its_output_projection(folders: dict[str, Path], family: str) -> None:
    checkpoint = load(folders[family])
    name = {"bloom": "transformer.h.0.self_attention.dense", "gpt_neo": "transformer.h.0.attn.attention.out_proj"}
    net = original(folders[family])
    with torch.no_grad():
        net.get_submodule(name[family]).weight[:, 7:14] = 0
        expected = net(IDS, use_cache=False).logits
    model: Any = checkpoint.model
    with torch.inference_mode(), intervening([Intervention("decoder.0.self", "zero", heads=(1,))]):
        found = model.run(IDS).logits
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_would_take_more_memory_than_there_should_be_is_refused_by_name(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = load(folders["bloom"]).model
    most = 2 * 3 * 8 * 8 * 4  # layers, heads, queries, keys
    for bound, outcome in ((most, nullcontext()), (most - 1, pytest.raises(RecordError, match="choose a shorter"))):
        monkeypatch.setattr(huggingface_model, "MOST_BYTES", bound)
        with torch.inference_mode(), recording(), outcome:
            model.run(IDS)

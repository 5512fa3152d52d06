"""Recognising layouts from names and shapes; what these cannot tell is asked; what does not fit is reported."""

import ast
import re
from argparse import Namespace
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_model
from torch import nn

from heedmap import attention_maps, load, recording
from heedmap.checkpoint import report
from heedmap.checkpoint.foreign.layouts.torch_layers import UNTOLD
from heedmap.checkpoint.foreign.report import Questionnaire, Report
from heedmap.errors import CheckpointError
from heedmap.lessons.leakage import leak_test
from heedmap.messages import say, speaking
from heedmap.runs.check import check
from tests.checkpoint.originals.common import attend, same, scramble
from tests.checkpoint.originals.drawn import Drawn, Sizes, annotated
from tests.checkpoint.originals.torch_modules import translator
from tests.checkpoint.references import LAYOUTS, ONE_FILE, REFERENCE, heads, model, reference_file, weights

IDS = [[3, 4, 1, 2, 4, 1, 3]]


def _maps(checkpoint):
    targets = None if checkpoint.model.__class__.__name__ in {"Encoder", "KmerClassifier"} else [[1, 4, 3]]
    return attention_maps(checkpoint, IDS, targets)


@cache
def _maps_of_reference(name):
    return _maps(load(reference_file(name), **heads(name)))


def _as_reference(path, name):
    found, expected = _maps(load(path, **heads(name))), _maps_of_reference(name)
    assert all((found[site] == expected[site]).all() for site in expected)


@pytest.mark.parametrize(("name", "layout"), LAYOUTS.items())
def test_each_reference_is_recognised_surely_and_says_why(name, layout):
    found = report(REFERENCE / name)
    assert (found.layout, found.confidence, found.fits) == (layout, 1.0, True)
    assert found.reasons[0].startswith(f"{len(found.matched)} of {len(found.matched)} names and shapes")
    assert len(found.reasons) > 1
    assert found.title in found.text


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize(
    "wrapped", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "model.{}", "net.module.core.{}"]
)
def test_prefixes_of_wrappers_change_nothing(name, wrapped, tmp_path):
    path = tmp_path / "model.pt"
    torch.save({wrapped.format(key): tensor for key, tensor in weights(name).items()}, path)
    assert report(path).confidence == 1.0
    if name != "jadore-emb":  # its settings answer what its shapes cannot
        _as_reference(path, name)


def test_lightning_s_extras_are_left_out_and_named(tmp_path):
    path = tmp_path / "epoch=3.ckpt"
    inside = {f"model.{key}": tensor for key, tensor in weights("annotated").items()}
    inside |= {"criterion.weight": torch.ones(29), "val_loss.total": torch.tensor(0.5)}
    torch.save({"state_dict": inside, "hyper_parameters": {"lr": 1e-3}, "pytorch-lightning_version": "2.0.0"}, path)
    found = report(path)
    assert found.fits
    assert found.ignored.keys() == {"criterion.weight", "val_loss.total"}
    _as_reference(path, "annotated")


def test_weight_averaging_s_counter_is_left_out_and_doubles_stay_doubles(tmp_path):
    path = tmp_path / "swa.pt"
    averaged = torch.optim.swa_utils.AveragedModel(scramble(nn.ModuleDict({"t": translator(11, 13, (1, 1), 6, 2, 5)})))
    torch.save(averaged.state_dict(), path)
    assert report(path).ignored == {"n_averaged": "a counter"}
    torch.save({key: tensor.double() + 1e-12 for key, tensor in weights("encoder-only").items()}, path)
    assert {p.dtype for p in model(path, **heads("encoder-only")).parameters()} == {torch.float64}


def test_a_shared_matrix_that_safetensors_stores_once_is_found(tmp_path):
    original = scramble(translator(11, 11, (1, 1), 6, 2, 5))
    original.generator.weight = original.tgt_embed.weight
    save_model(original, str(tmp_path / "model.safetensors"))
    config = model(tmp_path / "model.safetensors", n_heads=2, scale_embedding=True).config
    assert (config.tie_projection, config.tie_embeddings) == (True, False)


def test_what_is_missing_unexpected_or_of_another_shape_is_reported(tmp_path):
    tensors, path = weights("annotated"), tmp_path / "model.pt"
    del tensors["encoder.norm.a_2"]
    tensors["encoder.layers.1.self_attn.rotary"] = torch.ones(3, 5)
    tensors["generator.proj.weight"] = torch.ones(29, 23)
    torch.save(tensors, path)
    found = report(path)
    assert (found.layout, found.fits) == ("annotated", False)
    assert found.missing == {"encoder.norm.a_2": (24,)}
    assert found.unexpected == {"encoder.layers.1.self_attn.rotary": (3, 5)}
    assert found.wrong_shape == {"generator.proj.weight": ((29, 24), (29, 23))}
    assert 0.9 < found.confidence < 1
    with pytest.raises(CheckpointError) as refused:
        load(path)
    text = str(refused.value)
    for part in ("The Annotated Transformer", "encoder.norm.a_2 24", "rotary 3 x 5", "should be 29 x 24, is 29 x 23"):
        assert part in text
    assert "bring the file that holds the 1 missing: trained weights cannot be made up" in text
    torch.save(tensors | {f"encoder.extra.{i}": torch.ones(2) for i in range(50)}, path)
    found = report(path)
    assert len(found.unexpected) == 51
    assert "and 43 more" in found.text  # lists are cut in the text only
    torch.save({name: one for name, one in weights("torch-prenorm").items() if "decoder.norm.weight" not in name}, path)
    assert report(path).missing == {"transformer.decoder.norm.weight": (24,)}


def test_a_report_is_said_in_chinese_and_no_word_of_it_stays_english():
    found = report(REFERENCE / "torch-prenorm")
    nothing_fits = replace(found, unexpected={"norm.weight": (3,)}, doubt=UNTOLD, wrong_shape={})
    with speaking("zh"):
        for shown in (found, nothing_fits):
            lines = [*shown.reasons, *shown.assumptions, *shown.changes, *shown.ignored.values(), shown.text]
            lines += [question.text for question in shown.questions]
            lines += [question.why for question in shown.questions if question.why]
            for line in lines:
                said = say(line)
                assert re.search("[\u4e00-\u9fff]", said), line
                assert not re.search(r"\b(is|are|of|the|which|does|and)\b", said), said


def _names(path, **answers):
    return {question.name for question in report(path, **answers).questions if not (question.rare or question.place)}


def test_only_what_shapes_cannot_tell_is_asked():
    marks = {"pad_id", "bos_id", "eos_id"}
    options = {"n_heads", "activation", "norm_first", "scale_embedding"}
    assert _names(REFERENCE / "annotated") == {"n_heads"} | marks
    assert _names(REFERENCE / "jadore-emb") == {"bos_id", "eos_id"}
    assert _names(REFERENCE / "rnn-tutorial-1") == marks
    assert _names(REFERENCE / "torch-prenorm") == options | {"positions"} | marks
    assert _names(REFERENCE / "encoder-only") == options | {"position_axis", "causal", "pad_id"}
    assert _names(REFERENCE / "kmer") == options | {"pad_id"}


@pytest.mark.parametrize(
    ("d_model", "expected"), [(512, 8), (768, 12), (128, 2), (64, 8), (24, 8), (18, 6), (13, 1), (7, 7), (1, 1)]
)
def test_a_usual_number_of_heads_is_proposed(d_model, expected):
    asked = Questionnaire({})
    assert asked.heads(d_model) == expected
    assert asked.asked["n_heads"].is_open == (d_model > 1)


def test_heads_are_asked_first_and_nothing_is_run_before():
    found = report(reference_file("annotated"), pad_id=0)
    assert (found.fits, found.is_ready, found.questions[0].name) == (True, False, "n_heads")
    assert found.questions[0].options == (1, 2, 3, 4, 6, 8, 12, 24)
    assert "to be answered before it can be run: n_heads (How many" in found.text
    with pytest.raises(CheckpointError, match=r"page Your model, by keyword in load\(\), .*: n_heads \(How many"):
        load(reference_file("annotated"))
    assert report(reference_file("annotated"), n_heads=3).is_ready


def test_what_is_assumed_is_said_and_answers_may_repeat_the_file():
    found = load(reference_file("annotated"), n_heads=3, pad_id=0, d_model=24, source_vocab=31)
    said = "eos_id=2 is assumed; no attention depends on it"
    assert found.assumptions == ("bos_id=1 is assumed (a common choice)", said)
    assert found.guesses == ("assumed, since the file does not say: bos_id=1",)


@pytest.mark.parametrize(
    ("reference", "answers", "message"),
    [
        ("annotated", {"n_heads": 5}, r"n_heads=5 does not fit: choose one of 1, 2, 3"),
        ("annotated", {"n_heads": True}, "n_heads=True does not fit"),
        ("annotated", {"n_heads": "3"}, "n_heads='3' does not fit"),
        ("annotated", {"colour": "blue"}, r"colour='blue' answers nothing.*n_heads, pad_id"),
        ("annotated", {"d_model": 512}, "d_model=512 contradicts the file, which says 24"),
        ("annotated", {"pad_id": -2}, "pad_id=-2 does not fit: give a whole number of at least -1"),
        ("annotated", {"pad_id": 2.0}, "pad_id=2.0 does not fit"),
        ("annotated", {"eos_id": 29}, "eos_id=29 is no token: the vocabulary has ids 0 to 28"),
        ("torch-prenorm", {"activation": "tanh"}, "'relu', 'gelu'"),
        ("torch-prenorm", {"norm_first": 1}, "False, True"),
        ("jadore-emb", {"n_heads": 4}, "n_heads=4 does not fit: choose one of 1, 2, 3, 6, 9, 18"),
        ("rnn-tutorial-1", {"attention": "additive"}, "attention='additive' contradicts the file"),
    ],
)
def test_answers_that_cannot_be_right_are_refused(reference, answers, message):
    with pytest.raises(CheckpointError, match=message):
        load(REFERENCE / reference, **answers)


def test_source_and_target_may_be_padded_differently():
    checkpoint = load(reference_file("annotated"), n_heads=3, pad_id=0, target_pad_id=7)
    assert (checkpoint.model.config.pad_id, checkpoint.model.config.written_pad_id) == (0, 7)
    assert (checkpoint.tokenizer.pad_id, checkpoint.writer.pad_id) == (0, 7)
    source, target = [[5, 6, 0]], [[1, 7, 9]]
    maps = attention_maps(checkpoint, source, target)
    assert (maps["decoder.0.self"][..., 1] == 0).all()
    assert (maps["decoder.0.self"][:, :, 2, 2] > 0).all()
    assert (maps["encoder.0.self"][..., 2] == 0).all()
    assert leak_test(checkpoint).padding <= 1e-9


def _with_options(path, **options):
    torch.save({"state_dict": {f"model.{n}": t for n, t in weights("annotated").items()}} | options, path)
    return path


@pytest.mark.parametrize(
    ("options", "place", "told"),
    [
        ({"hyper_parameters": {"nhead": 4, "pad_idx": 3}}, "hyper_parameters", {"n_heads": 4, "pad_id": 3}),
        ({"args": Namespace(num_heads=12, eos_idx=7)}, "args", {"n_heads": 12, "eos_id": 7}),
        ({"config": {"n_head": 5, "pad_idx": "none"}}, "config", {}),  # no possible answers
        ({"hparams": {"heads": True}}, "hparams", {}),
        ({"model_args": {"n_head": 4}, "config": {"n_head": 5}}, "model_args", {"n_heads": 4}),
        ({"model_kwargs": {"n_head": 4}, "cfg": {"heads": 4, "pad_idx": 3}}, "model_kwargs", {"n_heads": 4}),
    ],
)
def test_options_beside_the_weights_are_believed_where_they_are_possible_answers(options, place, told, tmp_path):
    path = _with_options(tmp_path / "epoch.ckpt", **options)
    found = report(path)
    asked = {question.name: question for question in found.questions}
    assert {name: asked[name].default for name in told} == told
    assert all(asked[name].place == place and f"{place} beside the weights" in asked[name].why for name in told)
    assert {f"{name}={value}: {place} beside the weights says so" for name, value in told.items()} <= set(found.reasons)
    assert not any(assumption.startswith(tuple(told)) for assumption in found.assumptions if told)
    assert found.is_ready == ("n_heads" in told)
    assert report(path, n_heads=3).config.block.attention.n_heads == 3  # an answer counts for more


def test_options_that_differ_are_asked_and_not_decided(tmp_path):
    made, flags = {"num_heads": 2, "eos_idx": 4, "bos_idx": 5}, {"n_head": 8, "eos_idx": 6, "bos_idx": 5}
    path = _with_options(tmp_path / "ckpt.pt", model_args=made, config=flags)
    found = report(path)
    assert [question.name for question in found.open] == ["n_heads"]
    assert "model_args says 2, config says 8" in found.open[0].why
    with pytest.raises(CheckpointError, match="model_args says 2, config says 8"):
        load(path)
    asked = {question.name: question for question in found.questions}
    assert (asked["bos_id"].place, asked["bos_id"].default) == ("model_args", 5)
    assert asked["eos_id"].default == 4  # no attention depends on it: the first place counts
    assert load(path, n_heads=2).guesses == ("assumed, since the file does not say: pad_id=0",)


def test_a_model_that_hides_with_a_large_number_looks_everywhere_from_a_row_that_sees_nothing(tmp_path):
    """As The Annotated Transformer is published: hidden scores are -1e9. The record shows such rows and says so."""
    sources = torch.tensor([[7, 5, 9, 3, 4], [0, 0, 0, 0, 0]])
    targets = torch.tensor([[0, 0, 6, 0, 8, 2, 3], [5, 6, 7, 0, 0, 0, 0]])
    torch.manual_seed(3)
    w = Drawn()
    maps = annotated(w, Sizes(31, 29), sources, targets, attended=partial(attend, hidden=-1e9))
    torch.save(w.state, tmp_path / "model.pt")
    checkpoint = load(tmp_path / "model.pt", n_heads=3)
    same(checkpoint, maps, sources, targets, within=1e-12)
    expected = {name: values.numpy() for name, values in maps.items()}
    assert np.allclose(expected["decoder.0.self"][0, :, :2], 1 / 7)  # two rows that see padding alone
    assert np.allclose(expected["decoder.1.cross"][1], 1 / 5)  # a source of padding alone
    checkpoint.model.double()
    with torch.no_grad(), recording() as seen:
        checkpoint.model(sources, targets)
    attention = seen.map("decoder.0.self")
    assert abs(attention.all_weights() - expected["decoder.0.self"][0]).max() < 1e-9
    assert abs(attention.tile(1, slice(0, 3), slice(4, 7)) - expected["decoder.0.self"][0, 1, :3, 4:7]).max() < 1e-9
    assert attention.mask()[:2].all()
    assert not attention.mask()[2, :2].any()
    assert "looks at all of them alike" in " ".join(map(str, attention.picture(0).notes))
    found = check(checkpoint, sources, expected, targets)
    assert found.agrees
    assert all(one.unseen == 0 for one in found.differences)


STRANGERS = [
    ("conv1.weight", "no known layout"),
    ("decoder.block.0.layer.0.SelfAttention.q.weight", "T5, mT5 or UMT5"),
    ("model.layers.0.mlp.gate_proj.weight", "Llama, Mistral, Qwen or Gemma"),
    ("layers.0.attention.wq.weight", "Llama"),
    ("encoder.albert_layer_groups.0.albert_layers.0.attention.query.weight", "ALBERT"),
    ("encoder.layer.0.attention.self.query_proj.weight", "DeBERTa"),
    ("h.0.self_attention.query_key_value.weight", "Bloom, Falcon, GPT-NeoX"),
    ("transformer.h.0.attn.q_proj.weight", "GPT-J or GPT-Neo"),
    ("vision_model.encoder.layers.0.self_attn.q_proj.weight", "images"),
    ("blocks.0.layernorm_before.weight", "images"),
    ("patch_embed.proj.weight", "images"),
    ("base_model.model.layers.0.q.lora_A.weight", "adapter"),
    ("bert.encoder.layer.0.attention.self.query.weight", "BERT, RoBERTa or ELECTRA"),
    ("transformer.layer.0.attention.q_lin.weight", "DistilBERT"),
    ("model.encoder.layers.0.self_attn.q_proj.weight", "BART, mBART, Marian or Pegasus"),
    ("model.decoder.layers.0.self_attn.q_proj.weight", "OPT, XGLM or BioGPT"),
]


@pytest.mark.parametrize(("name", "called"), STRANGERS)
def test_a_file_is_told_by_its_names(name, called, tmp_path):
    torch.save({name: torch.ones(3, 5)}, tmp_path / "model.pt")
    found = report(tmp_path / "model.pt")
    assert (found.layout, found.fits) == (None, False)
    assert called in str(found.title)
    assert (f"it starts with {name}" in found.reasons) == (called == "no known layout")
    assert found.changes == (found.remedy,)
    with pytest.raises(CheckpointError, match=r"bring|convert|merge|no known layout"):
        load(tmp_path / "model.pt")


def _report(folder: Path, **beside: Any) -> Report:
    """A ViT of one's own: three blocks around nn.MultiheadAttention."""
    blocks = nn.ModuleList(nn.ModuleDict({"attn": nn.MultiheadAttention(12, 3)}) for _ in range(3))
    torch.save({"model": nn.ModuleDict({"blocks": blocks}).state_dict(), **beside}, folder / "my vit.pt")
    return report(folder / "my vit.pt")


def test_a_refusal_names_what_was_found_and_gives_three_lines_that_are_python(tmp_path):
    found = _report(tmp_path)
    assert found.layout is None
    assert {"3 layers at blocks", "the number of heads is not told"} <= set(found.reasons)
    assert "attention is torch.nn.MultiheadAttention (in_proj_weight)" in found.reasons
    first, second, third = found.record
    assert first == "from heedmap import recording"
    assert second == "with recording(model) as seen: model(inputs)"
    assert third == "seen.record(model='my vit').save(\"run.heedmap\")"
    assert ast.parse("\n".join(found.record))
    assert found.text.endswith("\n".join(found.record))
    assert "drop run.heedmap here" in found.text
    assert "3 heads: args.num_heads beside the weights says so" in _report(tmp_path, args={"num_heads": 3}).reasons
    names = [f"blocks.{i}.sa.heads.{j}.key.weight" for i in range(2) for j in range(5)]
    torch.save({name: torch.ones(3, 15) for name in names}, tmp_path / "model.pt")
    told = report(tmp_path / "model.pt").reasons
    assert {"2 layers at blocks", "5 heads, each with maps of its own at blocks.0.sa.heads"} <= set(told)
    assert "no torch.nn.MultiheadAttention (no in_proj_weight)" in told

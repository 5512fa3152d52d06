"""Recognising layouts from names and shapes, through wrappers and formats; and reports where something does not fit."""

import json
import re
from dataclasses import replace
from functools import cache

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import Translator
from tests.checkpoint.references import LAYOUTS, ONE_FILE, REFERENCE, heads, model, reference_file, weights
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.layouts.torch_roles import UNTOLD
from transformer.errors import CheckpointError
from transformer.messages import say, speaking

IDS = [[3, 4, 1, 2, 4, 1, 3]]


def _maps(checkpoint):
    targets = None if checkpoint.model.__class__.__name__ in {"Encoder", "KmerClassifier"} else [[1, 4, 3]]
    return attention_maps(checkpoint, torch.tensor(IDS), None if targets is None else torch.tensor(targets))


def _same(first, second):
    _equal(_maps(first), _maps(second))


def _equal(one, other):
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)


@cache
def _maps_of_reference(name):
    return _maps(load(reference_file(name), **heads(name)))


@pytest.mark.parametrize(("name", "layout"), LAYOUTS.items())
def test_each_reference_is_recognised_surely_and_says_why(name, layout):
    found = report(REFERENCE / name)
    assert (found.layout, found.confidence, found.fits) == (layout, 1.0, True)
    assert found.reasons[0].startswith(f"{len(found.matched)} of {len(found.matched)} names and shapes")
    assert len(found.reasons) > 1
    assert found.title in found.text


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_size_that_shapes_tell_is_inferred(name):
    about = json.loads((REFERENCE / name / "about.json").read_text(encoding="utf-8"))
    config = (
        report(REFERENCE / name, n_heads=about["heads"]).config if "heads" in about else report(REFERENCE / name).config
    )
    told = {
        "layers": ("n_layers", "n_encoder_layers", "n_decoder_layers"), "encoder_layers": ("n_encoder_layers",),
        "decoder_layers": ("n_decoder_layers",), "heads": ("n_heads",), "vocab": ("vocab",), "classes": ("n_classes",),
        "kmers": ("widths",), "sos_id": ("bos_id",), "share_projection": ("tie_projection",),
        "share_embeddings": ("tie_embeddings",),
    }  # fmt: skip
    same = ("d_model", "d_ff", "d_k", "d_v", "source_vocab", "target_vocab", "hidden", "max_length", "pad_id", "bos_id")
    for key, fields in (told | {name: (name,) for name in same}).items():
        value = tuple(about[key]) if key == "kmers" and key in about else about.get(key)
        assert value is None or {getattr(config, f, value) for f in fields} == {value}, key


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize(
    "wrapped", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "model.{}", "net.module.core.{}"]
)
def test_prefixes_of_wrappers_change_nothing(name, wrapped, tmp_path):
    path = tmp_path / "model.pt"
    torch.save({wrapped.format(key): tensor for key, tensor in weights(name).items()}, path)
    assert report(path).confidence == 1.0
    if name != "jadore-emb":  # its settings answer what its shapes cannot
        _equal(_maps(load(path, **heads(name))), _maps_of_reference(name))


@pytest.mark.parametrize("name", ONE_FILE)
@pytest.mark.parametrize("place", ["state_dict", "model_state_dict", "model", "net"])
def test_trainers_files_hold_weights_at_known_places(name, place, tmp_path):
    path = tmp_path / "last.ckpt"
    optimiser = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save({"epoch": 3, "optimizer": optimiser, place: weights(name), "best": 0.5}, path)
    found = report(path)
    assert (found.layout, found.confidence) == (LAYOUTS[name], 1.0)


def test_lightning_s_extras_are_left_out_and_named(tmp_path):
    path = tmp_path / "epoch=3.ckpt"
    inside = {f"model.{key}": tensor for key, tensor in weights("annotated").items()}
    inside |= {"criterion.weight": torch.ones(29), "val_loss.total": torch.tensor(0.5)}
    torch.save({"state_dict": inside, "hyper_parameters": {"lr": 1e-3}, "pytorch-lightning_version": "2.0.0"}, path)
    found = report(path)
    assert found.fits
    assert found.ignored.keys() == {"criterion.weight", "val_loss.total"}
    _equal(_maps(load(path, n_heads=3)), _maps_of_reference("annotated"))


def test_weight_averaging_s_counter_is_left_out(tmp_path):
    path = tmp_path / "swa.pt"
    averaged = torch.optim.swa_utils.AveragedModel(scramble(nn.ModuleDict({"t": Translator(11, 13, (1, 1), 6, 2, 5)})))
    torch.save(averaged.state_dict(), path)
    assert report(path).ignored == {"n_averaged": "a counter"}


@pytest.mark.parametrize("name", ONE_FILE)
def test_safetensors_and_the_old_format_are_the_same_checkpoint(name, tmp_path):
    tensors = weights(name)
    save_file({key: tensor.contiguous().clone() for key, tensor in tensors.items()}, tmp_path / "new.safetensors")
    torch.save(tensors, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(tensors, tmp_path / "now.pt")
    now = load(tmp_path / "now.pt", **heads(name))
    for other in ("new.safetensors", "old.pt"):
        _same(load(tmp_path / other, **heads(name)), now)


def test_doubles_stay_doubles(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({key: tensor.double() + 1e-12 for key, tensor in weights("encoder-only").items()}, path)
    assert {p.dtype for p in model(path, **heads("encoder-only")).parameters()} == {torch.float64}


def test_a_shared_matrix_that_safetensors_stores_once_is_found(tmp_path):
    original = scramble(Translator(11, 11, (1, 1), 6, 2, 5))
    original.generator.weight = original.tgt_embed.weight
    from safetensors.torch import save_model

    save_model(original, str(tmp_path / "model.safetensors"))
    config = model(tmp_path / "model.safetensors", n_heads=2, scale_embedding=True).config
    assert (config.tie_projection, config.tie_embeddings) == (True, False)


def _broken(tmp_path, change):
    tensors = weights("annotated")
    change(tensors)
    path = tmp_path / "model.pt"
    torch.save(tensors, path)
    return path


def test_what_is_missing_unexpected_or_of_another_shape_is_reported(tmp_path):
    def change(tensors):
        del tensors["encoder.norm.a_2"]
        tensors["encoder.layers.1.self_attn.rotary"] = torch.ones(3, 5)
        tensors["generator.proj.weight"] = torch.ones(29, 23)

    path = _broken(tmp_path, change)
    found = report(path)
    assert found.layout == "annotated"
    assert not found.fits
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


def test_an_unexpected_tensor_can_be_left_out(tmp_path):
    path = _broken(tmp_path, lambda tensors: tensors.update({"aux.weight": torch.ones(3, 5)}))
    with pytest.raises(CheckpointError, match=r"unexpected: aux\.weight 3 x 5"):
        load(path)
    without = load(path, n_heads=3, ignore="aux.*")
    _equal(_maps(without), _maps_of_reference("annotated"))
    assert "1 tensor left out by you: aux.weight" in without.guesses
    found = report(path, ignore=("aux.*", "other.*"))
    assert found.ignored == {"aux.weight": "left out as asked"}
    assert (found.left_out, found.confidence < 1) == (("aux.weight",), True)


def test_long_lists_are_cut_in_the_text_only(tmp_path):
    def change(tensors):
        tensors.update({f"encoder.extra.{i}": torch.ones(2) for i in range(50)})

    found = report(_broken(tmp_path, change))
    assert len(found.unexpected) == 50
    assert "and 42 more" in found.text


def test_a_strange_file_is_reported_with_what_its_names_tell(tmp_path):
    path = tmp_path / "resnet.pt"
    torch.save({"conv1.weight": torch.ones(3, 5, 7, 7), "layer1.0.bn1.weight": torch.ones(3)}, path)
    found = report(path)
    assert found.layout is None
    assert "conv1.weight" in found.text
    with pytest.raises(CheckpointError, match="no known layout"):
        load(path)


def test_nan_is_refused_by_name(tmp_path):
    def change(tensors):
        tensors["generator.proj.bias"][3] = torch.nan

    with pytest.raises(CheckpointError, match="NaN"):
        load(_broken(tmp_path, change), n_heads=3)


def test_a_norm_missing_at_the_end_of_one_stack_is_reported(tmp_path):
    tensors = weights("torch-prenorm")
    del tensors["transformer.decoder.norm.weight"]
    torch.save(tensors, tmp_path / "model.pt")
    assert report(tmp_path / "model.pt").missing == {"transformer.decoder.norm.weight": (24,)}


def test_a_report_is_said_in_chinese_and_no_word_of_it_stays_english():
    found = report(REFERENCE / "torch-prenorm", ignore="nothing.*")
    nothing_fits = replace(found, unexpected={"norm.weight": (3,)}, doubts={"norm.weight": UNTOLD}, wrong_shape={})
    with speaking("zh"):
        for shown in (found, nothing_fits):
            lines = [*shown.reasons, *shown.assumptions, *shown.changes, *shown.ignored.values(), shown.text]
            lines += [question.text for question in shown.questions]
            lines += [question.why for question in shown.questions if question.why]
            for line in lines:
                said = say(line)
                assert re.search("[\u4e00-\u9fff]", said), line
                assert not re.search(r"\b(is|are|of|the|which|does|and)\b", said), said

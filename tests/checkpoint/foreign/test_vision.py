"""Vision Transformers without their config: equal to the paper's in float64 at sizes that all differ, or refused."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, scramble
from tests.checkpoint.originals.vision import Sizes, TimmVision, TorchvisionVision
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.load import listed_architecture
from transformer.checkpoint.ours.convert import convert
from transformer.checkpoint.safe.arrays import read_arrays_file
from transformer.errors import CheckpointError, InputError
from transformer.models.vision import VisionTransformer
from transformer.pictures.photo import drawn
from transformer.runs.any_model import run_any
from transformer.runs.check import check_contents
from transformer.runs.vision import frame_of, on_patches, pixels_of, run_photo

SIZES = Sizes()
GRADES: dict[str, tuple[Sizes, dict[str, Any]]] = {
    "plain": (SIZES, {}),
    "no bias, one layer": (replace(SIZES, qkv_bias=False, layers=1, d=28, heads=7), {}),
    "a picture that is no square": (
        replace(SIZES, grid=(3, 7), patch=(2, 4)), {"grid_rows": 3, "placed": "all"},
    ),
    "grey": (replace(SIZES, channels=1, classes=1), {}),
    "distilled": (replace(SIZES, leading=("cls_token", "dist_token"), placed=2, distilled=True), {}),
    "registers with gains": (replace(SIZES, registers=4, placed=1, gains=("ls1.gamma", "ls2.gamma")), {}),
    "registers that have places": (replace(SIZES, registers=2, placed=3), {}),
    "no place for the class": (replace(SIZES, placed=0, gains=("gamma_1", "gamma_2")), {}),
    "the mean of patches": (replace(SIZES, pools=True), {}),
    "the mean, without a class": (replace(SIZES, leading=(), placed=0, pools=True), {}),
    "a norm first": (replace(SIZES, norm_pre=True, eps=1e-5), {}),
}  # fmt: skip


def pixels_for(sizes: Sizes) -> Tensor:
    rows, columns = (one * many for one, many in zip(sizes.patch, sizes.grid, strict=True))
    return torch.randn(2, sizes.channels, rows, columns, generator=torch.Generator().manual_seed(5)).double()


def saved(original: nn.Module, folder: Path, **more: Tensor) -> Path:
    torch.save({**original.state_dict(), **more}, folder / "model.pth")
    return folder / "model.pth"


def same(found: dict[str, np.ndarray], expected: Maps, most: float = 1e-9) -> None:
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < most, name


@pytest.mark.parametrize("grade", GRADES)
def test_timm_s_names(grade, tmp_path):
    sizes, answers = GRADES[grade]
    torch.manual_seed(3)
    original = scramble(TimmVision(sizes))
    path = saved(original, tmp_path)
    answers = {"n_heads": sizes.heads, **answers}
    found = report(path, **answers)
    assert (found.layout, found.confidence, found.fits) == ("vit-timm", 1.0, True), found.text
    assert found.config.grid == sizes.grid
    assert any("normalisation" in text for text in found.assumptions)
    with torch.no_grad():
        same(attention_maps(load(path, **answers), pixels_for(sizes)), original.double()(pixels_for(sizes)))


def test_names_of_classes_may_stand_twice_and_bear_their_numbers_then(tmp_path):
    brought = {"model.pth": saved(scramble(TimmVision(SIZES)), tmp_path).read_bytes()}
    names = ["crane", *(f"kind {i}" for i in range(1, SIZES.classes - 1)), "crane"]
    files = {name: BytesIO(data) for name, data in {**brought, "names.txt": "\n".join(names).encode()}.items()}
    found = bundle(files).checkpoint({"n_heads": 5}).class_names
    assert found == ("crane (0)", *names[1:-1], f"crane ({SIZES.classes - 1})")


@pytest.mark.parametrize("representation", [0, 13])
@pytest.mark.parametrize("old", [False, True])
def test_torchvision_s_names(old, representation, tmp_path):
    sizes = replace(SIZES, representation=representation, grid=(5, 5))
    torch.manual_seed(3)
    original = scramble(TorchvisionVision(sizes))
    state = original.state_dict()
    if old:
        state = {
            name.replace(".mlp.0.", ".mlp.linear_1.").replace(".mlp.3.", ".mlp.linear_2."): tensor
            for name, tensor in state.items()
        }
    torch.save({"model": {f"module.{name}": tensor for name, tensor in state.items()}}, tmp_path / "model.pth")
    found = report(tmp_path / "model.pth", n_heads=5)
    assert (found.title, found.confidence) == ("a Vision Transformer of torchvision", 1.0), found.text
    checkpoint = load(tmp_path / "model.pth", n_heads=5)
    assert checkpoint.tokenizer is None
    with torch.no_grad():
        same(attention_maps(checkpoint, pixels_for(sizes)), original.double()(pixels_for(sizes)))


@pytest.mark.parametrize("old", [False, True])
def test_the_transformers_library_s_names(old, tmp_path):
    config = transformers.ViTConfig(
        hidden_size=30, num_hidden_layers=2, num_attention_heads=5, intermediate_size=37, image_size=12, patch_size=3,
        num_labels=7, initializer_range=0.4, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(3)
    original = scramble(transformers.ViTForImageClassification(config))
    words = {
        "vit.layers.": "vit.encoder.layer.", ".attention.q_proj": ".attention.attention.query",
        ".attention.k_proj": ".attention.attention.key", ".attention.v_proj": ".attention.attention.value",
        ".attention.o_proj": ".attention.output.dense", ".mlp.fc1": ".intermediate.dense", ".mlp.fc2": ".output.dense",
    }  # fmt: skip
    state = dict(original.state_dict())
    for new, word in words.items() if old else ():
        state = {name.replace(new, word): tensor for name, tensor in state.items()}
    torch.save(state, tmp_path / "model.bin")
    found = report(tmp_path / "model.bin", n_heads=5)
    assert found.fits, found.text
    pixels = torch.randn(2, 3, 12, 12).double()
    with torch.no_grad():
        run = original.double()(pixels, output_attentions=True)
    expected = {f"encoder.{i}.self": weights for i, weights in enumerate(run.attentions)} | {"logits": run.logits}
    # the library's softmax is in single precision, whatever the model's
    same(attention_maps(load(tmp_path / "model.bin", n_heads=5), pixels), expected, 1e-5)


def test_a_folder_of_the_transformers_library_answers_for_itself(tmp_path):
    names = {0: "cat", 1: "dog", 2: "crane", 3: "crane", 4: "tree"}
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=6, intermediate_size=37, image_size=12, patch_size=3,
        id2label=names, initializer_range=0.4, attn_implementation="eager", layer_norm_eps=1e-3,
        hidden_act="gelu_pytorch_tanh",
    )  # fmt: skip
    torch.manual_seed(3)
    original = scramble(transformers.ViTForImageClassification(config))
    original.save_pretrained(tmp_path)
    clip = {"image_mean": [0.48145466, 0.4578275, 0.40821073]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(clip))
    checkpoint = load(tmp_path)
    assert checkpoint.architecture == listed_architecture(tmp_path) == "vision"
    assert checkpoint.class_names == tuple(names.values())
    found = checkpoint.model_as(VisionTransformer).config
    assert (found.n_heads, found.norm_eps, found.activation) == (6, 1e-3, "gelu_tanh")
    assert found.mean == tuple(clip["image_mean"])
    assert checkpoint.assumptions == ()
    pixels = torch.randn(2, 3, 12, 12).double()
    with torch.no_grad():
        run = original.double()(pixels, output_attentions=True)
    expected = {f"encoder.{i}.self": weights for i, weights in enumerate(run.attentions)} | {"logits": run.logits}
    same(attention_maps(checkpoint, pixels), expected, 1e-5)
    assert report(tmp_path).fits
    with pytest.raises(CheckpointError, match="n_heads"):
        load(tmp_path, n_heads=3)


def test_what_has_no_place_is_refused_by_name_and_what_is_open_is_asked(tmp_path):
    original = scramble(TimmVision(SIZES))
    for name in ("blocks.1.attn.q_norm.weight", "blocks.0.attn.relative_position_bias_table", "stem.weight"):
        found = report(saved(original, tmp_path, **{name: torch.ones(6)}))
        assert list(found.unexpected) == [name], found.text
        assert name in found.doubts
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            load(tmp_path / "model.pth")
    found = report(saved(original, tmp_path, mask_token=torch.ones(1, 30), **{"decoder_embed.weight": torch.ones(3)}))
    assert found.fits
    assert set(found.ignored) == {"mask_token", "decoder_embed.weight"}
    found = report(saved(scramble(TimmVision(replace(SIZES, channels=4))), tmp_path))
    assert not found.fits
    assert "4 channels" in found.text
    # 1 + 15 rows: a square of 16 without a place for the class, which an answer overrules
    torch.manual_seed(3)
    original = scramble(TimmVision(replace(SIZES, grid=(3, 5))))
    path = saved(original, tmp_path)
    assert report(path).config.placed == "none"
    answers: dict[str, Any] = {"placed": "all", "grid_rows": 3, "n_heads": 5}
    with torch.no_grad():
        pixels = pixels_for(replace(SIZES, grid=(3, 5)))
        same(attention_maps(load(path, **answers), pixels), original.double()(pixels))


def test_a_pooled_head_of_its_own_attention_leaves_the_maps_and_no_classes(tmp_path):
    torch.manual_seed(3)
    original = scramble(TimmVision(SIZES))
    path = saved(original, tmp_path, **{"attn_pool.latent": torch.ones(1, 1, 30)})
    found = attention_maps(load(path, n_heads=5), pixels_for(SIZES))
    with torch.no_grad():
        expected = original.double()(pixels_for(SIZES))
    expected.pop("logits")
    same(found, expected)
    assert "logits" not in found


def test_heads_of_published_widths_are_proposed(tmp_path):
    for d, heads in ((192, 3), (384, 6), (1280, 16)):
        with torch.device("meta"):
            state = TimmVision(replace(SIZES, d=d, heads=1, layers=1)).state_dict()
        torch.save({name: torch.zeros(tensor.shape) for name, tensor in state.items()}, tmp_path / "model.pth")
        assert report(tmp_path / "model.pth").config.n_heads == heads


def test_it_becomes_a_folder_of_ours_and_is_checked_against_what_the_original_made(tmp_path):
    torch.manual_seed(3)
    original = scramble(TimmVision(replace(SIZES, registers=2, placed=3)))
    convert(saved(original, tmp_path), tmp_path / "ours", n_heads=5)
    pixels = pixels_for(SIZES)
    with torch.no_grad():
        made = original.double()(pixels)
    np.savez(tmp_path / "expected.npz", pixels=pixels, **{name: values.numpy() for name, values in made.items()})
    expected = read_arrays_file(tmp_path / "expected.npz")
    assert check_contents(load(tmp_path / "ours"), expected).agrees
    assert not check_contents(load(tmp_path / "model.pth", n_heads=5, activation="relu"), expected).agrees
    np.savez(tmp_path / "ids.npz", input=np.arange(5), logits=made["logits"].numpy())
    with pytest.raises(InputError, match="no pixels"):
        check_contents(load(tmp_path / "ours"), read_arrays_file(tmp_path / "ids.npz"))


def test_a_run_on_a_picture_names_its_patches_and_says_what_was_done_to_it(tmp_path):
    sizes = replace(SIZES, leading=("cls_token", "dist_token"), placed=2, distilled=True, channels=3)
    torch.manual_seed(3)
    original = scramble(TimmVision(sizes))
    checkpoint = load(saved(original, tmp_path), n_heads=5, normalisation="clip")
    frame = frame_of(checkpoint)
    assert (frame.rows, frame.columns) == (12, 20)
    photo = drawn(frame)
    run = run_photo(checkpoint, photo)
    mean, deviation = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
    pixels = (torch.tensor(photo.pixels) / 255.0 - torch.tensor(mean)) / torch.tensor(deviation)
    with torch.no_grad():
        expected = original(pixels.permute(2, 0, 1)[None])
    for layer in range(sizes.layers):
        site = f"encoder.{layer}.self"
        assert np.allclose(run.record[site].all_weights(), expected[site][0], atol=1e-4)
    assert np.allclose(run.outputs["logits"], expected["logits"][0], atol=1e-3)
    axis = run.record["encoder.0.self"].keys
    assert axis.labels[:4] == ("[CLS]", "[DIST]", "r1c1", "r1c2")
    assert axis.labels[-1] == "r4c4"
    assert axis.special == (True, True, *[False] * 16)
    grid = on_patches(run.record["encoder.0.self"].row(2, 0), checkpoint.model_as(VisionTransformer).config)
    assert grid[2, 1] == run.record["encoder.0.self"].row(2, 0)[axis.labels.index("r3c2")]
    notes = " ".join(run.record["encoder.0.self"].picture(0).notes)
    assert "12 x 20 pixels" in notes
    assert "0.481455" in notes
    assert "activation='gelu'" in notes
    with pytest.raises(InputError, match="is not what this model reads"):
        run_photo(checkpoint, drawn(replace(frame, rows=15)))
    with pytest.raises(CheckpointError, match="reads pictures"):
        run_any(checkpoint, "5 6 7")
    grey = load(saved(scramble(TimmVision(replace(SIZES, channels=1))), tmp_path), n_heads=5)
    (luma,) = pixels_of(photo, grey.model_as(VisionTransformer).config)[0]
    red, green, blue = photo.pixels[3, 5] / 255
    assert float(luma[3, 5]) == pytest.approx((0.299 * red + 0.587 * green + 0.114 * blue - 0.5) / 0.5, abs=1e-6)

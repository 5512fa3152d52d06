"""Folders of Vision Transformers: equal to the transformers library's own, at sizes that all differ, or refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.vision import SIZES, vit
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.load import listed_architecture
from transformer.checkpoint.safe.arrays import read_arrays_file
from transformer.errors import CheckpointError, InputError
from transformer.models.vision import VisionTransformer
from transformer.pictures.photo import drawn
from transformer.runs.any_model import run_any
from transformer.runs.check import check_contents
from transformer.runs.vision import frame_of, on_patches, pixels_of, run_photo

NAMES = {0: "cat", 1: "dog", 2: "crane", 3: "crane", 4: "tree"}
PIXELS = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(5)).double()


def made(original: Any, pixels: Tensor = PIXELS) -> dict[str, Tensor]:
    """What the library itself computes."""
    with torch.no_grad():
        run = original.double()(pixels, output_attentions=True)
    original.float()
    return {f"encoder.{i}.self": weights for i, weights in enumerate(run.attentions)} | {"logits": run.logits}


def same(found: dict[str, np.ndarray], expected: dict[str, Tensor]) -> None:
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-5, name  # its softmax is in single precision


def test_a_folder_of_the_transformers_library_answers_for_itself(tmp_path: Path) -> None:
    original = vit(NAMES, layer_norm_eps=1e-3, hidden_act="gelu_pytorch_tanh", patch_size=3)
    original.save_pretrained(tmp_path)
    clip = {"image_mean": [0.48145466, 0.4578275, 0.40821073]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(clip))
    checkpoint = load(tmp_path)
    assert checkpoint.architecture == listed_architecture(tmp_path) == "vision"
    assert checkpoint.class_names == tuple(NAMES.values())
    found = checkpoint.model_as(VisionTransformer).config
    assert (found.n_heads, found.norm_eps, found.activation) == (3, 1e-3, "gelu_tanh")
    assert found.mean == tuple(clip["image_mean"])
    assert checkpoint.assumptions == ()
    expected = made(original)
    same(attention_maps(checkpoint, PIXELS), expected)
    assert report(tmp_path).fits
    with pytest.raises(CheckpointError, match="n_heads"):
        load(tmp_path, n_heads=4)
    arrays = {name: values.numpy() for name, values in expected.items()}
    np.savez(tmp_path / "expected.npz", pixels=PIXELS, **arrays)
    assert check_contents(checkpoint, read_arrays_file(tmp_path / "expected.npz"), tolerance=1e-5).agrees
    np.savez(tmp_path / "ids.npz", input=np.arange(5), logits=arrays["logits"])
    with pytest.raises(InputError, match="no pixels"):
        check_contents(checkpoint, read_arrays_file(tmp_path / "ids.npz"))


@pytest.mark.parametrize("change", [{}, {"qkv_bias": False}, {"image_size": (8, 20)}])
def test_deit_has_a_token_and_a_head_more(change: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(3)
    config = transformers.DeiTConfig(**SIZES | change, id2label=NAMES)
    original = scramble(transformers.DeiTForImageClassificationWithTeacher(config))
    original.save_pretrained(tmp_path)
    checkpoint = load(tmp_path)
    grid = checkpoint.model_as(VisionTransformer).config.grid
    pixels = torch.randn(2, 3, *(4 * side for side in grid), generator=torch.Generator().manual_seed(7)).double()
    if change.get("image_size"):  # 10 patches: nearest to a square, as the report says
        assert grid == (2, 5)
    same(attention_maps(checkpoint, pixels), made(original, pixels))


def test_names_of_the_library_s_older_versions_are_read(tmp_path: Path) -> None:
    original = vit(NAMES)
    original.save_pretrained(tmp_path)
    words = {
        "vit.layers.": "vit.encoder.layer.", ".attention.q_proj": ".attention.attention.query",
        ".attention.k_proj": ".attention.attention.key", ".attention.v_proj": ".attention.attention.value",
        ".attention.o_proj": ".attention.output.dense", ".mlp.fc1": ".intermediate.dense",
        ".mlp.fc2": ".output.dense",
    }  # fmt: skip
    state = load_file(tmp_path / "model.safetensors")
    is_new = any(name.startswith("vit.layers.") for name in state)
    renamed = {}
    for name, tensor in state.items():
        called = name
        for new, old in words.items():
            called = called.replace(new, old) if is_new else called.replace(old, new)
        renamed[called] = tensor
    assert renamed.keys() != state.keys()
    save_file(renamed, tmp_path / "model.safetensors", {"format": "pt"})
    same(attention_maps(load(tmp_path), PIXELS), made(original))


def test_what_has_no_place_is_refused_by_name(tmp_path: Path) -> None:
    vit(NAMES).save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    save_file(state | {"vit.stem.weight": torch.ones(6)}, tmp_path / "model.safetensors", {"format": "pt"})
    found = report(tmp_path)
    assert list(found.unexpected) == ["vit.stem.weight"], found.text
    assert "vit.stem.weight" in found.doubts
    with pytest.raises(CheckpointError, match=r"vit\.stem\.weight"):
        load(tmp_path)


def test_the_weights_alone_are_told_to_be_recorded(tmp_path: Path) -> None:
    torch.save(vit(NAMES).state_dict(), tmp_path / "vit.pt")
    found = report(tmp_path / "vit.pt")
    assert (found.layout, str(found.title)) == (None, "a model of images")
    assert found.record


def test_a_run_on_a_picture_names_its_patches_and_says_what_was_done_to_it(tmp_path: Path) -> None:
    original = vit(NAMES)
    original.save_pretrained(tmp_path)
    checkpoint = load(tmp_path)
    frame = frame_of(checkpoint)
    assert (frame.rows, frame.columns) == (12, 12)
    photo = drawn(frame)
    run = run_photo(checkpoint, photo)
    pixels = (torch.tensor(photo.pixels) / 255.0 - 0.5) / 0.5
    expected = made(original, pixels.permute(2, 0, 1)[None].double())
    for site in ("encoder.0.self", "encoder.1.self"):
        assert np.allclose(run.record[site].all_weights(), expected[site][0], atol=1e-4)
    assert np.allclose(run.outputs["logits"], expected["logits"][0], atol=1e-3)
    axis = run.record["encoder.0.self"].keys
    assert axis.labels[:3] == ("[CLS]", "r1c1", "r1c2")
    assert axis.labels[-1] == "r3c3"
    assert axis.special == (True, *[False] * 9)
    grid = on_patches(run.record["encoder.0.self"].row(2, 0), checkpoint.model_as(VisionTransformer).config)
    assert grid[2, 1] == run.record["encoder.0.self"].row(2, 0)[axis.labels.index("r3c2")]
    notes = " ".join(run.record["encoder.0.self"].picture(0).notes)
    assert "12 x 12 pixels" in notes
    assert "normalisation='half'" in notes
    with pytest.raises(InputError, match="is not what this model reads"):
        run_photo(checkpoint, drawn(type(frame)(16, 12, frame.crop)))
    with pytest.raises(CheckpointError, match="reads pictures"):
        run_any(checkpoint, "5 6 7")
    folder = tmp_path / "grey"
    vit(NAMES, num_channels=1).save_pretrained(folder)
    grey = load(folder)
    (luma,) = pixels_of(photo, grey.model_as(VisionTransformer).config)[0]
    red, green, blue = photo.pixels[3, 5] / 255
    assert float(luma[3, 5]) == pytest.approx((0.299 * red + 0.587 * green + 0.114 * blue - 0.5) / 0.5, abs=1e-6)

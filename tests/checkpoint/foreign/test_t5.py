"""T5 and its kin without their config: equal to the paper's in float64, or asked, or refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.t5 import T5
from transformer import attention_maps, load, translate
from transformer.checkpoint import report
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError

SOURCE = torch.randint(3, 31, (2, 13), generator=torch.Generator().manual_seed(3))
TARGET = torch.randint(3, 31, (2, 11), generator=torch.Generator().manual_seed(5))

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "t5": ({"layers": (3, 2), "buckets": 8, "reach": 9}, {"max_distance": 9}),
    "t5 v1.1": (
        {"layers": (2, 3), "buckets": 12, "gated": 1, "act": "gelu_tanh", "untied": 1, "scaled": 0}, {},
    ),
    "umt5": (
        {"layers": (2, 2), "buckets": 6, "gated": 1, "own_tables": 1, "act": "relu", "scaled": 0},
        {"activation": "relu", "scale_output": False},
    ),
    "umt5, untied": (
        {"layers": (2, 2), "buckets": 6, "gated": 1, "own_tables": 1, "act": "gelu_tanh", "scaled": 0, "untied": 1}, {},
    ),
    "the encoder": ({"layers": (3, 0), "buckets": 8}, {}),
}  # fmt: skip


def original(**kind: Any) -> T5:
    torch.manual_seed(7)
    return scramble(T5(31, 14, 5, 3, 17, **kind))


def saved(state: dict[str, Tensor], folder: Path) -> Path:
    torch.save(state, folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin"


@pytest.mark.parametrize("name", KINDS)
def test_it_is_the_paper_s(name, tmp_path):
    kind, answers = KINDS[name]
    made = original(**kind)
    state = {f"model.{key}": tensor for key, tensor in made.state_dict().items()}
    for stack in ("encoder", "decoder")[: 2 if kind["layers"][1] else 1]:
        state[f"model.{stack}.embed_tokens.weight"] = state["model.shared.weight"].clone()
    if name == "t5":  # as early files hold them
        state["model.lm_head.weight"] = state["model.shared.weight"].clone()
        state["model.decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.ones(8, 3)
    path = saved(state, tmp_path)
    found = report(path, **answers)
    assert (found.layout, found.confidence, found.fits) == ("t5", 1.0, True), found.text
    assert ("max_distance=128" in " ".join(found.assumptions)) == ("max_distance" not in answers)
    checkpoint = load(path, **answers)
    assert checkpoint.translates == (kind["layers"][1] > 0)
    targets = TARGET if checkpoint.translates else None
    maps = attention_maps(checkpoint, SOURCE, targets)
    with torch.no_grad():
        expected = made.double()(SOURCE, targets)
    assert maps.keys() == expected.keys()
    for key, values in expected.items():
        assert np.abs(maps[key] - values.numpy()).max() < 1e-9, key


def test_what_has_no_place_is_refused_by_name_and_a_wrong_table_too(tmp_path):
    state = original(layers=(2, 1), buckets=8).state_dict()
    for key in ("encoder.block.0.layer.0.SelfAttention.q.bias", "encoder.prompt.weight", "decoder.pos.weight"):
        found = report(saved(state | {key: torch.ones(15)}, tmp_path))
        assert list(found.unexpected) == [key], found.text
    other = state["shared.weight"].clone() + 1
    found = report(saved(state | {"encoder.embed_tokens.weight": other}, tmp_path))  # not the shared one
    assert list(found.unexpected) == ["encoder.embed_tokens.weight"]
    name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    found = report(saved({key: tensor for key, tensor in state.items() if key != name}, tmp_path))
    assert name in found.missing
    broken = state | {"shared.weight": torch.full((31, 14), torch.nan)}
    with pytest.raises(CheckpointError, match="NaN"):
        load(saved(broken, tmp_path))


def test_it_translates_and_is_no_folder_of_ours(tmp_path):
    path = saved(original(layers=(2, 1), buckets=8).state_dict(), tmp_path)
    run = translate(load(path), "5 6 7 8", forced="9 10 11")
    assert run.record["decoder.0.cross"].weights(1).shape == (4, 5)
    with pytest.raises(CheckpointError, match="is run by the transformers library"):
        convert(path, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()

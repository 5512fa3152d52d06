"""Published layouts, saved by their own code: attention and outputs to 1e-9 in float64."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.checkpoint.references import heads
from transformer import attention_maps, load

REFERENCE = Path(__file__).parents[1] / "fixtures" / "reference"
ANSWERS = ("n_heads", "activation", "norm_first", "pad_id", "bos_id", "eos_id", "scale_embedding")


def _answers(folder: Path) -> dict[str, Any]:
    """At most what is asked, out of what the fixture says of itself."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    about |= heads(folder.name)
    about["bos_id"] = about.get("sos_id", about.get("bos_id"))
    return {name: about[name] for name in ANSWERS if about.get(name) is not None}


@pytest.mark.parametrize("folder", sorted(REFERENCE.iterdir()), ids=lambda folder: folder.name)
def test_every_map_and_output_is_the_original_s(folder):
    expected = load_file(folder / "expected.safetensors")
    inputs = expected.pop("input", None)
    source, target = (inputs, None) if inputs is not None else (expected.pop("source"), expected.pop("target"))
    checkpoint = load(folder, **_answers(folder))
    found = attention_maps(checkpoint, source, target)
    if "weights" in expected:  # a recurrent pair: one sentence, no axis for the batch
        expected = {"decoder.cross": expected["weights"][None, None], "log_probs": expected["log_probs"][None]}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float64
        assert found[name].shape == tuple(values.shape)
        assert np.abs(found[name] - values.numpy()).max() < 1e-9, name


@pytest.mark.parametrize("folder", sorted(REFERENCE.iterdir()), ids=lambda folder: folder.name)
def test_only_heads_and_options_of_torch_s_layers_need_an_answer(folder):
    """Without an answer but what is asked first the file loads too, and says what it assumed."""
    needed, given = {"n_heads", "activation", "norm_first", "scale_embedding"}, _answers(folder)
    assumed = {text.partition("=")[0] for text in load(folder, **heads(folder.name)).assumptions}
    answered = load(folder, **{name: answer for name, answer in given.items() if name in needed})
    assert {text.partition("=")[0] for text in answered.assumptions} == assumed - (needed & given.keys())

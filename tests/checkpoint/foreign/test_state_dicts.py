"""Weights of well-known models without their config: equal to the original in float64, at sizes that all differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.gpt import Gpt
from transformer import attention_maps, load
from transformer.checkpoint import report

IDS = torch.randint(5, 31, (2, 11), generator=torch.Generator().manual_seed(3))


def _saved(original: nn.Module, folder: Path) -> Path:
    torch.save(original.state_dict(), folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin"


def _same(found: dict[str, np.ndarray], expected: dict[str, Tensor]) -> None:
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


@pytest.mark.parametrize("mini", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_nano_and_mini_gpt(bias, mini, tmp_path):
    torch.manual_seed(7)
    original = scramble(Gpt(31, 17, 2, 15, 5, bias, mini))
    state = {"model": {f"_orig_mod.{name}": tensor for name, tensor in original.state_dict().items()}}
    torch.save(state | {"best_val_loss": torch.tensor(1.5), "iter_num": 3}, tmp_path / "ckpt.pt")
    path = tmp_path / "ckpt.pt"
    found = report(path, n_heads=5)
    assert (found.layout, found.confidence) == ("gpt", 1.0)
    with torch.no_grad():
        _same(attention_maps(load(path, n_heads=5), IDS), original.double()(IDS))


SIZES: dict[str, Any] = {"vocab_size": 31, "initializer_range": 0.4}
GPT2 = SIZES | {
    "n_embd": 15, "n_layer": 2, "n_head": 3, "n_inner": 23, "n_positions": 29, "attn_implementation": "eager",
}  # fmt: skip
FAMILIES: dict[str, tuple[Any, Any, str]] = {
    "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config(**GPT2), "gpt"),
    "gpt2 alone": (transformers.GPT2Model, transformers.GPT2Config(**GPT2), "gpt"),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_the_transformers_library_without_its_config(family, tmp_path):
    kind, config, layout = FAMILIES[family]
    torch.manual_seed(11)
    original = scramble(kind(config))
    path = _saved(original, tmp_path)
    found = report(path, n_heads=3)
    assert found.layout == layout
    assert found.fits, found.text
    with torch.no_grad():
        run = original.double()(IDS, output_attentions=True, output_hidden_states=True)
    stack = "decoder" if layout == "gpt" else "encoder"
    expected = {f"{stack}.{i}.self": weights for i, weights in enumerate(run.attentions)}
    if layout == "gpt":
        table = dict(original.named_parameters())["wte.weight" if family == "gpt2 alone" else "transformer.wte.weight"]
        expected["log_probs"] = (run.hidden_states[-1] @ table.detach().T).log_softmax(-1)
    else:
        expected["hidden"] = run.hidden_states[-1]
    _same(attention_maps(load(path, n_heads=3), IDS), expected)


def test_what_these_models_have_not_is_refused_by_name(tmp_path):
    kind, config, _ = FAMILIES["gpt2 alone"]
    state = dict(kind(config).state_dict()) | {"h.0.attn.bias": torch.ones(1, 1, 29, 29)}  # every token sees all
    torch.save(state, tmp_path / "model.bin")
    assert list(report(tmp_path / "model.bin").unexpected) == ["h.0.attn.bias"]

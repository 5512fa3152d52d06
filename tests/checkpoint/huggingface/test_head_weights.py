"""Singular values of heads of other libraries' models, against full products made by hand from the files."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.checkpoint.huggingface.families import write_folder
from transformer import load
from transformer.checkpoint.inspect.circuits import head_circuits

BERT = "bert.encoder.layer.1.attention"
NAMES = {
    "bert": ("encoder.1.self", [f"{BERT}.self.{one}" for one in ("query", "key", "value")] + [f"{BERT}.output.dense"]),
    "bart": ("decoder.2.cross", [f"model.decoder.layers.2.encoder_attn.{one}_proj" for one in ("q", "k", "v", "out")]),
    "t5": ("encoder.1.self", [f"encoder.block.1.layer.0.SelfAttention.{one}" for one in "qkvo"]),
    "llama": ("decoder.1.self", [f"model.layers.1.self_attn.{one}_proj" for one in "qkvo"]),
    "gpt2": ("decoder.1.self", ["transformer.h.1.attn.c_attn", "transformer.h.1.attn.c_proj"]),
}
HEADS = {"bert": (3, 3, 7), "bart": (3, 3, 7), "t5": (3, 3, 7), "llama": (6, 2, 4), "gpt2": (3, 3, 7)}
"""Heads, heads of keys, width of a head."""


@pytest.mark.parametrize("family", NAMES)
def test_heads_have_the_singular_values_of_their_full_products(tmp_path: Path, family: str) -> None:
    folder = write_folder(tmp_path / family, family, tokenizer=False)
    checkpoint = load(folder)
    found = {one.site: one for one in head_circuits(checkpoint.model)}
    assert tuple(found) == checkpoint.sites
    file = {name: value.astype(np.float64) for name, value in load_file(folder / "model.safetensors").items()}
    site, names = NAMES[family]
    maps = [file[f"{name}.weight"] for name in names]
    if family == "gpt2":  # inputs first, and queries, keys and values side by side
        maps = [*np.split(maps[0].T, 3), maps[1].T]
    n_heads, n_keys, width = HEADS[family]
    for head in range(n_heads):
        shared = head * n_keys // n_heads
        q = maps[0][head * width : (head + 1) * width]
        k, v = (one[shared * width : (shared + 1) * width] for one in maps[1:3])
        o = maps[3][:, head * width : (head + 1) * width]
        compares = np.linalg.svd(q.T @ k, compute_uv=False)[:width]
        writes = np.linalg.svd(v.T @ o.T, compute_uv=False)[:width]
        np.testing.assert_allclose(found[site].compares[head], compares, atol=1e-6)
        np.testing.assert_allclose(found[site].writes[head], writes, atol=1e-6)

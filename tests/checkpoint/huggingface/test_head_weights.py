"""Singular values of heads of other libraries' models, against full products made by hand from the files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch.overrides import TorchFunctionMode

from tests.checkpoint.huggingface.families import random_model, write_folder
from transformer import load, recording
from transformer.attention.softmax_inputs import QueriesKeys
from transformer.checkpoint.huggingface.head_weights import JOINT, head_weights
from transformer.checkpoint.huggingface.library import quiet
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


GPT: dict[str, Any] = dict(vocab_size=97, n_positions=41, n_embd=24, n_head=6, n_layer=2, initializer_range=0.4)
READS: dict[str, Any] = dict(vocab_size=97, max_position_embeddings=41, initializer_range=0.4, hidden_size=24)
READS |= dict(num_hidden_layers=2, num_attention_heads=6, intermediate_size=12)
FUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-NeoX": ("GPTNeoXForCausalLM", READS),
    "Bloom": ("BloomForCausalLM", dict(vocab_size=97, hidden_size=24, n_head=6, n_layer=2, initializer_range=0.4)),
    "MPT": ("MptForCausalLM", dict(vocab_size=97, d_model=24, n_heads=6, n_layers=2, max_seq_len=41)),
    "Falcon, a key for all": ("FalconForCausalLM", READS | dict(bias=True)),
    "Falcon, a key a group": ("FalconForCausalLM", READS | dict(new_decoder_architecture=True, num_kv_heads=2)),
    "Phi-3": ("Phi3ForCausalLM", READS | dict(num_key_value_heads=2, pad_token_id=0)),
    "ModernBERT": (
        "ModernBertForMaskedLM", READS | dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
                                              sep_token_id=2),
    ),
    "BigCode, a key for all": ("GPTBigCodeForCausalLM", GPT),
    "BigCode": ("GPTBigCodeForCausalLM", GPT | dict(multi_query=False)),
    "CodeGen": ("CodeGenForCausalLM", GPT | dict(n_embd=32, n_head=8, rotary_dim=4)),
    "GPT-2": ("GPT2LMHeadModel", GPT),
}  # fmt: skip


class Products(TorchFunctionMode):
    """The queries and keys of attention that is written out: factors of products of five positions by five."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in {"matmul", "__matmul__", "bmm", "baddbmm"} and made.shape[-2:] == (5, 5):
            factors = [kwargs["batch1"], kwargs["batch2"]] if kwargs else args[-2:]
            self.seen.append((factors[0], factors[1].transpose(-1, -2)))
        return made

    def of_last(self, n_heads: int) -> tuple[torch.Tensor, ...]:
        return tuple(one.reshape(-1, *one.shape[-2:])[-n_heads:] for one in self.seen[-1])


@pytest.mark.parametrize("family", FUSED)
def test_joint_maps_are_parted_as_the_model_parts_them(tmp_path: Path, family: str) -> None:
    """What each head made of the first token, which no rotation turns: queries, keys, values, and what it wrote."""
    class_name, options = FUSED[family]
    with quiet():
        random_model(class_name, options).save_pretrained(tmp_path)
    model: Any = load(tmp_path).model
    with torch.no_grad():
        for name, one in model.net.named_parameters():
            if name.endswith("bias"):
                one.zero_()
    site = model.sites[1]
    attends = model.attending()[site]
    read: list[torch.Tensor] = []
    wrote: list[torch.Tensor] = []
    joint = next(one for name, one in attends.named_children() if name in {one for one, _ in JOINT})
    last = next(one for name, one in attends.named_children() if name in {one for _, one in JOINT})
    hooks = [
        joint.register_forward_hook(lambda _, given, __: read.append(given[0][0, 0])),
        last.register_forward_hook(lambda _, __, made: wrote.append(made[0, 0])),
    ]
    products = Products()
    with torch.inference_mode(), recording(mixing=True) as seen, products:
        model.run(torch.tensor([[5, 7, 11, 13, 17]]))
    for hook in hooks:
        hook.remove()
    found, kept, mixed = head_weights(model)[site], seen.source(site), seen.mixed(site)[0]
    queries, keys = (kept.q[0], kept.k[0]) if isinstance(kept, QueriesKeys) else products.of_last(kept.n_heads)
    x = read[0].double()
    for head in range(kept.n_heads):
        made = {"query": queries[head, 0], "key": keys[head // (kept.n_heads // len(keys)), 0]}
        made["value"] = mixed.values[0, head // (kept.n_heads // mixed.values.shape[1]), 0]
        for name, expected in made.items():
            np.testing.assert_allclose(getattr(found, name)[head] @ x, expected, atol=1e-4, err_msg=f"{head} {name}")
    heads = mixed.output.detach()[0, :, 0].double()
    np.testing.assert_allclose(torch.einsum("hd,hdo->o", heads, found.output), wrote[0], atol=1e-3)

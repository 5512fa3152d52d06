"""Attention whose keys and values are made of vectors of another width than its queries: equal to torch's own."""

import random
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, scramble
from tests.checkpoint.originals.torch_modules import keep_weights, step_by_step, watch_layers
from transformer import attention_maps, load
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError, ConfigError
from transformer.models.vectors import VectorConfig
from transformer.runs.any_model import run_any


def _vectors(rows: int, width: int, seed: int) -> Tensor:
    return torch.randn(2, rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _agree(found: dict[str, np.ndarray], expected: Maps) -> None:
    for name, values in expected.items():
        assert found[name].shape == tuple(values.shape), name
        assert abs(found[name] - values.numpy()).max() < 1e-9, name


@pytest.mark.parametrize("widths", [(7, 7), (7, 12), (12, 7), (5, 7), (9, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_keys_and_values_of_a_lone_attention_may_be_of_other_widths(widths, bias, tmp_path):
    """Also where both together are as wide as the queries (5 + 7 = 12): it still looks at another sequence."""
    torch.manual_seed(sum(widths))
    keys, values = widths
    original = scramble(nn.MultiheadAttention(12, 3, bias=bias, kdim=keys, vdim=values, batch_first=True))
    path = tmp_path / "model.pt"
    torch.save({f"cross_attn.{name}": tensor for name, tensor in original.state_dict().items()}, path)
    assert "attends" not in {question.name for question in report(path).questions}
    k, v, q = _vectors(4, keys, 1), _vectors(4, values, 2), _vectors(6, 12, 3)
    maps: Maps = {}
    keep_weights(original.double(), maps, "decoder.0.cross")
    with torch.no_grad():
        maps["hidden"] = original(q, k, k if keys == values else v)[0]
    checkpoint = load(path, n_heads=3)
    read = k if keys == values else torch.cat([k, v], dim=2)
    _agree(attention_maps(checkpoint, read, q), maps)
    assert ("side by side" in report(path).text) == (keys != values)
    assert run_any(checkpoint, "3 1 4", forced="2 7").record["decoder.0.cross"].shape == (2, 3)
    convert(path, tmp_path / "ours", n_heads=3)
    _agree(attention_maps(load(tmp_path / "ours"), read, q), maps)


@pytest.mark.parametrize("names", [("to_q", "to_k", "to_v", "to_out"), ("w_qs", "w_ks", "w_vs", "fc")])
def test_a_cross_attention_of_ones_own_reads_another_width(names, tmp_path):
    torch.manual_seed(2)
    heads, d_k, d_v, width = 3, 4, 5, 7
    sizes = ((10, heads * d_k), (width, heads * d_k), (width, heads * d_v), (heads * d_v, 10))
    maps = [nn.Linear(*size, bias=False).double() for size in sizes]
    torch.save({f"{name}.weight": one.weight.data for name, one in zip(names, maps, strict=True)}, tmp_path / "m.pt")
    memory, x = _vectors(6, width, 1), _vectors(4, 10, 2)
    with torch.no_grad():
        given = ((maps[0], x), (maps[1], memory), (maps[2], memory))
        q, k, v = (one(read).unflatten(-1, (heads, -1)).transpose(1, 2) for one, read in given)
        weights = (q @ k.mT / d_k**0.5).softmax(-1)
        hidden = maps[3]((weights @ v).transpose(1, 2).flatten(2))
    found = attention_maps(load(tmp_path / "m.pt", n_heads=heads), memory, x)
    _agree(found, {"decoder.0.cross": weights, "hidden": hidden})


def _decoder(seed: int, norm_first: bool) -> tuple[nn.TransformerDecoder, int, int, int]:
    draw = random.Random(seed)
    heads, width = draw.choice([2, 3]), draw.choice([7, 11])
    d = heads * draw.choice([4, 8])
    layer = nn.TransformerDecoderLayer(d, heads, 17, 0.0, batch_first=True, norm_first=norm_first)
    stack = nn.TransformerDecoder(layer, 2, nn.LayerNorm(d))
    for one in stack.layers:
        one.multihead_attn = nn.MultiheadAttention(d, heads, kdim=width, vdim=width, batch_first=True)
    torch.manual_seed(seed)
    return scramble(stack), heads, d, width


@pytest.mark.parametrize("memory", ["vectors", "zeros"])
def test_a_decoder_reads_a_memory_of_another_width(memory, tmp_path):
    original, heads, d, width = _decoder(3 if memory == "zeros" else 4, memory == "zeros")
    torch.save(original.state_dict(), tmp_path / "model.pt")
    answers = dict(n_heads=heads, memory=memory, norm_first=memory == "zeros")
    assert {q.name: q.options for q in report(tmp_path / "model.pt").questions}["memory"] == ("vectors", "zeros")
    checkpoint = load(tmp_path / "model.pt", **answers)
    x, maps = _vectors(5, d, 3), Maps()
    with torch.no_grad(), step_by_step():
        watch_layers((), original.double().layers, maps)
        rows = checkpoint.model.memory.data.double() if memory == "vectors" else torch.zeros(5, width).double()
        future = torch.ones(5, 5, dtype=torch.bool).triu(1)
        maps["hidden"] = original(x, rows.expand(2, -1, -1), tgt_mask=future)
    _agree(attention_maps(checkpoint, x), maps)


def test_a_memory_of_another_width_may_be_brought(tmp_path):
    original, heads, d, width = _decoder(5, False)
    torch.save(original.state_dict(), tmp_path / "model.pt")
    given = {"memory": _vectors(3, width, 8)[0].float(), "x": _vectors(4, d, 9)[0].float()}
    np.savez(tmp_path / "vectors.npz", **{name: rows.numpy() for name, rows in given.items()})
    with (tmp_path / "model.pt").open("rb") as weights, (tmp_path / "vectors.npz").open("rb") as vectors:
        checkpoint = bundle({"model.pt": weights, "vectors.npz": vectors}).checkpoint({"n_heads": heads})
    maps: Maps = {}
    with torch.no_grad(), step_by_step():
        watch_layers((), original.double().layers, maps)
        future = torch.ones(4, 4, dtype=torch.bool).triu(1)
        read = {name: rows.double()[None] for name, rows in given.items()}
        maps["hidden"] = original(read["x"], read["memory"], tgt_mask=future)
    _agree(attention_maps(checkpoint, [[0, 1, 2, 3]]), maps)


def test_a_pair_whose_halves_are_of_two_widths_is_refused_by_them(tmp_path):
    decoder, _, d, width = _decoder(6, False)
    layer = nn.TransformerEncoderLayer(width, 1, 13, 0.0, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = nn.TransformerEncoder(layer, 1)
    torch.save(nn.ModuleDict({"encoder": encoder, "decoder": decoder}).state_dict(), tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=f"its encoder is {width} numbers wide and its decoder {d}"):
        load(tmp_path / "model.pt")
    with pytest.raises(ConfigError, match="d_memory=5"):
        VectorConfig("decoder", 4, 4, 6, 2, n_decoder_layers=1, memory="inputs", d_memory=5)

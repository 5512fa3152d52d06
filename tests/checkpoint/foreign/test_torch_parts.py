"""Torch's layers with parts of them left out: one norm after two stacks, attention without biases."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import loaded, scramble
from tests.checkpoint.originals.torch_around import Around, Pair
from transformer import DecodingOptions, attention_maps, translate
from transformer.checkpoint import report
from transformer.errors import InputError

VOCAB, TARGETS, D, HEADS, D_FF = 23, 29, 12, 3, 17
IDS = torch.randint(1, VOCAB, (2, 7), generator=torch.Generator().manual_seed(1))


def _core() -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Transformer(D, HEADS, 2, 1, D_FF, 0.0, batch_first=True)


def _pair(core: nn.Transformer) -> Pair:
    parts = {"src_tok_emb": nn.Embedding(VOCAB, D), "tgt_tok_emb": nn.Embedding(TARGETS, D), "transformer": core,
             "generator": nn.Linear(D, TARGETS)}  # fmt: skip
    roles = {"source_embedding": "src_tok_emb", "target_embedding": "tgt_tok_emb", "core": "transformer",
             "projection": "generator"}  # fmt: skip
    return Pair(parts, roles)


def _same(original: nn.Module, path: Path, inputs: tuple[Tensor, ...], **answers: object) -> None:
    torch.save(scramble(original).state_dict(), path)
    found = attention_maps(loaded(path, n_heads=HEADS, pad_id=-1, **answers), *inputs)
    with torch.no_grad():
        expected = original.double()(*inputs)
    assert expected
    for name, values in expected.items():
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


def test_attention_without_bias_in_an_encoder(tmp_path):
    layer = nn.TransformerEncoderLayer(D, HEADS, D_FF, 0.0, batch_first=True)
    layer.self_attn = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
    layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D), enable_nested_tensor=False)
    original = Around({"token": nn.Embedding(VOCAB, D), "encoder": layers}, (), False, True)
    _same(original, tmp_path / "model.pt", (IDS,), scale_embedding=False)


def test_attention_without_bias_in_a_pair(tmp_path):
    core = _core()
    for layer in (*core.encoder.layers, *core.decoder.layers):
        layer.self_attn = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
    for layer in core.decoder.layers:
        layer.multihead_attn = nn.MultiheadAttention(D, HEADS, bias=False, batch_first=True)
    _same(_pair(core), tmp_path / "model.pt", (IDS, IDS[:, :5]))


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_one_final_norm_of_two(stack, tmp_path):
    core = _core()
    getattr(core, stack).norm = None
    _same(_pair(core), tmp_path / "model.pt", (IDS, IDS[:, :5]))
    assert loaded(tmp_path / "model.pt", n_heads=HEADS).model.config.without_norm == stack


def test_each_side_has_the_positions_of_its_own_table(tmp_path):
    torch.manual_seed(2)
    rows = {"src_pos": 11, "tgt_pos": 13}
    tables = {name: nn.Embedding(count, D) for name, count in rows.items()}
    parts = {"src_tok_emb": nn.Embedding(VOCAB, D), "tgt_tok_emb": nn.Embedding(TARGETS, D), "transformer": _core(),
             "generator": nn.Linear(D, TARGETS), **tables}  # fmt: skip
    roles = {"source_embedding": "src_tok_emb", "target_embedding": "tgt_tok_emb", "core": "transformer",
             "projection": "generator", "source_positions": "src_pos", "target_positions": "tgt_pos"}  # fmt: skip
    original, path = scramble(Pair(parts, roles)), tmp_path / "model.pt"
    torch.save(original.state_dict(), path)
    source, target = torch.randint(1, VOCAB, (1, 11)), torch.randint(1, TARGETS, (1, 13))
    checkpoint = loaded(path, n_heads=HEADS, eos_id=-1)
    found = attention_maps(checkpoint, source, target)
    with torch.no_grad():
        for name, values in original.double()(source, target).items():
            assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name
    assert "a source has at most 11 positions, a target at most 13" in report(path).text
    with pytest.raises(InputError, match="the text has 12 tokens, this checkpoint reads at most 11"):
        translate(checkpoint, " ".join("1" * 12))
    assert len(translate(checkpoint, "1 2", DecodingOptions(beam=1, max_length=40)).steps) == 13
    assert len(translate(checkpoint, "1 2", forced=" ".join("1" * 12)).steps) == 12

"""Masks, tables of positions and stacks of blocks, against their definitions."""

import json
import math
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.checkpoint.ours.retired import current_options
from transformer.nn import masks
from transformer.nn.attention import DotProductAttention
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.masks import Mask
from transformer.nn.positions import SinusoidalPositions, TablePositions, sinusoidal_table
from transformer.nn.seq2seq import Seq2SeqConfig

IDS = torch.tensor([[5, 6, 7, 0, 0], [5, 6, 7, 8, 9]])
CPU = torch.device("cpu")


def test_no_padding_costs_no_mask() -> None:
    assert masks.padding(IDS[1:], pad_id=0).keys is None
    assert masks.padding(IDS[1:], pad_id=0).dense(3, 5, CPU) is None


def test_padding_hides_padding_from_every_query() -> None:
    visible = masks.padding(IDS, pad_id=0).dense(3, 5, CPU)
    assert visible is not None
    assert visible.shape == (2, 1, 1, 5)
    assert visible[:, 0, 0].tolist() == [[True, True, True, False, False], [True] * 5]


def test_causal_hides_the_future_and_padding() -> None:
    visible = masks.causal(IDS, pad_id=0).dense(5, 5, CPU)
    assert visible is not None
    for batch in range(2):
        for query in range(5):
            for key in range(5):
                expected = key <= query and int(IDS[batch, key]) != 0
                assert bool(visible[batch, 0, query, key]) is expected


def test_fewer_queries_than_keys_are_the_last_ones() -> None:
    visible = Mask(causal=True).dense(2, 5, CPU)
    assert visible is not None
    assert visible[0, 0].tolist() == [[True, True, True, True, False], [True] * 5]


def test_a_part_is_a_part_of_the_dense_mask() -> None:
    for mask in (masks.padding(IDS, 0), masks.causal(IDS, 0), Mask(causal=True)):
        dense = mask.dense(5, 5, CPU)
        assert dense is not None
        for batch in range(2):
            whole = dense.expand(2, 1, 5, 5)[batch, 0]
            part = mask.part(slice(1, 4), slice(2, 5), 5, 5, batch)
            assert part is not None
            assert torch.equal(part.expand(3, 3), whole[1:4, 2:5])


@pytest.mark.parametrize("n_queries", [2, 5, 7])
def test_before_the_edge_all_is_visible_and_after_it_nothing(n_queries: int) -> None:
    for mask in (Mask(), masks.padding(IDS, 0), masks.causal(IDS, 0), Mask(causal=True)):
        dense = mask.dense(n_queries, 5, CPU)
        for rows in (slice(0, 1), slice(1, 2), slice(0, n_queries)):
            edge = mask.visible_range(rows, n_queries, 5)
            whole = torch.ones(1, 1, n_queries, 5, dtype=torch.bool) if dense is None else dense
            seen = whole.expand(-1, 1, n_queries, 5)[:, 0, rows]
            assert seen[..., : edge.start].all()
            assert not seen[..., edge.stop :].any()


def test_fused_causal_equals_dense_causal() -> None:
    q, k, v = torch.randn(3, 2, 3, 5, 7, dtype=torch.float64).unbind(0)
    core = DotProductAttention(d_k=7).eval()
    fused = core(q, k, v, Mask(causal=True))
    dense = core(q, k, v, Mask(keys=torch.ones(2, 5, dtype=torch.bool), causal=True))
    torch.testing.assert_close(fused, dense, rtol=0, atol=1e-14)


def test_a_query_that_sees_nothing_returns_zeros() -> None:
    q, k, v = torch.randn(3, 1, 2, 3, 5, dtype=torch.float64).unbind(0)
    output = DotProductAttention(d_k=5).eval()(q, k, v, Mask(keys=torch.zeros(1, 3, dtype=torch.bool)))
    assert torch.equal(output, torch.zeros_like(output))


def test_every_entry_is_the_formula_of_the_paper() -> None:
    table = sinusoidal_table(11, 7)
    for position in range(11):
        for dimension in range(7):
            angle = position / 10_000 ** ((dimension - dimension % 2) / 7)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert abs(float(table[position, dimension]) - expected) < 1e-12


def test_start_continues_where_an_earlier_call_ended() -> None:
    x = torch.zeros(1, 5, 6, dtype=torch.float64)
    for positions in (SinusoidalPositions(6, ready=2).double(), TablePositions(6, 5, learned=True).double()):
        whole = positions(x)
        assert torch.equal(positions(x[:, 3:], start=3), whole[:, 3:])


def test_a_stored_table_is_not_trained_and_a_learned_one_is() -> None:
    assert TablePositions(4, 3, learned=True).table.requires_grad
    assert not TablePositions(4, 3, learned=False).table.requires_grad


CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"


def test_a_block_has_the_head_sizes_of_its_config():
    assert Seq2SeqConfig(source_vocab=3, target_vocab=5, d_model=30, n_heads=5, d_k=11).head_sizes == (11, 6)
    attention = Encoder(EncoderConfig(vocab=3, d_model=30, n_heads=5, d_v=7, attention_bias=False)).encoder[0]
    assert attention.self_attention.query.weight.shape == (5 * 6, 30)
    assert attention.self_attention.value.weight.shape == (5 * 7, 30)
    assert attention.self_attention.output.bias is None


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_the_config_of_a_shipped_checkpoint_is_written_as_it_was_read(path):
    about = json.loads(path.read_text(encoding="utf-8"))
    _, config_type = ARCHITECTURES[about["architecture"]]
    options = current_options(about["architecture"], about["config"])  # without retired ones that change nothing
    assert set(options) <= {field.name for field in fields(config_type)}
    written = json.loads(json.dumps(asdict(config_type(**options))))
    assert {name: written[name] for name in options} == options

"""Configs of shipped checkpoints are written as they were read; heads of no given size share the width."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.seq2seq import Seq2SeqConfig

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
    assert set(about["config"]) <= {field.name for field in fields(config_type)}
    written = json.loads(json.dumps(asdict(config_type(**about["config"]))))
    assert {name: written[name] for name in about["config"]} == about["config"]

"""What configs share adds no option to any: their fields, their order and their defaults are their own."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from transformer.checkpoint.checkpoint import ARCHITECTURES
from transformer.layers.blocks import BlockConfig
from transformer.models.encoder import EncoderConfig
from transformer.models.kmer import KmerConfig
from transformer.models.seq2seq import Seq2SeqConfig

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"
SIZES = dict(d_model=30, n_heads=5, d_ff=7, dropout=0.25, attention_dropout=0.125, norm_eps=1e-3, activation="gelu")


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (
            Seq2SeqConfig(source_vocab=3, target_vocab=5, d_k=11, norm="annotated", attention_bias=False, **SIZES),
            dict(d_k=11, d_v=6, norm="annotated", attention_bias=False, norm_first=False),
        ),
        (
            EncoderConfig(vocab=3, norm="annotated", attention_bias=False, norm_first=True, **SIZES),
            dict(d_k=6, d_v=6, norm="annotated", attention_bias=False, norm_first=True),
        ),
        (
            KmerConfig(vocab=3, n_classes=2, norm_first=True, **SIZES),
            dict(d_k=6, d_v=6, norm="torch", attention_bias=True, norm_first=True),
        ),
    ],
    ids=["seq2seq", "encoder", "kmer"],
)
def test_a_block_gets_the_options_of_its_model(config, own):
    assert config.block == BlockConfig(**(SIZES | own))


@pytest.mark.parametrize("path", sorted(CHECKPOINTS.glob("*/config.json")), ids=lambda path: path.parent.name)
def test_the_config_of_a_shipped_checkpoint_is_written_as_it_was_read(path):
    about = json.loads(path.read_text(encoding="utf-8"))
    _, config_type = ARCHITECTURES[about["architecture"]]
    assert set(about["config"]) <= {field.name for field in fields(config_type)}
    written = json.loads(json.dumps(asdict(config_type(**about["config"]))))
    assert {name: written[name] for name in about["config"]} == about["config"]
    assert [name for name in written if name in about["config"]] == list(about["config"])

"""A `model.safetensors` of this project is read with its config.json alone."""

import io
import json
from pathlib import Path

import pytest
import torch

from tests.checkpoint.originals.common import scramble
from transformer import load
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.ours.folder import save_folder
from transformer.errors import CheckpointError
from transformer.nn.decoder import Decoder, DecoderConfig
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.kmer import KmerClassifier, KmerConfig
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig

MODELS = {
    "seq2seq": Seq2Seq(
        Seq2SeqConfig(
            source_vocab=11, target_vocab=13,
            d_model=6, n_heads=2, d_k=5, d_v=7, d_ff=10, n_encoder_layers=2, n_decoder_layers=1,
            positions="learned", max_length=17, bos_id=1, eos_id=2, norm_after_stack=True,
            without_norm="encoder", activation="silu",
        )
    ),
    "encoder": Encoder(
        EncoderConfig(
            vocab=11, d_model=6, n_heads=2, d_ff=10, n_layers=2, head=(5, 3), head_reads="first",
            attention_scale=6**-0.5,
        )
    ),
    "decoder": Decoder(
        DecoderConfig(
            vocab=11, d_model=6, n_heads=2, d_ff=10, n_layers=3, max_length=7, rotary=1, projection_bias=True,
            norm_after_embedding=True, attention_bias=False,
        )
    ),
    "kmer": KmerClassifier(
        KmerConfig(
            vocab=11, n_classes=3, d_model=6, n_heads=2, d_ff=10, n_layers=1, widths=(2,), pooling="attention",
            n_questions=5, d_hidden=9,
        )
    ),
    "recurrent": Recurrent(RecurrentConfig(11, 13, hidden=6, d_embedding=5, bidirectional=True, deep_output=True)),
}  # fmt: skip


@pytest.fixture(params=MODELS)
def folder(request, tmp_path: Path) -> Path:
    model = scramble(MODELS[request.param])
    save_folder(tmp_path / request.param, request.param, model, languages=("old", "new"), half=False)
    return tmp_path / request.param


def test_without_its_config_it_is_refused_by_name(folder):
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"of Heedmap\.\s+because its config\.json, which says"):
        load(folder)


def test_brought_with_its_config_nothing_is_asked(folder):
    files = {name: io.BytesIO((folder / name).read_bytes()) for name in ("model.safetensors", "config.json")}
    brought = bundle(files)
    assert not brought.recognised({}).report.questions
    made = brought.checkpoint({})
    assert made.model.config == load(folder).model.config
    assert made.languages == ("old", "new")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architecture": "seq2seq", "config": {"d_model": 10**9}}, "does not describe a known model|the weights hold"),
        ({"architecture": "nothing", "config": {}}, "does not describe a known model"),
        ([1, 2], "no table of names"),
    ],
)
def test_a_config_that_the_weights_cannot_be_is_refused(folder, config, message):
    files = {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": (folder / "model.safetensors").read_bytes(),
    }
    with pytest.raises(CheckpointError, match=message):
        bundle({name: io.BytesIO(data) for name, data in files.items()}).checkpoint({})


def test_double_precision_stays_what_it_is(tmp_path):
    model = scramble(MODELS["seq2seq"]).double()
    save_folder(tmp_path, "seq2seq", model, half=False)
    again = load(tmp_path).model
    assert {p.dtype for p in again.parameters()} == {torch.float64}
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))

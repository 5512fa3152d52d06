"""Recurrent pairs as tutorials write them: equal to the originals in float64, in one file, in two, under any keys."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.checkpoint.originals import rnn_tutorials as originals
from tests.checkpoint.originals.common import scramble
from transformer import attention_maps, load, translate
from transformer.checkpoint import report
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.load import read
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError
from transformer.explain.diagrams.of_model import architecture
from transformer.nn.search import DecodingOptions
from transformer.safe.limits import DEFAULT_LIMITS

SOURCE = torch.randint(3, 31, (2, 7), generator=torch.Generator().manual_seed(5))
TARGET = torch.randint(3, 37, (2, 5), generator=torch.Generator().manual_seed(7))


def _chatbot(method: str, net: Any, name: str, layers: int) -> tuple[nn.Module, nn.Module]:
    return (
        originals.ChatbotEncoder(31, 13, layers, net, name),
        originals.ChatbotDecoder(37, 13, layers, net, name, method),
    )


PAIRS: dict[str, Any] = {
    "rnn-d2l": lambda: (originals.D2lEncoder(31, 11, 13, 2), originals.D2lDecoder(37, 11, 13, 2)),
    "rnn-d2l one layer": lambda: (originals.D2lEncoder(31, 11, 13, 1), originals.D2lDecoder(37, 11, 13, 1)),
    "rnn-chatbot dot": lambda: _chatbot("dot", nn.GRU, "gru", 2),
    "rnn-chatbot general": lambda: _chatbot("general", nn.GRU, "gru", 3),
    "rnn-chatbot concat": lambda: _chatbot("concat", nn.GRU, "gru", 2),
    "rnn-chatbot lstm": lambda: _chatbot("general", nn.LSTM, "lstm", 2),
    "rnn-tutorial-1 layers": lambda: (originals.StackedEncoder(31, 13, 3), originals.StackedDecoder(37, 13, 3, 9)),
}  # fmt: skip


def _made(name: str) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(3)
    encoder, decoder = PAIRS[name]()
    return scramble(encoder), scramble(decoder)


def _same(path: Path, encoder: nn.Module, decoder: nn.Module) -> None:
    with torch.no_grad():
        expected = originals.run(encoder.double(), decoder.double(), SOURCE, TARGET)
    answers = {} if path.is_dir() else {"pad_id": -1}
    found = attention_maps(load(path, **answers), SOURCE, TARGET)
    assert found.keys() == expected.keys()
    for site, values in expected.items():
        assert found[site].shape == tuple(values.shape)
        assert np.abs(found[site] - values.numpy()).max() < 1e-9, site


@pytest.mark.parametrize("name", PAIRS)
def test_a_tutorial_s_pair_is_the_original(name, tmp_path):
    encoder, decoder = _made(name)
    path = tmp_path / "model.pt"
    torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, path)
    found = report(path)
    assert (found.layout, found.fits) == (name.partition(" ")[0], True), found.text
    assert {question.name for question in found.questions} - {"query_layer"} == {"pad_id", "bos_id", "eos_id"}
    _same(path, encoder, decoder)
    model = load(path, pad_id=-1).model
    owned = [part for node in architecture(model).nodes for part in node.owns]
    assert sorted(owned) == sorted(part for part, _ in model.named_parameters())


def test_the_chatbot_tutorial_s_own_file(tmp_path):
    """Its `.tar`: the halves under `en` and `de`, the shared embedding and two optimisers beside them."""
    encoder, decoder = _made("rnn-chatbot dot")
    saved = {
        "iteration": 4000, "en": encoder.state_dict(), "de": decoder.state_dict(), "loss": 2.5,
        "en_opt": torch.optim.Adam(encoder.parameters()).state_dict(),
        "voc_dict": {"name": "films", "word2index": {"hi": 3}, "index2word": {3: "hi"}},
        "embedding": {"weight": decoder.embedding.weight.detach()},
    }  # fmt: skip
    torch.save(saved, tmp_path / "4000_checkpoint.tar")
    _same(tmp_path / "4000_checkpoint.tar", encoder, decoder)


def test_one_module_of_both_with_its_own_prefix(tmp_path):
    encoder, decoder = _made("rnn-d2l")
    whole = nn.Module()
    whole.encoder, whole.decoder = encoder, decoder
    torch.save({"model_state_dict": {f"seq2seq.{k}": v for k, v in whole.state_dict().items()}}, tmp_path / "tut3.pt")
    _same(tmp_path / "tut3.pt", encoder, decoder)


def test_it_is_translated_converted_and_read_again(tmp_path):
    encoder, decoder = _made("rnn-chatbot lstm")
    torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, tmp_path / "model.pt")
    found = translate(load(tmp_path / "model.pt"), "5 7 9", DecodingOptions(max_length=5, beam=2))
    assert found.record["decoder.cross"].shape[1] == 4  # the end id is appended
    convert(tmp_path / "model.pt", tmp_path / "ours", pad_id=-1)
    _same(tmp_path / "ours", encoder, decoder)
    (tmp_path / "ours" / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"its config\.json, which says what it computes"):
        load(tmp_path / "ours" / "model.safetensors")


@pytest.mark.parametrize("names", [("attn_encoder_final.pth", "attn_decoder_final.pth"), ("dec_9.pkl", "enc_9.pkl")])
def test_halves_in_files_of_other_names(names, tmp_path):
    encoder, decoder = _made("rnn-d2l")
    for name in names:
        torch.save((encoder if "enc" in name else decoder).state_dict(), tmp_path / name)
    with torch.no_grad():
        expected = originals.run(encoder.double(), decoder.double(), SOURCE, TARGET)
    found = attention_maps(load(tmp_path), SOURCE, TARGET)
    assert np.abs(found["decoder.cross"] - expected["decoder.cross"].numpy()).max() < 1e-9
    streams = {name: (tmp_path / name).open("rb") for name in names}
    brought = bundle(streams)
    for stream in streams.values():
        stream.close()
    assert brought.contents.tensors.keys() == read(tmp_path, DEFAULT_LIMITS).tensors.keys()


def test_halves_of_other_depths_are_refused(tmp_path):
    torch.manual_seed(3)
    halves = originals.D2lEncoder(31, 11, 13, 3), originals.D2lDecoder(37, 11, 13, 2)
    torch.save({"encoder": halves[0].state_dict(), "decoder": halves[1].state_dict()}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="the encoder has 3 layers, the decoder 2"):
        load(tmp_path / "model.pt")

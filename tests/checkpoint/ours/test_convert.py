"""Conversion to our own folders keeps every number; uploads are read as files are."""

import io
import json

import pytest
import torch
from safetensors.torch import load_file

from tests.checkpoint.references import LAYOUTS, REFERENCE, heads, reference_file
from transformer import attention_maps, load
from transformer.checkpoint.load import read, read_uploads
from transformer.checkpoint.ours.convert import convert
from transformer.errors import CheckpointError
from transformer.safe.fingerprints import fingerprint, fingerprint_of
from transformer.safe.limits import DEFAULT_LIMITS


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_converted_checkpoint_computes_the_same(name, tmp_path):
    inputs = load_file(REFERENCE / name / "expected.safetensors")
    source = inputs["source"] if "source" in inputs else inputs["input"]
    target = inputs.get("target")
    converted = convert(REFERENCE / name, tmp_path / "out", **heads(name))
    again = load(tmp_path / "out")
    assert again.model.config == converted.model.config
    assert again.guesses == converted.guesses  # a config states no assumption as a fact
    assert "assumed, since the file does not say" in again.guesses[0]
    before, after = (attention_maps(checkpoint, source, target) for checkpoint in (converted, again))
    assert before.keys() == after.keys()
    assert all((before[site] == after[site]).all() for site in before)


def test_the_card_says_where_it_comes_from_and_what_was_assumed(tmp_path):
    convert(reference_file("annotated"), tmp_path / "mine", half=True, n_heads=3)
    card = (tmp_path / "mine" / "CARD.md").read_text(encoding="utf-8")
    assert fingerprint_of([reference_file("annotated")]) in card
    assert "The Annotated Transformer" in card
    assert "pad_id=0 is assumed" in card
    assert "n_heads" not in card
    config = json.loads((tmp_path / "mine" / "config.json").read_text(encoding="utf-8"))
    assert config["config"]["n_heads"] == 3
    assert load_file(tmp_path / "mine" / "model.safetensors")["projection.bias"].dtype == torch.float16


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "here.txt").write_text("keep me", encoding="utf-8")
    with pytest.raises(CheckpointError, match="holds something already"):
        convert(reference_file("annotated"), tmp_path)


def test_uploads_are_read_as_files_are():
    folder = REFERENCE / "rnn-tutorial-1"
    uploads = {name: io.BytesIO((folder / name).read_bytes()) for name in ("decoder.pt", "encoder.pt")}
    found, expected = read_uploads(uploads), read(folder, DEFAULT_LIMITS)
    assert found.tensors.keys() == expected.tensors.keys()
    one = read_uploads({"any name.pt": io.BytesIO(reference_file("kmer").read_bytes())})
    assert one.tensors.keys() == read(reference_file("kmer"), DEFAULT_LIMITS).tensors.keys()
    assert fingerprint([io.BytesIO(reference_file("kmer").read_bytes())]) == fingerprint_of([reference_file("kmer")])


@pytest.mark.parametrize(
    "names", [(), ("a.pt", "b.pt"), ("encoder.pt", "decoder.pt", "more.pt"), ("encoder.pt", "encoder.pth")]
)
def test_uploads_that_are_no_pair_are_refused(names):
    data = (REFERENCE / "rnn-tutorial-1" / "encoder.pt").read_bytes()
    with pytest.raises(CheckpointError, match="bring one file"):
        read_uploads({name: io.BytesIO(data) for name in names})

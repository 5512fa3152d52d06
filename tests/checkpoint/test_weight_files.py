"""Which files of a folder, or of an upload, are one model's."""

import io

import pytest
import torch
from safetensors.torch import save_file

from tests.checkpoint.references import reference_file, weights
from transformer import load
from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.load import read, read_uploads
from transformer.checkpoint.weight_files import parts_of
from transformer.errors import CheckpointError
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits

SHARDS = [f"model-0000{i}-of-00003" for i in (1, 2, 3)]


@pytest.fixture(params=["safetensors", "bin"])
def sharded(request, tmp_path):
    """A checkpoint of a known layout in three shards, with the list of what lies where; and its tensors."""
    tensors = weights("annotated")
    names = list(tensors)
    for i, stem in enumerate(SHARDS):
        part = {name: tensors[name].contiguous() for name in names[i::3]}
        path = tmp_path / f"{stem}.{request.param}"
        if request.param == "bin":
            torch.save(part, path)
        else:
            save_file({name: tensor.clone() for name, tensor in part.items()}, path)
    (tmp_path / f"model.{request.param}.index.json").write_text('{"weight_map": {}}')
    return tmp_path, request.param


def test_shards_are_one_model(sharded):
    folder, ending = sharded
    expected = read(reference_file("annotated"), DEFAULT_LIMITS).tensors
    for path in (folder, folder / f"{SHARDS[1]}.{ending}"):
        found = read(path, DEFAULT_LIMITS).tensors
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert load(folder, n_heads=3).architecture == "seq2seq"
    files = {file.name: io.BytesIO(file.read_bytes()) for file in folder.iterdir()}
    brought = bundle(files)
    assert (brought.name, brought.contents.tensors.keys()) == ("model", expected.keys())
    assert not brought.vocabularies


def test_shards_that_are_missing_too_large_or_of_two_models_are_refused(sharded):
    folder, ending = sharded
    size = sum(file.stat().st_size for file in folder.iterdir())
    with pytest.raises(CheckpointError, match=r"MB|bytes"):
        read(folder, ReadLimits(file_bytes=size // 2))
    first = (folder / f"{SHARDS[0]}.{ending}").read_bytes()
    with pytest.raises(CheckpointError, match="twice"):
        read_uploads({f"{stem}.{ending}": io.BytesIO(first) for stem in SHARDS})
    (folder / f"{SHARDS[2]}.{ending}").unlink()
    for path in (folder, folder / f"{SHARDS[0]}.{ending}"):
        with pytest.raises(CheckpointError, match="2 of the 3 shards of model are there"):
            read(path, DEFAULT_LIMITS)
    (folder / f"{SHARDS[1]}.{ending}").unlink()
    with pytest.raises(CheckpointError, match="1 of the 3 shards of model is there"):
        read(folder, DEFAULT_LIMITS)


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["any.pt"], {"": "any.pt"}),
        (["my_decoder.pt", "my_encoder.pt"], {"encoder": "my_encoder.pt", "decoder": "my_decoder.pt"}),
        (["EncoderRNN.pt", "DecoderRNN.pt"], {"encoder": "EncoderRNN.pt", "decoder": "DecoderRNN.pt"}),
        (["a_encoder.pt", "b_decoder.pt"], None),
        (["encoder.pt", "encoder2.pt"], None),
        (["encoder.pt", "decoder.pt", "model.pt"], None),
        (["a-00001-of-00002.bin", "b-00002-of-00002.bin"], None),
        (["frequency_enc.pt", "frequency_dec.pt"], {"encoder": "frequency_enc.pt", "decoder": "frequency_dec.pt"}),
        (["cadence.pt", "dense.pt"], None),
    ],
)
def test_names_tell_which_part_a_file_holds(names, parts):
    assert parts_of(names) == parts

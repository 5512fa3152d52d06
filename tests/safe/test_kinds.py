"""Files that are no weights are named for what they are; plain values beside the weights are passed over by name."""

import collections
import datetime
import io
import pathlib
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from transformer.checkpoint.foreign.bundle import bundle
from transformer.checkpoint.foreign.recognition import recognise
from transformer.checkpoint.weight_files import LIKE_WEIGHTS
from transformer.errors import CheckpointError
from transformer.safe.contents import Contents
from transformer.safe.reading import read_stream

STATE = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}


def _tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("model.pt"), io.BytesIO())
    return held.getvalue()


def _npy() -> bytes:
    held = io.BytesIO()
    np.save(held, np.zeros(3))
    return held.getvalue()


def _zip(name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(name, b"x")
    return held.getvalue()


KINDS = {
    "npz of numpy": _zip("weight.npy"),
    "model of Keras": _zip("metadata.json"),
    "git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
    "GGUF": b"GGUF\x03\x00\x00\x00" + bytes(40),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "ONNX": b"\x08\x08\x12\x07pytorch\x1a\x052.9.0" + bytes(40),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "PDF": b"%PDF-1.7\n",
    "packed archive": _tar(),
    "array of numpy": _npy(),
    "web page": b"\n<!DOCTYPE html><html><head>",
}


@pytest.mark.parametrize("ending", LIKE_WEIGHTS)
def test_what_else_people_bring_is_read_or_named(ending):
    state = io.BytesIO()
    torch.save(STATE, state)
    assert bundle({f"model{ending}": state}).contents.tensors.keys() == STATE.keys()
    with pytest.raises(CheckpointError, match="it is a GGUF file"):
        bundle({f"model{ending}": io.BytesIO(KINDS["GGUF"])})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_a_file_of_another_kind_is_named_for_what_it_is(kind, name):
    with pytest.raises(CheckpointError) as refused:
        read_stream(io.BytesIO(KINDS[kind]), name)
    said = str(refused.value)
    assert kind in said
    assert said.startswith(f"{name} is refused")
    assert "Remedy: " in said


def read(root: object, legacy: bool = False) -> Contents:
    stream = io.BytesIO()
    torch.save(root, stream, _use_new_zipfile_serialization=not legacy)
    return read_stream(stream, "upload.pt")


BESIDE = {
    "numpy._core.multiarray.scalar": np.float64(0.3),
    "numpy._core.multiarray._reconstruct": np.arange(6).reshape(2, 3),
    "datetime.datetime": datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
    "datetime.timedelta": datetime.timedelta(days=1),
    "pathlib.PosixPath": pathlib.PosixPath("a/b"),
    "__builtin__.set": {1, 2},
    "collections.deque": collections.deque([1, 2], maxlen=5),
    "collections.Counter": collections.Counter("abca"),
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kind", BESIDE)
def test_plain_values_beside_the_weights_are_passed_over_by_name(kind, legacy):
    found = read({"best": BESIDE[kind], "model": STATE, "log": [BESIDE[kind]]}, legacy)
    assert found.tensors.keys() == STATE.keys()
    assert all(torch.equal(found.tensors[name], STATE[name]) for name in STATE)
    assert kind in found.dropped
    plain = read({"model": STATE})
    assert not plain.dropped


def test_what_was_passed_over_is_said_in_the_report():
    from tests.checkpoint.references import weights

    found = recognise(read({"net": {"inner": weights("annotated")}, "when": datetime.date(2026, 1, 2)}), {})
    assert found.report.fits
    assert "datetime.date" in found.report.text
    assert "the weights lie under net.inner" in found.report.text


def test_a_defaultdict_is_a_dictionary():
    assert (
        read(collections.defaultdict(list, {"state_dict": collections.defaultdict(dict, STATE)})).place == "state_dict"
    )


class Strange:
    """What only a program could make again."""

    def __reduce__(self):
        return (print, ("made",))


def test_nothing_else_is_passed_over(capsys):
    for value in (Strange(), Strange, torch.nn.Linear(2, 3), pickle.loads):
        with pytest.raises(CheckpointError, match=r"asks to import|is damaged"):
            read({"model": STATE, "x": value})
    for kind in (np.float64(0.3), datetime.date(2026, 1, 2)):  # none of them can stand in a tensor's place
        with pytest.raises(CheckpointError, match="holds no tensors"):
            read({"model": {"weight": kind}})
    assert not capsys.readouterr().out

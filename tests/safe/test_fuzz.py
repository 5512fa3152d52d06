"""Mutated bytes of each format: never anything but a clean refusal, or a correct load."""

import io
import subprocess
import sys
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from tests.checkpoint.originals.common import scramble
from tests.checkpoint.originals.torch_modules import EncoderOnly
from tests.safe import hostile
from transformer.errors import CheckpointError
from transformer.safe.reading import read_stream

FORMATS = ("safetensors", "archive", "old")
many = settings(max_examples=60)


@cache
def _tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return scramble(EncoderOnly(5, 1, 4, 2, 3)).state_dict()


@cache
def _whole(file_format: str) -> bytes:
    if file_format == "safetensors":
        return save(_tensors())
    return hostile.saved({"epoch": 3, "model": _tensors()}, _use_new_zipfile_serialization=file_format == "archive")


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_unchanged_file_is_read_exactly(file_format):
    found = read_stream(io.BytesIO(_whole(file_format)), "whole").tensors
    assert all(torch.equal(found[name], tensor) for name, tensor in _tensors().items())


@many
@given(data=st.binary(max_size=300), start=st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x0a\0\0\0\0\0\0\0{"]))
def test_anything_at_all(data, start):
    with pytest.raises(CheckpointError):
        read_stream(io.BytesIO(start + data), "mutated")


@many
@given(steps=st.lists(st.sampled_from(sorted("}]()lut.Rbsae0Nq\x00h\x00\x85\x86\x87\x88\x89")), max_size=60))
def test_programs_of_random_steps(steps):
    program = b"\x80\x02" + "".join(steps).encode("latin-1") + b"."
    with pytest.raises(CheckpointError):
        read_stream(io.BytesIO(hostile.archive(program)), "mutated")


def test_mutants_are_refused_or_read_as_other_readers_read_them():
    """Each in a process with 4 GB and 20 s; `python -m tests.safe.fuzz --files 20000` does more of them."""
    command = [sys.executable, "-m", "tests.safe.fuzz", "--files", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 files, 0 bad" in done.stdout
    assert "read as others read it" in done.stdout

"""Which tensors of a file are its weights, what else people bring, and what beside the weights is passed over."""

import collections
import datetime
import io
import pathlib
import pickle
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from heedmap.checkpoint.foreign.bundle import bundle
from heedmap.checkpoint.foreign.recognition import recognise
from heedmap.checkpoint.weight_files import LIKE_WEIGHTS
from heedmap.errors import CheckpointError
from heedmap.safe.reading import read_stream
from tests.checkpoint.references import weights
from tests.safe import hostile
from tests.safe.archives import read_bytes

STATE = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}
LONE = torch.tensor(0.3)


def found_in(root: object) -> tuple[set[str], str]:
    found = read_bytes(hostile.saved(root))
    return set(found.tensors), found.place


OTHER = {name: tensor + 1 for name, tensor in STATE.items()}
ADAM = {
    "state": {0: {"exp_avg": STATE["layer.weight"], "exp_avg_sq": LONE, "step": LONE}},
    "param_groups": [{"lr": 0.1}],
}
PLACES: list[tuple[Any, str]] = [
    ({"model": STATE, "loss": LONE}, "model"),
    ({"loss": LONE, "model": STATE}, "model"),
    ({"epoch": 1, "state_dict": STATE, "best_acc1": LONE}, "state_dict"),
    ({"model": {"module": STATE, "step": LONE}}, "model.module"),
    ({"transformer": STATE, "optimizer": {"lr": 0.1}}, "transformer"),
    ({"checkpoint": {"model": STATE}}, "checkpoint.model"),
    ({"ema": STATE}, "ema"),
    ({"model": STATE, "ema": STATE}, "model"),
    (STATE, ""),
    ([STATE, ADAM], "0"),
    ((ADAM, STATE), "1"),
    ({"netG": STATE, "opt": ADAM}, "netG"),
    ({"ema_state_dict": STATE, "loss": LONE}, "ema_state_dict"),
    ({"best": {"weights_of_it": STATE}, "optimizer": {"a": LONE, "b": LONE, "c": LONE}}, "best.weights_of_it"),
    ({"student": STATE, "teacher": dict(STATE)}, "student"),
    ({"results": [{"epoch": 1}, {"epoch": 2, "net_state": STATE}]}, "results.1.net_state"),
    (collections.defaultdict(list, {"state_dict": collections.defaultdict(dict, STATE)}), "state_dict"),
]


@pytest.mark.parametrize(("root", "place"), PLACES)
def test_weights_are_found_beside_anything_under_any_name_and_in_lists(root: object, place: str) -> None:
    assert found_in(root) == (set(STATE), place)


def test_tensors_beside_the_weights_belong_to_them_where_there_are_as_many() -> None:
    assert found_in({**STATE, "extra": LONE}) == ({*STATE, "extra"}, "")
    assert found_in({"weight": LONE, "bias": LONE, "model": STATE}) == ({"weight", "bias"}, "")


@pytest.mark.parametrize(
    "names", [("encoder", "decoder"), ("encoder_state_dict", "decoder_state_dict"), ("encoder_state", "decoder_state"),
              ("en", "de"), ("enc", "dec")],
)  # fmt: skip
def test_a_pair_is_found_under_the_names_of_tutorials(names: tuple[str, str]) -> None:
    beside = {"en_opt": ADAM, "encoder_optimizer": {"a": LONE}, "loss": LONE}
    found, _ = found_in({names[0]: STATE, names[1]: OTHER, **beside})
    assert found == {f"{half}.{name}" for half in ("encoder", "decoder") for name in STATE}


NO_TENSORS = "holds no tensors"
UNREAD: list[tuple[Any, str]] = [
    ({"a": {"net": STATE}, "b": OTHER}, r"several sets of weights of one size: 'b', 'a\.net'"),
    ({"model": STATE, "pairs": {((1, 2), 3): 4}}, "a key is a tuple"),
    ({"best": {"weights": list(STATE.values())}}, NO_TENSORS),
    ([LONE, "a"], NO_TENSORS),
    (list(STATE.items()), NO_TENSORS),
    ({"model": {"weight": np.float64(0.3)}}, NO_TENSORS),  # nothing that is passed over can stand in a tensor's place
    ({"model": {"weight": datetime.date(2026, 1, 2)}}, NO_TENSORS),
]


@pytest.mark.parametrize(("root", "message"), UNREAD)
def test_where_no_weights_or_several_are_none_is_chosen(root: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        found_in(root)


def test_looking_everywhere_costs_no_more_than_the_file() -> None:
    """Long keys over many small containers, each reached in two ways: places are not written out."""
    inner: object = {str(i): {} for i in range(9_000)}
    for _ in range(50):
        inner = {"k" * 900: inner}
    with pytest.raises(CheckpointError, match="holds no tensors"):
        found_in({"first": inner, "second": inner})


def test_what_lies_under_a_tuple_is_passed_over_and_told() -> None:
    found = read_bytes(hostile.saved({"model": STATE | {("a", "b"): LONE}, "pairs": {(1, "a"): 3}, "best": 1}))
    assert set(found.tensors) == STATE.keys()
    assert found.dropped == ("dict[tuple]",)


def _written(write: Callable[[io.BytesIO], object]) -> bytes:
    held = io.BytesIO()
    write(held)
    return held.getvalue()


KINDS = {
    "npz of numpy": hostile.zip_of(("weight.npy", b"x"), packed=False),
    "model of Keras": hostile.zip_of(("metadata.json", b"x"), packed=False),
    "git-LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
    "GGUF": b"GGUF\x03\x00\x00\x00" + bytes(40),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "ONNX": b"\x08\x08\x12\x07pytorch\x1a\x052.9.0" + bytes(40),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "PDF": b"%PDF-1.7\n",
    "packed archive": tarfile.TarInfo("model.pt").tobuf(),
    "array of numpy": _written(lambda held: np.save(held, np.zeros(3))),
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


@pytest.mark.parametrize("write", hostile.TORCH)
@pytest.mark.parametrize("kind", BESIDE)
def test_plain_values_beside_the_weights_are_passed_over_by_name(kind, write):
    root = {"best": BESIDE[kind], "model": STATE, "log": [BESIDE[kind]]}
    found = read_bytes(write(root))
    assert found.tensors.keys() == STATE.keys()
    assert all(torch.equal(found.tensors[name], STATE[name]) for name in STATE)
    assert kind in found.dropped
    assert not read_bytes(hostile.saved({"model": STATE})).dropped


def test_what_was_passed_over_is_said_in_the_report():
    root = {"net": {"inner": weights("annotated")}, "when": datetime.date(2026, 1, 2)}
    found = recognise(read_bytes(hostile.saved(root)), {})
    assert found.fits
    assert "datetime.date" in found.text
    assert "the weights lie under net.inner" in found.text


class Strange:
    """What only a program could make again."""

    def __reduce__(self):
        return (print, ("made",))


def test_nothing_else_is_passed_over(capsys):
    for value in (Strange(), Strange, torch.nn.Linear(2, 3), pickle.loads):
        with pytest.raises(CheckpointError, match=r"asks to import|is damaged"):
            found_in({"model": STATE, "x": value})
    assert not capsys.readouterr().out

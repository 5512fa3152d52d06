"""Weights are found where trainers keep them, whatever lies beside them."""

import io

import pytest
import torch

from transformer.checkpoint.safe.reading import read_stream

STATE = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.ones(2)}
LONE = torch.tensor(0.3)


def read(root: object) -> tuple[set[str], str]:
    stream = io.BytesIO()
    torch.save(root, stream)
    found = read_stream(stream, "upload.pt")
    return set(found.tensors), found.place


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ({"model": STATE, "loss": LONE}, "model"),
        ({"loss": LONE, "model": STATE}, "model"),
        ({"epoch": 1, "state_dict": STATE, "best_acc1": LONE}, "state_dict"),
        ({"model": {"module": STATE, "step": LONE}}, "model.module"),
        ({"transformer": STATE, "optimizer": {"lr": 0.1}}, "transformer"),
        ({"checkpoint": {"model": STATE}}, "checkpoint.model"),
        ({"ema": STATE}, "ema"),
        ({"model": STATE, "ema": STATE}, "model"),
        ({**STATE, "extra": LONE}, ""),
        (STATE, ""),
    ],
)
def test_weights_are_found_beside_anything(root: dict[str, object], place: str) -> None:
    names, found = read(root)
    assert names >= STATE.keys()
    assert found == place
    assert ("extra" in names) == ("extra" in root)
    assert not names & {"loss", "best_acc1", "rng_state", "step"}


def test_the_pair_of_a_recurrent_model_is_found_beside_a_loss() -> None:
    names, place = read({"encoder": STATE, "decoder": STATE, "loss": LONE})
    assert names == {f"{half}.{name}" for half in ("encoder", "decoder") for name in STATE}
    assert not place


def test_as_many_tensors_above_as_below_are_the_weights_themselves() -> None:
    assert read({"weight": LONE, "bias": LONE, "model": STATE}) == ({"weight", "bias"}, "")

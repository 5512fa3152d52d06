"""Weights are found where trainers keep them, whatever lies beside them."""

import io

import pytest
import torch

from transformer.errors import CheckpointError
from transformer.safe.reading import read_stream

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


OTHER = {name: tensor + 1 for name, tensor in STATE.items()}
ADAM = {
    "state": {0: {"exp_avg": STATE["layer.weight"], "exp_avg_sq": LONE, "step": LONE}},
    "param_groups": [{"lr": 0.1}],
}


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ([STATE, ADAM], "0"),
        ((ADAM, STATE), "1"),
        ({"netG": STATE, "opt": ADAM}, "netG"),
        ({"ema_state_dict": STATE, "loss": LONE}, "ema_state_dict"),
        (
            {"best_model": {"weights_of_it": STATE}, "optimizer": {"a": LONE, "b": LONE, "c": LONE}},
            "best_model.weights_of_it",
        ),
        ({"student": STATE, "teacher": dict(STATE)}, "student"),
        ({"results": [{"epoch": 1}, {"epoch": 2, "net_state": STATE}]}, "results.1.net_state"),
    ],
)
def test_weights_are_found_under_any_name_and_in_lists(root: object, place: str) -> None:
    assert read(root) == (set(STATE), place)


PAIRS = [
    ("encoder_state_dict", "decoder_state_dict"), ("en", "de"), ("enc", "dec"), ("encoder1", "attn_decoder1"),
    ("my_encoder_model", "my_decoder_model"), ("Encoder", "AttnDecoder"),
]  # fmt: skip


@pytest.mark.parametrize("names", PAIRS)
def test_a_pair_is_found_under_the_names_of_tutorials(names: tuple[str, str]) -> None:
    found, _ = read({names[0]: STATE, names[1]: OTHER, "en_opt": ADAM, "encoder_optimizer": {"a": LONE}, "loss": 0.1})
    assert found == {f"{half}.{name}" for half in ("encoder", "decoder") for name in STATE}


def test_of_two_different_sets_of_one_size_none_is_chosen() -> None:
    with pytest.raises(CheckpointError, match=r"several sets of weights of one size: 'b', 'a\.net'"):
        read({"a": {"net": STATE}, "b": OTHER})


def test_looking_everywhere_costs_no_more_than_the_file() -> None:
    """Long keys over many small containers, each reached in two ways: places are not written out."""
    inner: object = {str(i): {} for i in range(9_000)}
    for _ in range(50):
        inner = {"k" * 900: inner}
    with pytest.raises(CheckpointError, match="holds no tensors"):
        read({"first": inner, "second": inner})


def test_what_lies_under_a_tuple_is_passed_over_and_told() -> None:
    stream = io.BytesIO()
    torch.save({"model": STATE, "pairs": {(1, "a"): 3}, "best": 1}, stream)
    found = read_stream(stream, "upload.pt")
    assert set(found.tensors) == STATE.keys()
    assert found.dropped == ("dict[tuple]",)
    with pytest.raises(CheckpointError, match="a key is a tuple"):
        read({"model": STATE, "pairs": {((1, 2), 3): 4}})


def test_a_tensor_under_a_tuple_of_words_is_called_after_them() -> None:
    assert read({"model": {("layer", "weight"): LONE, ("blocks", 0, "b"): LONE, "c": LONE}}) == (
        {"layer.weight", "blocks.0.b", "c"}, "model",
    )  # fmt: skip
    with pytest.raises(CheckpointError, match=r"two tensors are called 'layer\.weight'"):
        read({"model": STATE | {("layer", "weight"): LONE}})
    for key in ((), ("a", None), ("a", 2.5), (True, "a"), ("a", 2**40)):
        with pytest.raises(CheckpointError, match="a tensor lies under a tuple that holds more than words"):
            read({"model": STATE | {key: LONE}})


def test_tensors_in_lists_are_refused() -> None:
    for root in ({"best": {"weights": list(STATE.values())}}, [LONE, "a"], list(STATE.items())):
        with pytest.raises(CheckpointError, match="holds no tensors"):
            read(root)

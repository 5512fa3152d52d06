"""What a folder asks for beyond its files is refused by name and not tried; what a trial costs is told as it is."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from heedmap.checkpoint.huggingface.library import quiet
from heedmap.checkpoint.load import load
from heedmap.checkpoint.worker import isolated
from heedmap.checkpoint.worker.isolated import Trial, run_once
from heedmap.checkpoint.worker.wire_format import GarbledError
from heedmap.errors import CheckpointError
from heedmap.safe.limits import ReadLimits
from tests.checkpoint.huggingface.families import write_folder
from tests.imports import ROOT

SIZES: dict[str, Any] = dict(
    vocab_size=37, embedding_size=8, hidden_size=8, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=61, num_hidden_layers=3, pad_token_id=0, bos_token_id=2, eos_token_id=3,
)  # fmt: skip


@pytest.fixture
def albert(tmp_path: Path) -> Path:
    """Layers that share one layer's weights: what they ask for weighs nothing."""
    torch.manual_seed(3)
    with quiet():
        transformers.AlbertForMaskedLM(transformers.AlbertConfig(**SIZES)).save_pretrained(tmp_path / "albert")
    return tmp_path / "albert"


def change(folder: Path, **values: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def add_tensors(folder: Path, count: int) -> None:
    """Weights that no model uses, beside those of the folder."""
    file = folder / "model.safetensors"
    whole = load_file(file) | {f"dummy.{i}": torch.zeros(1) for i in range(count)}
    save_file(whole, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("values", "dummies", "reason"),
    [
        ({"num_hidden_layers": 15_000}, 15_000, r"asks for 15,000 layers \(num_hidden_layers\), at most 200 are built"),
        ({"num_hidden_layers": 201}, 300, r"asks for 201 layers \(num_hidden_layers\), at most 200 are built"),
        ({"num_hidden_layers": 200}, 300, r"describes 200 layers \(num_hidden_layers\), the weights hold 28 tensors"),
        ({"layer_types": ["full_attention"] * 207}, 300, r"asks for 207 layers \(layer_types\)"),
        ({"inner_group_num": 9_973}, 300, r"describes at least 2,657 tensors, the weights hold 328"),
        ({"num_hidden_groups": 9_973}, 0, r"describes at least 2,057 tensors, the weights hold 28"),
        ({"intermediate_size": 2**26}, 0, r"describes [\d,]+ numbers, the weights hold 1,613"),
        ({"hidden_size": 2**15}, 0, r"describes [\d,]+ numbers, the weights hold"),
        ({"vocab_size": 2**27}, 0, r"describes [\d,]+ numbers, the weights hold"),
        ({"max_position_embeddings": 2**28}, 0, r"describes [\d,]+ numbers, the weights hold"),
    ],
)
def test_what_is_asked_for_beyond_the_weights_is_refused_by_name_and_not_tried(
    albert: Path, values: dict[str, Any], dummies: int, reason: str
) -> None:
    """A worker that tried it would have come to the end of its time or its memory, and would say that."""
    change(albert, **values)
    add_tensors(albert, dummies)
    with pytest.raises(CheckpointError, match=rf"albert/config\.json is refused: (it|its config) {reason}"):
        isolated.load_folder(albert)


def test_who_loads_it_in_a_program_may_allow_more_layers(albert: Path) -> None:
    change(albert, num_hidden_layers=23)
    with pytest.raises(CheckpointError, match=r"23 layers .* at most 22 are built.*raise ReadLimits\.layers"):
        load(albert, limits=ReadLimits(layers=22))
    assert len(load(albert, limits=ReadLimits(layers=23)).sites) == 23


@pytest.mark.parametrize("family", ["gpt2", "bert", "marian"])
def test_an_ordinary_folder_is_accepted_and_its_numbers_are_plausible(tmp_path: Path, family: str) -> None:
    folder = write_folder(tmp_path / family, family)
    found = isolated.tried_folder(folder)
    assert found.architecture == load(folder).architecture
    assert found.load_seconds > 0
    stored = sum(tensor.nbytes for tensor in load_file(folder / "model.safetensors").values())
    assert 0.9 * stored <= found.memory_bytes


@pytest.mark.parametrize(("family", "reads"), [("bert", 1), ("gpt2", 1), ("marian", 10)])
def test_the_run_is_of_a_short_text_without_marks(tmp_path: Path, family: str, reads: int) -> None:
    """An encoder-decoder encodes it, writes at most 8 tokens, and passes them through once more."""
    found = load(write_folder(tmp_path / family, family))
    given = list[dict[str, Any]]()
    net: Any = found.model.get_submodule("net")
    net.register_forward_pre_hook(lambda _, __, inputs: given.append(inputs), with_kwargs=True)
    run_once(found)
    assert 1 <= len(given) <= reads
    ids = given[-1]["input_ids"]
    assert ids.shape == (1, min(isolated.READ, found.model.config.max_length - 1))
    assert not set(ids[0].tolist()) & {found.model.config.pad_id, found.model.config.eos_id}
    if reads > 1:
        assert 1 <= given[-1]["decoder_input_ids"].shape[1] <= isolated.WRITTEN


TRIAL: dict[str, Any] = {
    "architecture": "seq2seq", "load_seconds": 0.5, "run_seconds": 0.25, "weight_bytes": 1_009, "grown_bytes": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("architecture", value) for value in (None, 7, "gru", ["seq2seq"], "hugging-face-")),
        *((f"{name}_seconds", value) for name in ("load", "run") for value in (None, "1", -0.1, math.nan, math.inf, 1)),
        *((f"{name}_bytes", value) for name in ("weight", "grown") for value in (None, "1", -1, 1.5, True, 2**45)),
    ],
    ids=repr,
)  # fmt: skip
def test_an_answer_of_another_kind_is_not_understood(name: str, wrong: Any) -> None:
    assert Trial.of(TRIAL) == Trial("seq2seq", 0.5, 0.25, 1_009)
    with pytest.raises(GarbledError):
        Trial.of(TRIAL | {name: wrong})


def test_what_a_process_grew_by_counts_where_it_is_more_than_usual() -> None:
    usual = isolated.USUAL_GROWTH
    assert Trial.of(TRIAL | {"grown_bytes": usual + 1_013}).memory_bytes == 1_013
    assert Trial.of(TRIAL | {"grown_bytes": usual + 997}).memory_bytes == 1_009


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        ({"load_seconds": 3.26}, r"building the model took 3\.3 s of work, at most 3 s are allowed\. Remedy: bring"),
        ({"run_seconds": 1.26}, r"one short run of its model took 1\.3 s of work, at most 1 s are allowed\. Rem"),
    ],
)  # fmt: skip
def test_what_takes_too_long_is_refused_with_what_it_took_and_may_take(seconds: dict[str, float], reason: str) -> None:
    found = Trial.of(TRIAL | seconds)
    with pytest.raises(CheckpointError, match=f"big is refused: {reason}"):
        found.check("big", 1_000_000)
    found.check("big", 40 * isolated.MEGABYTES_A_SECOND * 1024**2)  # a large file may take longer


def test_a_slow_model_is_refused_before_the_server_builds_it(albert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "load_with", None)
    monkeypatch.setattr(isolated, "LOAD_SECONDS", 0.0)
    with pytest.raises(CheckpointError, match=r"albert is refused: building the model took [\d.]+ s .* at most 0 s"):
        isolated.load_folder(albert)


HOARDED = """
import json, sys, torch
from heedmap import load
from heedmap.checkpoint.worker.isolated import measured
kept = []
print(json.dumps(measured(lambda: (kept.append(torch.ones(50_000_000)), load(sys.argv[1]))[1])))
"""


def test_memory_that_lies_in_no_parameter_counts_as_growth(tmp_path: Path) -> None:
    """A table that a model keeps as it likes: the process is larger by it. One of its own: others give back memory."""
    command = [sys.executable, "-c", HOARDED, str(write_folder(tmp_path / "gpt2", "gpt2"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    cost = json.loads(done.stdout.splitlines()[-1])
    assert cost["grown_bytes"] > 195_000_000
    assert cost["weight_bytes"] < 1_000_000
    assert Trial.of(cost).memory_bytes >= 195_000_000 - isolated.USUAL_GROWTH

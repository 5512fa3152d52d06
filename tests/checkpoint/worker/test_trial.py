"""What a folder asks for beyond its files is refused by name and fast; what an ordinary one costs is told as it is."""

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

from tests.checkpoint.huggingface.families import write_folder
from tests.checkpoint.references import reference_file
from tests.checkpoint.worker.fuzz import work
from tests.imports import ROOT
from tests.pages.tiny import save_tiny
from transformer import load
from transformer.checkpoint import ReadLimits
from transformer.checkpoint.huggingface.library import quiet
from transformer.checkpoint.ours.convert import convert
from transformer.checkpoint.worker import isolated, trial
from transformer.checkpoint.worker.trial import Trial, run_once
from transformer.checkpoint.worker.wire_format import GarbledError
from transformer.errors import CheckpointError

SIZES: dict[str, Any] = dict(
    vocab_size=37, embedding_size=8, hidden_size=8, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=61, num_hidden_layers=3, pad_token_id=0, bos_token_id=2, eos_token_id=3,
)  # fmt: skip
SECONDS = 30.0
"""In which a folder is refused, however busy the machine: the first worker imports the transformers library."""


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
def test_what_is_asked_for_beyond_the_weights_is_refused_by_name_and_fast(
    albert: Path, values: dict[str, Any], dummies: int, reason: str
) -> None:
    change(albert, **values)
    add_tensors(albert, dummies)
    before = work()
    with pytest.raises(CheckpointError, match=rf"albert/config\.json is refused: (it|its config) {reason}"):
        isolated.load_folder(albert)
    assert work() - before < SECONDS


def test_who_loads_it_in_a_program_may_allow_more_layers(albert: Path) -> None:
    change(albert, num_hidden_layers=23)
    with pytest.raises(CheckpointError, match=r"23 layers .* at most 22 are built.*raise ReadLimits\.layers"):
        load(albert, limits=ReadLimits(layers=22))
    assert len(load(albert, limits=ReadLimits(layers=23)).sites) == 23


def test_a_folder_of_ours_has_as_many_layers_at_most_and_no_larger_table_than_its_weights(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    convert(reference_file("torch-prenorm"), folder, n_heads=4, scale_embedding=True)
    about = json.loads((folder / "config.json").read_text())
    d_model = about["config"]["d_model"]
    held = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    rows = (2 * held + 10_000_000) // d_model
    for values, reason in (
        ({"n_encoder_layers": 201}, "describes 201 layers, at most 200 are built"),
        ({"positions": "sinusoidal", "max_length": rows + 1}, rf"a table of {rows + 1:,} positions"),
    ):
        changed = {**about, "config": about["config"] | values}
        (folder / "config.json").write_text(json.dumps(changed))
        with pytest.raises(CheckpointError, match=reason):
            load(folder)
    without = {name: value for name, value in about["config"].items() if name != "d_model"}  # then it is 512
    (folder / "config.json").write_text(
        json.dumps({**about, "config": without | {"positions": "sinusoidal", "max_length": rows}})
    )
    with pytest.raises(CheckpointError, match=rf"a table of {rows:,} positions"):
        load(folder)


@pytest.mark.parametrize("family", ["gpt2", "bert", "marian"])
def test_an_ordinary_folder_is_accepted_and_its_numbers_are_plausible(tmp_path: Path, family: str) -> None:
    folder = write_folder(tmp_path / family, family)
    found = isolated.tried_folder(folder)
    assert found.architecture == load(folder).architecture
    assert 0 < found.load_seconds < trial.LOAD_SECONDS
    assert 0 <= found.run_seconds < trial.RUN_SECONDS
    stored = sum(tensor.nbytes for tensor in load_file(folder / "model.safetensors").values())
    assert 0.9 * stored <= found.held_bytes <= 2 * stored


def test_a_folder_of_ours_is_run_too(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    found = isolated.tried_folder(next(path for path in tmp_path.iterdir() if path.is_dir()))
    assert (found.architecture, found.held_bytes > 0) == ("seq2seq", True)


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
    assert ids.shape == (1, min(trial.READ, found.model.config.max_length - 1))
    assert not set(ids[0].tolist()) & {found.model.config.pad_id, found.model.config.eos_id}
    if reads > 1:
        assert 1 <= given[-1]["decoder_input_ids"].shape[1] <= trial.WRITTEN


GOOD: dict[str, Any] = {
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
    assert Trial.of(GOOD) == Trial("seq2seq", 0.5, 0.25, 1_009)
    with pytest.raises(GarbledError):
        Trial.of(GOOD | {name: wrong})


def test_what_a_process_grew_by_counts_where_it_is_more_than_usual() -> None:
    usual = trial.USUAL_GROWTH
    assert Trial.of(GOOD | {"grown_bytes": usual + 1_013}).held_bytes == 1_013
    assert Trial.of(GOOD | {"grown_bytes": usual + 997}).held_bytes == 1_009


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        ({"load_seconds": 3.26}, r"building the model took 3\.3 s of work, at most 3 s are allowed\. Remedy: bring"),
        ({"run_seconds": 1.26}, r"one short run of its model took 1\.3 s of work, at most 1 s are allowed\. Rem"),
    ],
)  # fmt: skip
def test_what_takes_too_long_is_refused_with_what_it_took_and_may_take(seconds: dict[str, float], reason: str) -> None:
    found = Trial.of(GOOD | seconds)
    with pytest.raises(CheckpointError, match=f"big is refused: {reason}"):
        found.check("big", 1_000_000)
    found.check("big", 40 * trial.MEGABYTES_A_SECOND * 1024**2)  # a large file may take longer


def test_a_slow_model_is_refused_before_the_server_builds_it(albert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "load_with", None)
    monkeypatch.setattr(trial, "LOAD_SECONDS", 0.0)
    with pytest.raises(CheckpointError, match=r"albert is refused: building the model took [\d.]+ s .* at most 0 s"):
        isolated.load_folder(albert)


HOARDED = """
import json, sys, torch
from transformer import load
from transformer.checkpoint.worker.trial import measured
kept = []
print(json.dumps(measured(lambda: (kept.append(torch.ones(50_000_000)), load(sys.argv[1]))[1])[1]))
"""


def test_memory_that_lies_in_no_parameter_counts_as_growth(tmp_path: Path) -> None:
    """A table that a model keeps as it likes: the process is larger by it. One of its own: others give back memory."""
    command = [sys.executable, "-c", HOARDED, str(write_folder(tmp_path / "gpt2", "gpt2"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    cost = json.loads(done.stdout.splitlines()[-1])
    assert 195_000_000 < cost["grown_bytes"] < 400_000_000
    assert cost["weight_bytes"] < 1_000_000
    assert Trial.of(cost).held_bytes >= 195_000_000 - trial.USUAL_GROWTH

"""Our own folders: what is written is read back; what does not fit is named."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformer import Checkpoint, load
from transformer.checkpoint.ours.folder import load_snapshot, save_folder, save_weights
from transformer.errors import CheckpointError
from transformer.nn.encoder import Encoder, EncoderConfig
from transformer.nn.seq2seq import Seq2Seq, preset
from transformer.text.text import train_tokenizer

SENTENCES = ["a dog runs in the snow", "two dogs run", "the snow is white"] * 5


@pytest.fixture
def model() -> Seq2Seq:
    sizes = dict(
        source_vocab=37, target_vocab=37, d_model=10, n_heads=2, d_ff=14, n_encoder_layers=1, n_decoder_layers=2
    )
    return Seq2Seq(preset("jadore", max_length=20, **sizes)).eval()


@pytest.fixture
def folder(tmp_path: Path, model: Seq2Seq) -> Path:
    path = tmp_path / "tiny"
    save_folder(path, "seq2seq", model, train_tokenizer(SENTENCES, 37), ("English", "German"), ("a dog",), half=False)
    return path


def outputs(model: torch.nn.Module) -> torch.Tensor:
    return model(torch.tensor([[5, 6, 3]]), torch.tensor([[2, 7]]))


def test_what_is_written_is_read_back(folder: Path, model: Seq2Seq) -> None:
    found = load(folder)
    assert torch.equal(outputs(found.model), outputs(model))
    assert found.model.config == model.config
    assert (found.name, found.languages, found.examples) == ("tiny", ("English", "German"), ("a dog",))
    assert found.tokenizer is not None
    assert found.tokenizer.decode(found.tokenizer.encode("two dogs run")) == "two dogs run"
    assert not found.model.training
    assert found.n_parameters == sum(p.numel() for p in model.parameters())


def test_half_precision_halves_the_file_and_is_read_as_float32(tmp_path: Path, model: Seq2Seq) -> None:
    for half in (True, False):
        save_folder(tmp_path / str(half), "seq2seq", model, half=half)
    halved, whole = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("True", "False"))
    assert halved < 0.7 * whole
    parameter = next(load(tmp_path / "True").model.parameters())
    assert parameter.dtype == torch.float32


def test_a_snapshot_is_the_same_model_with_other_weights(folder: Path, model: Seq2Seq) -> None:
    now: Checkpoint = load(folder)
    earlier = Seq2Seq(model.config).eval()
    save_weights(folder / "history" / "000050.safetensors", dict(earlier.named_parameters()), half=False)
    then = load_snapshot(now, folder / "history" / "000050.safetensors")
    assert then.name == "tiny@000050"
    assert torch.equal(outputs(then.model), outputs(earlier))
    assert not torch.equal(outputs(then.model), outputs(now.model))


def test_loading_leaves_the_callers_randomness_alone(folder: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load(folder)
    assert torch.equal(torch.rand(3), expected)


def test_weights_that_do_not_fit_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "encoder.0.self_attention.query.weight"
    for change, words in (
        ({name: None}, f"missing.*{name}"),
        ({"extra": torch.zeros(2)}, "unexpected.*extra"),
        ({name: torch.zeros(3, 3)}, r"shape \(3, 3\), the config asks for \(10, 10\)"),
        ({name: torch.full((10, 10), torch.nan)}, "NaN or infinity"),
    ):
        save_file({k: v for k, v in {**weights, **change}.items() if v is not None}, path)
        with pytest.raises(CheckpointError, match=words):
            load(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "does not describe a known model"),
        ('{"architecture": "seq2seq", "config": {"d_model": 3}}', "does not describe a known model"),
        ('{"architecture": "lstm", "config": {}}', "seq2seq"),
    ],
)
def test_a_config_that_means_nothing_is_refused(folder: Path, content: str, words: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=words):
        load(folder)


def test_damaged_files_are_refused_by_name(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(CheckpointError, match=r"tiny/model\.safetensors"):
        load(folder)


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        load(folder)


@pytest.mark.parametrize(("value", "reads"), [(0, True), (3, False)])
def test_an_option_of_older_folders_that_changes_nothing_is_passed_over(
    value: int, reads: bool, tmp_path: Path
) -> None:
    save_folder(tmp_path / "old", "encoder", Encoder(EncoderConfig(vocab=11, d_model=6, n_heads=2, n_layers=1, d_ff=7)))
    about = json.loads((tmp_path / "old" / "config.json").read_text())
    about["config"] |= {"conv_width": value, "early": [], "segment": False}
    (tmp_path / "old" / "config.json").write_text(json.dumps(about))
    if reads:
        assert load(tmp_path / "old").model.config.d_ff == 7
        return
    with pytest.raises(CheckpointError, match="conv_width"):
        load(tmp_path / "old")
